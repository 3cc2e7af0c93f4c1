"""``doubtless parked resolve``: what the resolver says now; nothing is changed."""

import pytest

from history.beside.kept import KeepsBeside
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
    doubtless: InProcess, store: KeepsBeside, redis_url: str, uuid: str, code: int, said: str
) -> None:
    (doubtless.folder / "asked.py").write_text(MODULE)
    park(store, aside(uuid, "N-1"))

    answer = doubtless("parked", "resolve", "asked", uuid, "--history", redis_url)

    assert (answer.code, answer.out.strip()) == (code, f"{uuid}: {said}")
    assert ids_in(store) == [uuid * 2]


def test_comments_are_written_and_shown_with_their_author(
    doubtless: InProcess, redis_url: str, store: KeepsBeside
) -> None:
    park(store, aside("u1", "N-1"))
    words = ("--by", "ana", "--history", redis_url)

    wrote = doubtless("parked", "comment", "u1", "asked the bank", "--assign", "bob", *words)
    freed = doubtless("parked", "comment", "u1u1", "--assign", "nobody", *words)
    silent = doubtless("parked", "comment", "u1", *words)
    shown = doubtless("parked", "show", "u1", "--history", redis_url)

    assert (wrote.code, freed.code, silent.code) == (0, 0, 2)
    comments = [(one["by"], one["text"], one["assigned_to"]) for one in shown.json["comments"]]
    assert comments == [("ana", "asked the bank", "bob"), ("ana", None, "")]
    assert all("@" in one["as_user"] and one["at"] for one in shown.json["comments"])
