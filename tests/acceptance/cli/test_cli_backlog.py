"""``doubtless backlog``: what waits for the triggers of a module."""

import pytest

from tests.acceptance.in_process import InProcess

SHOP = """
from triggers import trigger

@trigger("orders", name="book")
def book(order: dict):
    pass
"""


@pytest.fixture
def shop(doubtless: InProcess) -> InProcess:
    """A folder with a module, a file of messages, and two orders in it."""
    (doubtless.folder / "backlogged.py").write_text(SHOP)
    (doubtless.folder / "orders.jsonl").write_text('{"body": 1}\n{"body": 2}\n')
    assert doubtless("send", "orders", "orders.jsonl").code == 0
    return doubtless


def test_it_says_how_much_waits_and_since_when(shop: InProcess) -> None:
    answer = shop("backlog", "backlogged", "--json")

    (row,) = answer.json
    assert answer.code == 0
    assert (row["destination"], row["subscription"], row["waiting"], row["held"]) == ("orders", "book", 2, 0)
    assert row["oldest"] is not None


def test_an_alarm_rings_when_more_wait(shop: InProcess) -> None:
    codes = [shop("backlog", "backlogged", "--most", str(most)).code for most in (1, 2)]

    assert codes == [1, 0]


def test_a_table_is_for_people(shop: InProcess) -> None:
    lines = shop("backlog", "backlogged").out.splitlines()

    assert lines[0].split() == [
        *("destination", "subscription", "waiting", "held", "later", "consumers", "oldest"),
    ]
    assert lines[1].split()[:5] == ["orders", "book", "2", "0", "0"]


@pytest.mark.parametrize(
    ("provider", "remedy"),
    [("jms+tcp://a:1?factory=x&classpath=y", "ask its own tools"), ("sqlite:///gone.db", "there is no file")],
)
def test_what_cannot_be_asked_is_refused_with_a_remedy(shop: InProcess, provider: str, remedy: str) -> None:
    answer = shop("backlog", "backlogged", "--provider", provider)

    assert answer.code == 2
    assert "--provider" in answer.err
    assert remedy in answer.err
