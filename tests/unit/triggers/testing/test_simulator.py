"""The simulator finds the bugs of sample services by a short script, and lets their correct twins pass."""

import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from history import ConfigurationError, Message
from resolvers import Resolution, Resolved
from tests.fixtures.proof import Proved
from tests.unit.triggers.testing.planted import KINDS, LEDGER, ORDER, Sample, book, looks, made, of_tasks
from triggers.testing import exactly_once

pytestmark = pytest.mark.proof

#: Pairs of faults take longer than all other tests here together; so only some samples are tried with them.
QUICK: dict[str, Any] = {"crashes": 1}

#: The most deliveries that a shortest script may have.
SHORT = 8


def cases() -> Iterator[tuple[Callable[[Path], dict[str, Sample]], str]]:
    """Return the names of all samples; this needs no database."""
    import tempfile  # noqa: PLC0415

    for kind in KINDS:
        with tempfile.TemporaryDirectory() as folder:
            yield from ((kind, name) for name in kind(Path(folder)))


@pytest.mark.parametrize(("kind", "name"), [pytest.param(*case, id=case[1]) for case in cases()])
def test_what_is_planted_is_found_and_nothing_else(
    kind: Callable[[Path], dict[str, Sample]], name: str, tmp_path: Path, proved: Proved
) -> None:
    sample = kind(tmp_path)[name]

    report = exactly_once(
        sample.trigger, sample.messages, effects=sample.effects, reset=sample.reset, **QUICK | sample.options
    )

    proved(scripts=report.scripts)
    match sample.planted:
        case "doubled":
            assert not report.never_twice, report
        case "lost":
            assert not report.none_lost, report
        case _:
            report.check()
    assert report.shortest is None or len(report.shortest) <= SHORT


def test_pairs_of_faults_and_runs_by_chance_find_nothing_in_a_correct_service(proved: Proved) -> None:
    report = exactly_once(made(book, resolver=looks), [ORDER], effects=LEDGER)
    proved(scripts=report.scripts)

    report.check()
    assert report.scripts > 200, "all single faults and many pairs of them"


def test_the_log_says_nothing_about_tasks_that_died(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    sample = of_tasks(tmp_path)["in tasks"]

    exactly_once(sample.trigger, sample.messages, effects=sample.effects, reset=sample.reset, **QUICK)

    assert caplog.messages == []


def test_a_script_that_was_found_runs_again() -> None:
    report = exactly_once(made(book, in_doubt="execute"), [ORDER], effects=LEDGER)
    found = report.shortest
    assert found is not None

    again = report.replay(found.replay)

    assert again.scripts == 1
    assert [str(one) for one in again.doubled] == [str(found)]


def test_the_report_shows_the_script_in_the_words_of_the_table() -> None:
    report = exactly_once(made(book, in_doubt="execute"), [ORDER], effects=LEDGER)

    assert "DOUBLED: N-1: 2 times instead of 1" in str(report)
    assert "row 10: an earlier run did not finish" in str(report)
    assert "replay(" in repr(report)
    with pytest.raises(AssertionError, match="the process dies after"):
        report.check()


def test_the_same_seed_runs_the_same_scripts() -> None:
    first, second = (
        exactly_once(made(book, transacted=True), [ORDER], effects=LEDGER, crashes=1, seed=7)
        for _ in range(2)
    )

    assert (first.scripts, first.parked) == (second.scripts, second.parked)


def test_a_handler_that_acts_after_the_death_is_warned_of_and_is_no_evidence() -> None:
    bank: list[str] = []

    def books(order: dict[str, Any]) -> None:
        try:
            order["id"].strip()
        finally:
            bank.append(order["id"])

    report = exactly_once(made(books), [ORDER], effects=bank, reset=bank.clear, crashes=1)

    assert report.never_twice, report
    assert any("after the process had died" in warning for warning in report.warnings)


def test_a_list_or_mapping_of_effects_is_brought_back_by_itself() -> None:
    booked: list[str] = ["N-0"]

    def books(order: dict[str, Any]) -> None:
        booked.append(order["id"])

    report = exactly_once(made(books), [ORDER], effects=booked, crashes=1)

    report.check()
    assert booked == ["N-0"]


@pytest.mark.parametrize("reset", [None, lambda: None])
def test_effects_that_the_run_before_has_left_are_refused(
    reset: Callable[[], None] | None, tmp_path: Path
) -> None:
    booked = tmp_path / "booked.txt"
    booked.touch()

    def books(order: dict[str, Any]) -> None:
        booked.write_text(booked.read_text() + order["id"] + "\n")

    with pytest.raises(ConfigurationError, match=r"reset: .*; give a function that brings back"):
        exactly_once(
            made(books), [ORDER], effects=lambda: booked.read_text().splitlines(), reset=reset, crashes=1
        )


SEEN: set[str] = set()


def book_unless_seen(order: dict[str, Any]) -> None:
    if order["id"] not in SEEN:
        SEEN.add(order["id"])
        LEDGER.record(order["id"])


class Shop:
    def __call__(self, order: dict[str, Any]) -> None:
        book_unless_seen(order)


class AsyncShop:
    async def __call__(self, order: dict[str, Any]) -> None:
        book_unless_seen(order)


def of_a_route() -> Any:
    book_other = made(lambda: None, in_doubt="execute")
    book_other.route("orders", filter="TRUE")(book_unless_seen)
    return book_other


@pytest.mark.parametrize(
    "trigger",
    [
        made(Shop(), in_doubt="execute"),
        made(AsyncShop(), in_doubt="execute"),
        made(functools.partial(book_unless_seen), in_doubt="execute"),
        of_a_route(),
    ],
    ids=["object", "asyncio object", "partial", "route"],
)
def test_what_a_service_of_any_kind_remembers_dies_with_its_process(trigger: Any) -> None:
    report = exactly_once(trigger, [ORDER], effects=LEDGER, crashes=1)

    assert report.scripts > 20, "all single faults"
    assert not report.never_twice, report


last_booked: str | None = None


def book_unless_last(order: dict[str, Any]) -> None:
    global last_booked  # noqa: PLW0603  (as users do)
    if order["id"] != last_booked:
        last_booked = order["id"]
        LEDGER.record(order["id"])


def test_a_variable_dies_with_its_process_whatever_else_is_none() -> None:
    report = exactly_once(made(book_unless_last, in_doubt="execute"), [ORDER], effects=LEDGER, crashes=1)

    assert not report.never_twice, report
    assert report.none_lost, report
    assert last_booked is None


TABLE: dict[str, int] = {}


def book_unless_in_table(order: dict[str, Any]) -> None:
    if order["id"] not in TABLE:
        LEDGER.record(order["id"])
        TABLE[order["id"]] = 1


def nobody_knows(booked: dict[str, int], _uuid: str, _trigger: str, _message: Message) -> Resolved:
    return Resolved(Resolution.IN_DOUBT, f"{len(booked)} are booked")


class Unknowing:
    def __call__(self, _uuid: str, _trigger: str, _message: Message) -> Resolved:
        return Resolved(Resolution.IN_DOUBT, f"{len(TABLE)} are booked")


@pytest.mark.parametrize(
    ("resolver", "keep"),
    [(None, [TABLE]), (functools.partial(nobody_knows, TABLE), []), (Unknowing(), [])],
    ids=["keep", "partial", "object"],
)
def test_what_outlives_the_process_is_brought_back_before_each_script(resolver: Any, keep: Any) -> None:
    service = made(book_unless_in_table, resolver=resolver)

    report = exactly_once(service, [ORDER], effects=LEDGER, crashes=1, keep=keep)

    report.check()
    assert report.scripts > 20, "all single faults"


async def test_it_runs_inside_of_an_event_loop() -> None:
    report = exactly_once(made(book), [ORDER], effects=LEDGER, crashes=1)

    assert report.never_twice, report


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"effects": 5}, "effects"),
        ({"effects": LEDGER, "crashes": -1}, "crashes"),
        ({"effects": LEDGER, "deliveries": 0}, "deliveries"),
        ({"effects": LEDGER, "counts": "some"}, "counts"),
        ({"effects": LEDGER, "script": "nonsense"}, "script"),
    ],
    ids=["effects", "crashes", "deliveries", "counts", "script"],
)
def test_what_makes_no_sense_is_refused(options: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigurationError, match=named):
        exactly_once(made(book), [ORDER], **options)


def test_only_triggers_are_run() -> None:
    with pytest.raises(ConfigurationError, match="no trigger"):
        exactly_once(book, [ORDER], effects=LEDGER)
    with pytest.raises(ConfigurationError, match="none"):
        exactly_once(made(book), [], effects=LEDGER)
