"""The parking lot of a store."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from history.beside.kept import KeepsBeside
from history.beside.parking import LABELS, MESSAGES, label_pages
from history.contract.common import ODD_NAMES, TRIGGER
from history.contract.records import records_in
from history.json_text import read_json
from history.message import Message, Uuid
from history.store.parking import (
    LABEL_TEXT,
    Evidence,
    Parked,
    ParkedKind,
    ParkedLabel,
    each_once,
    parked_id,
    raw_fields,
)
from history.store.records import Put, Record


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


async def labels_once(
    store: KeepsBeside, *, trigger: str | None = None, limit: int = 200
) -> Sequence[ParkedLabel]:
    """Walk through the parked messages; return each label once, in the order of the ids."""
    pages = label_pages(store.parking, trigger, limit=limit)
    labels = each_once([label async for page in pages for label in page.labels])
    return sorted(labels, key=lambda label: (label.trigger_name, label.id))


async def spoil_parked(store: KeepsBeside, record: str) -> None:
    """Overwrite the record of the message 1, and its label, as a disk, a tool or a person may."""
    spoilt = Record(parked(1).id.encode(), record.encode())
    await records_in(store).apply(TRIGGER, [Put(kind, spoilt) for kind in (LABELS, MESSAGES)])


class ParkingContract:
    """The parking lot of a store."""

    async def test_a_parked_message_comes_back_whole(self, store: KeepsBeside) -> None:
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
            error_place="größe/orders.py:7 in book",
            error_message="naïve '\"\\\n\0🧾",
        )

        await store.parking.park([copy])

        back = await store.parking.get(copy.id, trigger=TRIGGER)
        assert back == copy
        assert back is not None
        assert back.message is not None
        assert back.message.body == b"\xff\x00binary"

    async def test_json_keeps_each_of_its_digits(self, store: KeepsBeside) -> None:
        text = b'{ "b": 1.0, "a": 100200300400500.0123, "a": 1e400 }'
        copy = parked(1, message=Message.from_headers({"uuid": "u-1"}, read_json(text)))

        await store.parking.park([copy])

        back = await store.parking.get(copy.id, trigger=TRIGGER)
        assert back is not None
        assert back.message is not None
        assert back.message.encoded() == text

    async def test_an_unreadable_delivery_keeps_its_bytes(self, store: KeepsBeside) -> None:
        raw = raw_fields({b"body": b"\xff\x00", "größe".encode(): "注文".encode()})
        copy = parked(1, kind=ParkedKind.UNREADABLE, message=None, uuid=None, raw=raw)

        await store.parking.park([copy])

        assert await store.parking.get(copy.id) == copy

    async def test_parking_again_replaces_the_copy(self, store: KeepsBeside) -> None:
        await store.parking.park([parked(1), parked(2)])

        await store.parking.park([parked(1, reason="changed")])

        back = await store.parking.get(parked(1).id)
        assert back is not None
        assert back.reason == "changed"
        assert await store.parking.count() == 2

    async def test_a_message_that_is_parked_again_is_counted(self, store: KeepsBeside) -> None:
        await store.parking.park([parked(1), parked(2)])
        for _ in range(3):
            await store.parking.park([parked(1, reason="again")])
        assert await store.parking.remove(parked(2))
        await store.parking.park([parked(2)])

        listed = [(message.uuid, message.copies) for message in await store.parking.list()]
        labels = [(label.uuid, label.copies) for label in await labels_once(store)]
        whole = await store.parking.get(parked(1).id)

        assert listed == labels == [("u1", 4), ("u2", 1)]
        assert whole is not None
        assert whole.copies == 4

    async def test_labels_say_what_is_parked(self, store: KeepsBeside) -> None:
        evidence = Evidence(delivery_count=3, owner="host:7:abc", started_at=datetime.now(UTC), fence=42)
        long = parked(
            1,
            reason="r" * 9000,
            error_message="e" * 9000,
            error_class="KeyError",
            error_place="shop.py:7 in book",
            evidence=evidence,
        )
        await store.parking.park([long, parked(2, kind=ParkedKind.REJECTED, trigger_name="another")])

        labels = await labels_once(store)

        assert [label.trigger_name for label in labels] == ["another", TRIGGER]
        assert [label.kind for label in labels] == [ParkedKind.REJECTED, ParkedKind.IN_DOUBT]
        assert labels[1].evidence == evidence
        assert labels[1].parked_at == long.parked_at
        assert labels[1].reason == "r" * LABEL_TEXT
        assert labels[1].error_message == "e" * LABEL_TEXT
        assert [label.error_place for label in labels] == [None, "shop.py:7 in book"]

    async def test_a_walk_through_the_labels_meets_all_in_pages(self, store: KeepsBeside) -> None:
        mine = [parked(number) for number in range(450)]
        others = [parked(number, trigger_name=name) for number, name in enumerate(ODD_NAMES)]
        await store.parking.park([*mine, *others])

        labels = await labels_once(store, trigger=TRIGGER, limit=100)
        everything = await labels_once(store, limit=100)

        assert [label.id for label in labels] == [message.id for message in mine]
        assert len(everything) == len(mine) + len(others)
        assert await labels_once(store, trigger="nobody's") == []

    async def test_a_walk_goes_on_while_what_it_met_is_taken_out(self, store: KeepsBeside) -> None:
        await store.parking.park([parked(number) for number in range(300)])

        met = 0
        async for page in label_pages(store.parking, TRIGGER, limit=50):
            met += sum([await store.parking.remove(label) for label in page.labels])

        assert met == 300
        assert await store.parking.count() == 0

    async def test_the_messages_of_a_uuid_are_found_without_the_others(self, store: KeepsBeside) -> None:
        later = datetime(2024, 3, 1, tzinfo=UTC)
        await store.parking.park([parked(n) for n in range(40)])
        await store.parking.park([parked(200, uuid="u7", parked_at=later), parked(7, trigger_name="another")])

        mine = await store.parking.of_uuid("u7", trigger=TRIGGER)
        both = await store.parking.of_uuid("u7")

        assert [label.id for label in mine] == [parked(7).id, parked(200).id]
        assert {label.trigger_name for label in both} == {TRIGGER, "another"}
        assert list(await store.parking.of_uuid("u")) == []
        await store.parking.remove(parked(7))
        assert [label.id for label in await store.parking.of_uuid("u7", trigger=TRIGGER)] == [parked(200).id]

    @pytest.mark.parametrize("uuid", ['"', "%", "_", "\\", "größe→", "\0\n", '","uuid":"u1', " ", "\ud800"])
    async def test_a_uuid_may_be_any_text_to_find_its_messages(self, store: KeepsBeside, uuid: str) -> None:
        await store.parking.park([parked(1), parked(2, uuid=uuid, reason='"uuid":"u1"')])

        assert [label.id for label in await store.parking.of_uuid(uuid)] == [parked(2).id]
        assert [label.id for label in await store.parking.of_uuid("u1")] == [parked(1).id]

    @pytest.mark.parametrize("record", ["{", "", "[]", '{"id": "other"}', '"\\ud800"', "null"])
    async def test_a_record_that_cannot_be_read_is_shown_and_hides_no_other(
        self, store: KeepsBeside, record: str
    ) -> None:
        before = datetime.now(UTC) - timedelta(minutes=5)
        await store.parking.park([parked(n) for n in range(3)])
        await spoil_parked(store, record)

        listed = await store.parking.list(trigger=TRIGGER)
        labels = await labels_once(store)
        whole = await store.parking.get(parked(1).id)

        kinds = {parked(0).id: "in doubt", parked(1).id: "unreadable", parked(2).id: "in doubt"}
        assert {message.id: message.kind for message in listed} == kinds
        assert {label.id: label.kind for label in labels} == kinds
        assert whole is not None
        assert whole.raw == {"record": record}
        assert whole.parked_at == parked(1).parked_at or before < whole.parked_at, "the store's own time"
        assert "cannot be read" in whole.reason
        assert await store.parking.remove(whole)
        assert await store.parking.list() == [parked(0), parked(2)]

    async def test_a_record_that_stands_under_anothers_id_is_shown_as_unreadable(
        self, store: KeepsBeside
    ) -> None:
        await store.parking.park([parked(1), parked(2)])
        await spoil_parked(store, parked(2).model_dump_json())

        listed = await store.parking.list(trigger=TRIGGER)

        assert {message.id: message.kind for message in listed} == {
            parked(1).id: ParkedKind.UNREADABLE,
            parked(2).id: ParkedKind.IN_DOUBT,
        }

    async def test_messages_of_one_uuid_that_differ_are_all_kept(self, store: KeepsBeside) -> None:
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

        twice = [copied.model_copy(update={"copies": 2}) for copied in copies]
        assert list(await store.parking.list(trigger=TRIGGER)) == twice

    async def test_nobody_can_change_a_message_that_was_parked(self, store: KeepsBeside) -> None:
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

    async def test_a_copy_without_a_traceback_can_be_read(self, store: KeepsBeside) -> None:
        traced = parked(1, error_trace="Traceback (most recent call last):\n  File ...\nKeyError: 'ü\0🧾'\n")
        await store.parking.park([traced, parked(2)])

        assert list(await store.parking.list()) == [traced, parked(2)]

    async def test_an_id_parked_twice_in_one_call_keeps_the_last(self, store: KeepsBeside) -> None:
        await store.parking.park([parked(1, reason="first"), parked(1, reason="second")])

        assert [message.reason for message in await store.parking.list()] == ["second"]

    async def test_a_unique_beginning_of_an_id_is_enough(self, store: KeepsBeside) -> None:
        await store.parking.park([parked(0x11), parked(0x12), parked(0x21, trigger_name="another")])

        assert await store.parking.get("0011") == parked(0x11)
        assert await store.parking.get("001") is None, "two ids begin with this"
        assert await store.parking.get("f") is None
        assert await store.parking.get("0021", trigger="another") == parked(0x21, trigger_name="another")
        assert await store.parking.get("0021", trigger=TRIGGER) is None

    async def test_a_wildcard_is_no_beginning_of_an_id(self, store: KeepsBeside) -> None:
        await store.parking.park([parked(1)])

        for wildcard in ("%", "*", "_", "?", "[0]", "00__", "0001%"):
            assert await store.parking.get(wildcard) is None

    async def test_parked_messages_are_listed_oldest_first(self, store: KeepsBeside) -> None:
        await store.parking.park([parked(3), parked(1)])
        await store.parking.park([parked(2, trigger_name="another")])

        assert [message.uuid for message in await store.parking.list()] == ["u1", "u2", "u3"]
        assert [message.uuid for message in await store.parking.list(limit=2)] == ["u1", "u2"]
        assert [message.uuid for message in await store.parking.list(trigger=TRIGGER)] == ["u1", "u3"]
        assert list(await store.parking.list(trigger="nobody's")) == []

    async def test_the_oldest_are_listed_from_all_pages(
        self, store: KeepsBeside, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("history.beside.parking.LABELS_READ", 7)
        age = {number: number * 11 % 40 for number in range(40)}
        day = parked(0).parked_at
        await store.parking.park(
            [parked(number, parked_at=day + timedelta(hours=hours)) for number, hours in age.items()]
        )

        oldest = [message.uuid for message in await store.parking.list(limit=3)]

        assert oldest == [f"u{number}" for number in sorted(age, key=age.__getitem__)[:3]]

    async def test_labels_are_found_by_the_beginning_of_their_ids(self, store: KeepsBeside) -> None:
        await store.parking.park([parked(0x10), parked(0x11), parked(0x12), parked(0x20)])
        await store.parking.park([parked(0x13, trigger_name="another")])

        labels = await store.parking.beginning("001", limit=9)

        assert sorted(label.uuid or "" for label in labels) == ["u16", "u17", "u18", "u19"]
        assert len(await store.parking.beginning("001", limit=2)) == 3
        assert list(await store.parking.beginning("%", limit=9)) == []

    async def test_a_parked_message_is_removed_once(self, store: KeepsBeside) -> None:
        await store.parking.park([parked(1), parked(2), parked(1, trigger_name="another")])

        assert await store.parking.remove(parked(1))
        assert not await store.parking.remove(parked(1))

        assert await store.parking.get(parked(1).id, trigger=TRIGGER) is None
        assert await store.parking.count() == 2
        assert await store.parking.count(trigger=TRIGGER) == 1
        assert await store.parking.count(trigger="another") == 1

    async def test_the_parking_lot_of_odd_triggers(self, store: KeepsBeside) -> None:
        await store.parking.park([parked(n, trigger_name=name) for n, name in enumerate(ODD_NAMES)])

        for n, name in enumerate(ODD_NAMES):
            assert list(await store.parking.list(trigger=name)) == [parked(n, trigger_name=name)]
        await store.parking.park([])
        assert await store.parking.count() == len(ODD_NAMES)
