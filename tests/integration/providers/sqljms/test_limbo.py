"""The limbo on SQLite and PostgreSQL: leases, fences, counts, and many takers in parallel."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from history import ConfigurationError
from history.bridge import drive
from history.message import Message
from history.store import instant
from tests.fixtures.threads import in_threads
from triggers.providers.sqljms.limbo.limbo import Again, Delayed, InLimbo, Limbo

AGAIN = Again(
    input="booking", attempts=1, delay=timedelta(seconds=60), max_attempts=3, failure_port="F", error="no"
)


class Clock:
    """A clock that the test sets."""

    now = 0

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


Open = Callable[[], Limbo]


@pytest.fixture
def open_limbo(sql_database: str, clock: Clock) -> Iterator[Open]:
    opened: list[Limbo] = []

    def open_one() -> Limbo:
        opened.append(Limbo.from_url(sql_database, lease=timedelta(seconds=10), clock=clock))
        return opened[-1]

    yield open_one
    for one in opened:
        drive(one.close())


def delayed(uuid: str, due: int = 0) -> Delayed:
    return Delayed(component="shop", port="OUT", message=Message(body="x", uuid=uuid), due=instant(due))


def failed(uuid: str) -> Delayed:
    return Delayed(component="book", port="IN", message=Message(body="x", uuid=uuid), again=AGAIN)


def test_what_one_has_taken_no_other_gets_before_the_lease_is_over(open_limbo: Open, clock: Clock) -> None:
    one, other = open_limbo(), open_limbo()
    drive(one.put([delayed("m1")]))

    held = drive(one.take())

    assert len(held) == 1
    clock.now = 9_999
    assert drive(other.take()) == []
    drive(one.renew(held))
    clock.now = 19_998
    assert drive(other.take()) == []
    clock.now = 19_999
    assert len(drive(other.take())) == 1


def test_a_stale_token_changes_nothing(open_limbo: Open, clock: Clock) -> None:
    one, other = open_limbo(), open_limbo()
    drive(one.put([failed("m1")]))
    clock.now = 60_000
    (late,) = drive(one.take("booking"))
    clock.now = 70_000
    (mine,) = drive(other.take("booking"))

    assert drive(one.take_out([late])) == []
    assert drive(one.put_off(late, timedelta(0), error="late")) is False
    drive(one.renew([late]))
    drive(one.give_back([late]))

    assert mine.again is not None
    assert mine.again.attempts == 3
    assert drive(one.take("booking")) == []
    assert drive(other.take_out([mine])) == [mine.id]


def test_an_attempt_is_counted_when_it_begins_and_uncounted_when_it_did_not(
    open_limbo: Open, clock: Clock
) -> None:
    limbo = open_limbo()
    drive(limbo.put([failed("m1")]))
    clock.now = 60_000

    first = drive(limbo.take("booking"))
    drive(limbo.give_back(first))
    (second,) = drive(limbo.take("booking"))

    assert [one.message.delivery_count for one in (*first, second)] == [2, 2]
    assert drive(limbo.put_off(second, timedelta(seconds=60), error="again"))
    assert drive(limbo.next_due("booking")) == timedelta(seconds=60)
    clock.now = 120_000
    (third,) = drive(limbo.take("booking"))
    assert (third.message.delivery_count, third.error) == (3, "again")


def test_a_message_waits_for_an_input_once(open_limbo: Open) -> None:
    limbo = open_limbo()

    drive(limbo.put([failed("m1"), failed("m2"), failed("m1")]))
    drive(limbo.put([failed("m2")]))

    assert drive(limbo.next_due("booking")) == timedelta(seconds=60)
    assert drive(limbo.next_due("nobody")) is None
    ids = {one.message.uuid for one in _all(limbo)}
    assert ids == {"m1", "m2"}


def test_many_who_take_at_once_get_each_message_once(open_limbo: Open) -> None:
    limbo = open_limbo()
    drive(limbo.put([delayed(f"m{number}") for number in range(60)]))
    taken: list[str | None] = []

    def work(own: Limbo) -> None:
        while held := drive(own.take(limit=4)):
            taken.extend(one.message.uuid for one in held)
            drive(own.take_out(held))

    in_threads(work, [open_limbo() for _ in range(3)])

    assert sorted(map(str, taken)) == sorted(f"m{number}" for number in range(60))


def _all(limbo: Limbo) -> list[InLimbo]:
    limbo.clock = lambda: 10_000_000
    return list(drive(limbo.take("booking")))


def test_a_file_that_is_not_a_database_is_an_error_about_the_limbo(tmp_path: Path) -> None:
    (tmp_path / "limbo.sqlite3").write_text("no database" * 100)
    limbo = Limbo.from_url(f"sqlite:///{tmp_path}/limbo.sqlite3")

    with pytest.raises(ConfigurationError) as refused:
        drive(limbo.prepare())

    assert refused.value.setting == "limbo"
    drive(limbo.close())
