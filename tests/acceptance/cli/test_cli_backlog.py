"""``doubtless backlog`` counts the messages that wait for triggers. ``size`` computes what a load needs."""

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


def test_a_load_is_told_in_memory_and_disk(doubtless: InProcess) -> None:
    answer = doubtless("size", "--rate", "100/s", "--keep", "1d", "--json")

    needs = {row["store"]: row for row in answer.json}
    assert (answer.code, needs["redis"]["entries"]) == (0, 1.5 * 100 * 86400)
    assert needs["redis"]["bytes"] == 26 * 1.5 * 100 * 86400
    assert needs["postgresql"]["entries"] == 100 * 86400
    assert {row["where"] for row in answer.json} == {"memory", "disk"}


def test_kept_results_come_on_top(doubtless: InProcess) -> None:
    without, tiny, large = (
        doubtless("size", "--rate", "10/s", *words, "--json").json[0]["bytes"]
        for words in ((), ("--result", "0"), ("--result", "1000"))
    )

    assert without < tiny
    assert large - tiny == 1000 * 10 * 7 * 86400


def test_people_read_it_as_a_table(doubtless: InProcess) -> None:
    answer = doubtless("size", "--rate", "2000/s")

    assert "47.2 GB" in answer.out


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--rate", "2000"), "--rate: '2000' is not a rate; write 2000/s, 5000/h or 1000000/d"),
        (("--rate", "-1/s"), "--rate: '-1/s' is not a rate"),
        (
            ("--rate", "1/s", "--keep", "a week"),
            "--keep: 'a week' is not a time; write 500ms, 30s, 15m, 2h",
        ),
        (("--rate", "1/s", "--result", "-1"), "--result"),
        ((), "--rate"),
    ],
)
def test_what_is_no_load_is_refused(doubtless: InProcess, words: tuple[str, ...], problem: str) -> None:
    answer = doubtless("size", *words)

    assert answer.code == 2
    assert problem in answer.err
