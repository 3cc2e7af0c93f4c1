"""Repeated records are counted: nobody can fill the history with them, or hide among others' records."""

from history.beside.security import SecurityEvent, SecurityOutcome, SecurityRecord
from triggers.security.gathering import MOST_UNKNOWN, WINDOW, Gatherer


def wrong_token(address: str, user: str | None = None) -> SecurityRecord:
    return SecurityRecord(
        event=SecurityEvent.SIGN_IN, outcome=SecurityOutcome.DENIED, why="wrong", source=address, user=user
    )


def let_through(gatherer: Gatherer, records: list[SecurityRecord]) -> list[SecurityRecord]:
    added = [gatherer.add(record, 0.0) for record in records]
    return [record for record in added if record is not None]


def test_the_first_is_written_and_the_others_are_counted() -> None:
    gatherer = Gatherer()
    records = [wrong_token("a") for _ in range(1_000)]

    written = let_through(gatherer, records)
    early, late, later = gatherer.due(WINDOW - 1), gatherer.due(WINDOW), gatherer.due(10 * WINDOW)

    assert written == records[:1]
    assert (early, later) == ([], [])
    (counted,) = late
    assert (counted.times, counted.source, counted.at) == (999, "a", records[1].at)
    assert gatherer.is_empty


def test_one_that_was_not_repeated_has_no_count() -> None:
    gatherer = Gatherer()

    let_through(gatherer, [wrong_token("a")])

    assert gatherer.due(WINDOW) == []


def test_a_flood_from_many_addresses_gives_few_records() -> None:
    gatherer = Gatherer()
    flood = [wrong_token(f"10.0.{number // 250}.{number % 250}") for number in range(10_000)]

    written = [*let_through(gatherer, flood), *gatherer.due(WINDOW)]

    assert len(written) <= 2 * MOST_UNKNOWN + 2
    assert sum(record.times for record in written) == len(flood)


def test_strangers_do_not_hide_what_known_people_do() -> None:
    gatherer = Gatherer()
    let_through(gatherer, [wrong_token(str(number)) for number in range(1_000)])

    written = let_through(gatherer, [wrong_token("b", "ann")])

    assert [record.user for record in written] == ["ann"]


def test_the_next_window_tells_addresses_apart_again() -> None:
    gatherer = Gatherer()
    let_through(gatherer, [wrong_token(str(number)) for number in range(1_000)])
    gatherer.due(WINDOW)

    written = let_through(gatherer, [wrong_token("new")])

    assert [record.source for record in written] == ["new"]
