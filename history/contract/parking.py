"""The parking lot of a store."""

from datetime import UTC, datetime
from typing import Any, cast

from history.contract.common import ODD_NAMES, TRIGGER
from history.message import Message, Uuid
from history.store import HistoryStore
from history.store.parking import Evidence, Parked, ParkedKind, parked_id, raw_fields


def parked(number: int, **changes: Any) -> Parked:
    """Make a parked message that differs from the next one."""
    facts: dict[str, Any] = {
        "id": f"{number:04x}c0ffee",
        "trigger_name": TRIGGER,
        "kind": ParkedKind.IN_DOUBT,
        "reason": "started, lease over, no resolver",
        "uuid": f"u{number}",
        "message": Message(body={"id": number}, uuid=Uuid(f"u{number}")),
        "parked_at": datetime(2024, 2, 29, 12, 0, 0, number, UTC),
    }
    return Parked(**(facts | changes))


class ParkingContract:
    """The parking lot of a store."""

    async def test_a_parked_message_comes_back_whole(self, store: HistoryStore) -> None:
        message = Message(
            body=b"\xff\x00binary",
            message_id="ID:1\n",
            delivery_count=3,
            timestamp=datetime(2024, 2, 29, 12, 0, 0, 5000, UTC),
            properties={"größe": "→注文\0", "n": 7, "flag": True, "nothing": None},
        )
        copy = parked(
            1,
            message=message,
            destination="queue://ördërs",
            evidence=Evidence(delivery_count=3, owner="worker-1", started_at=datetime.now(UTC), fence=42),
            error_class="ValueError",
            error_message="naïve '\"\\\n\0🧾",
        )

        await store.parking.park([copy])

        back = await store.parking.get(copy.id, trigger=TRIGGER)
        assert back == copy
        assert back is not None
        assert back.message is not None
        assert back.message.body == b"\xff\x00binary"

    async def test_an_unreadable_delivery_keeps_its_bytes(self, store: HistoryStore) -> None:
        raw = raw_fields({b"body": b"\xff\x00", "größe".encode(): "注文".encode()})
        copy = parked(1, kind=ParkedKind.UNREADABLE, message=None, uuid=None, raw=raw)

        await store.parking.park([copy])

        assert await store.parking.get(copy.id) == copy

    async def test_parking_again_replaces_the_copy(self, store: HistoryStore) -> None:
        await store.parking.park([parked(1), parked(2)])

        await store.parking.park([parked(1, reason="changed")])

        back = await store.parking.get(parked(1).id)
        assert back is not None
        assert back.reason == "changed"
        assert await store.parking.count() == 2

    async def test_messages_of_one_uuid_that_differ_are_all_kept(self, store: HistoryStore) -> None:
        bodies: list[Any] = [
            {"amount": 10, "to": "you"},
            {"amount": 99, "to": "me"},
            b'{"amount":10,"to":"you"}',
        ]
        payments = [Message(body=body, uuid=Uuid("u1"), message_id="ID:1") for body in bodies]
        copies = [
            parked(n, id=parked_id(TRIGGER, payment), uuid="u1", message=payment)
            for n, payment in enumerate(payments)
        ]

        for copied in (*copies, *copies):
            await store.parking.park([copied])

        assert list(await store.parking.list(trigger=TRIGGER)) == copies

    async def test_nobody_can_change_a_message_that_was_parked(self, store: HistoryStore) -> None:
        body: dict[str, Any] = {"lines": [1]}
        copy = parked(1, message=Message(body=body, uuid=Uuid("u1")))
        await store.parking.park([copy])

        for copied in (copy, *await store.parking.list(), await store.parking.get(copy.id)):
            assert copied is not None
            assert copied.message is not None
            cast("dict[str, Any]", copied.message.body)["lines"].append("changed")

        back = await store.parking.get(copy.id)
        assert back is not None
        assert back.message is not None
        assert back.message.body == body

    async def test_a_copy_without_a_traceback_can_be_read(self, store: HistoryStore) -> None:
        traced = parked(1, error_trace="Traceback (most recent call last):\n  File ...\nKeyError: 'ü\0🧾'\n")
        await store.parking.park([traced, parked(2)])

        assert list(await store.parking.list()) == [traced, parked(2)]

    async def test_an_id_parked_twice_in_one_call_keeps_the_last(self, store: HistoryStore) -> None:
        await store.parking.park([parked(1, reason="first"), parked(1, reason="second")])

        assert [message.reason for message in await store.parking.list()] == ["second"]

    async def test_a_unique_beginning_of_an_id_is_enough(self, store: HistoryStore) -> None:
        await store.parking.park([parked(0x11), parked(0x12), parked(0x21, trigger_name="another")])

        assert await store.parking.get("0011") == parked(0x11)
        assert await store.parking.get("001") is None, "two ids begin so"
        assert await store.parking.get("f") is None
        assert await store.parking.get("0021", trigger="another") == parked(0x21, trigger_name="another")
        assert await store.parking.get("0021", trigger=TRIGGER) is None

    async def test_a_wildcard_is_no_beginning_of_an_id(self, store: HistoryStore) -> None:
        await store.parking.park([parked(1)])

        for wildcard in ("%", "*", "_", "?", "[0]", "00__", "0001%"):
            assert await store.parking.get(wildcard) is None

    async def test_parked_messages_are_listed_oldest_first(self, store: HistoryStore) -> None:
        await store.parking.park([parked(3), parked(1)])
        await store.parking.park([parked(2, trigger_name="another")])

        assert [message.uuid for message in await store.parking.list()] == ["u1", "u2", "u3"]
        assert [message.uuid for message in await store.parking.list(limit=2)] == ["u1", "u2"]
        assert [message.uuid for message in await store.parking.list(trigger=TRIGGER)] == ["u1", "u3"]
        assert list(await store.parking.list(trigger="nobody's")) == []

    async def test_a_parked_message_is_removed_once(self, store: HistoryStore) -> None:
        await store.parking.park([parked(1), parked(2), parked(1, trigger_name="another")])

        assert await store.parking.remove(parked(1))
        assert not await store.parking.remove(parked(1))

        assert await store.parking.get(parked(1).id, trigger=TRIGGER) is None
        assert await store.parking.count() == 2
        assert await store.parking.count(trigger=TRIGGER) == 1
        assert await store.parking.count(trigger="another") == 1

    async def test_the_parking_lot_of_odd_triggers(self, store: HistoryStore) -> None:
        await store.parking.park([parked(n, trigger_name=name) for n, name in enumerate(ODD_NAMES)])

        for n, name in enumerate(ODD_NAMES):
            assert list(await store.parking.list(trigger=name)) == [parked(n, trigger_name=name)]
        await store.parking.park([])
        assert await store.parking.count() == len(ODD_NAMES)
