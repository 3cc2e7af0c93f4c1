"""``doubtless size``: what a load needs, before there is a history."""

import pytest

from tests.acceptance.in_process import InProcess


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
