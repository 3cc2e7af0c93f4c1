"""Unreadable deliveries in the parking lot."""

from collections.abc import Sequence

import pytest

from history import MemoryHistory, Parked, ParkedKind
from history.bridge import drive
from triggers.pipeline.parking.lot import LARGE, MOST_BYTES, MOST_FIELDS, ParkingLot, park_raw
from triggers.providers import Unreadable


class SmallLot(ParkingLot):
    """Refuses copies with more than so many bytes, like a server with a limit."""

    def __init__(self, most: int) -> None:
        super().__init__(None)
        self.most = most
        self.kept: list[Parked] = []

    async def park(self, parked: Sequence[Parked]) -> bool:
        fits = all(len(one.model_dump_json()) <= self.most for one in parked)
        self.kept += parked if fits else ()
        return fits


def garbage(delivery_id: str | None, fields: dict[bytes, bytes] | None = None) -> Unreadable:
    return Unreadable({b"body": b"\xff"} if fields is None else fields, "no text", 1, delivery_id)


async def park(lot: ParkingLot, delivery: Unreadable) -> bool:
    return await park_raw(lot, delivery, trigger="book", destination="orders")


def parked_after(*deliveries: Unreadable, trigger: str = "book", destination: str = "orders") -> list[Parked]:
    history = MemoryHistory()
    lot = ParkingLot(history.parking)
    for one in deliveries:
        assert drive(park_raw(lot, one, trigger=trigger, destination=destination))
    return list(drive(history.parking.list()))


def test_deliveries_of_the_same_bytes_are_parked_each() -> None:
    parked = parked_after(garbage("1-0"), garbage("2-0"), garbage("3-0"))

    assert len({one.id for one in parked}) == 3
    assert {one.kind for one in parked} == {ParkedKind.UNREADABLE}
    assert all(one.raw == {"body": "base64:/w=="} for one in parked)


def test_a_delivery_that_comes_again_replaces_its_copy() -> None:
    later = garbage("1-0", {b"body": b"\xff", b"redelivered": b"True"})

    [parked] = parked_after(garbage("1-0"), later)

    assert parked.raw == {"body": "base64:/w==", "redelivered": "True"}


def test_without_ids_deliveries_are_told_apart_by_their_bytes() -> None:
    parked = parked_after(garbage(None), garbage(None), garbage(None, {b"bod": b"y\xff"}))

    assert len(parked) == 2


def test_what_no_lot_takes_whole_is_kept_in_pieces() -> None:
    fields = {b"body": b"x" * (2 * LARGE), b"n" * LARGE: b"value"} | {b"%d" % n: b"" for n in range(1000)}
    lot = SmallLot(LARGE)

    assert drive(park(lot, garbage("1-0", fields)))

    [parked] = lot.kept
    assert parked.raw is not None
    assert parked.raw["body"].startswith("x" * MOST_BYTES + f" ... ({2 * LARGE} bytes in all, blake2b ")
    assert len(parked.raw) == MOST_FIELDS


def test_what_could_be_kept_whole_is_not_kept_in_pieces() -> None:
    lot = SmallLot(10)

    assert not drive(park(lot, garbage("1-0")))
    assert lot.kept == []


def test_copies_of_two_triggers_and_two_destinations_are_told_apart() -> None:
    ids = {
        parked_after(garbage("1-0"), trigger=trigger, destination=destination)[0].id
        for trigger in ("book", "ship")
        for destination in ("orders", "returns")
    }

    assert len(ids) == 4


@pytest.mark.parametrize("fields", [{}, {b"": b""}, {b"\xff": b"\xfe"}, {b"base64:/w==": b"\x00"}])
def test_any_fields_can_be_parked(fields: dict[bytes, bytes]) -> None:
    assert len(parked_after(garbage("1-0", fields))) == 1
