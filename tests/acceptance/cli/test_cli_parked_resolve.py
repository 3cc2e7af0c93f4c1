"""``doubtless parked resolve``: what the resolver says now; nothing is changed."""

import pytest

from history.store import HistoryStore
from tests.acceptance.cli.test_cli_parked import aside, ids_in, park
from tests.acceptance.in_process import InProcess

MODULE = """
from resolvers import Resolution, Resolved
from triggers import trigger

def look(uuid, trigger_name, message):
    if uuid == "u2":
        raise OSError("the ledger is away")
    return Resolved(Resolution.DUPLICATE, "the booking is there")

@trigger("orders", name="book", resolver=look)
def book(order: dict) -> None:
    raise AssertionError("nothing runs")
"""


@pytest.mark.parametrize(
    ("uuid", "code", "said"),
    [
        ("u1", 0, "DUPLICATE: the booking is there"),
        ("u2", 1, "the resolver failed: OSError: the ledger is away"),
    ],
)
def test_the_resolver_is_asked_and_nothing_changes(
    doubtless: InProcess, store: HistoryStore, redis_url: str, uuid: str, code: int, said: str
) -> None:
    (doubtless.folder / "asked.py").write_text(MODULE)
    park(store, aside(uuid, "N-1"))

    answer = doubtless("parked", "resolve", "asked", uuid, "--history", redis_url)

    assert (answer.code, answer.out.strip()) == (code, f"{uuid}: {said}")
    assert ids_in(store) == [uuid * 2]
