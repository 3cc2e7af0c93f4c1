"""The slot of a delivery time never ends before it, and at most a twentieth of the delay after it."""

from datetime import UTC, datetime, timedelta

import pytest

from history import ConfigurationError, Message
from triggers.providers.rabbitmq.later import LONGEST, DelaySlot, slots_of

NOW = datetime(2026, 3, 1, 12, 30, 15, 123_000, tzinfo=UTC)


@pytest.mark.parametrize(
    "seconds", [0.001, 0.05, 0.4, 1.0, 1.999, 2.0, 30.0, 3600.0, 86_400.0, 10 * 86_400.0]
)
def test_a_slot_ends_soon_after_its_messages_are_due_and_its_queue_later(seconds: float) -> None:
    due = NOW + timedelta(seconds=seconds)

    slot = DelaySlot.of(due, NOW)

    late = slot.end - due.timestamp() * 1000
    assert 0 <= late <= max(50, seconds * 1000 / 20)
    expires = slot.arguments("orders", "", quorum=True)["x-expires"]
    assert seconds * 1000 <= slot.time_to_live(NOW) <= expires - 30_000 < 2**32


def test_a_queue_is_declared_alike_whenever_it_is() -> None:
    due = NOW + timedelta(seconds=30)
    before, after = DelaySlot.of(due, NOW), DelaySlot.of(due, NOW + timedelta(seconds=3))

    assert before == after
    assert before.arguments("a", "", quorum=False) == after.arguments("a", "", quorum=False)


def test_a_few_queues_hold_many_messages() -> None:
    dues = [NOW + timedelta(seconds=60, milliseconds=number) for number in range(10_000)]

    assert len({DelaySlot.of(due, NOW) for due in dues}) <= 8


def test_what_is_further_ahead_than_rabbitmq_counts_is_refused() -> None:
    DelaySlot.of(NOW + timedelta(milliseconds=LONGEST - 1), NOW)
    with pytest.raises(ConfigurationError, match=r"^delivery_time: .*RabbitMQ delays for 12"):
        DelaySlot.of(NOW + timedelta(milliseconds=LONGEST + 1000), NOW)


def test_each_destination_has_queues_of_its_own_however_long_its_name() -> None:
    slot = DelaySlot.of(NOW + timedelta(seconds=1), NOW)
    names = {slot.queue(name) for name in ("orders", "queue:orders", "x" * 240, "x" * 239 + "y", "ü" * 127)}

    assert len(names) == 5
    assert all(len(name.encode()) <= 255 for name in names)


def test_messages_are_sent_by_slots_the_earliest_first_and_in_order() -> None:
    ahead = [5.0, 1.0, 5.0, 1.0]
    messages = [
        Message(body=number, delivery_time=NOW + timedelta(seconds=s)) for number, s in enumerate(ahead)
    ]

    assert [[one.body for one in some] for some in slots_of(messages, NOW).values()] == [[1, 3], [0, 2]]
