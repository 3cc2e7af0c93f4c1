"""A sweep closes parked copies after the original has completed: all of them, in parts, by their labels."""

from collections.abc import Sequence
from typing import Any

from history import EntryOutcome, MemoryHistory, Message, Parked, ParkedKind
from history.bridge import drive
from triggers.pipeline.parking import sweep as sweeping
from triggers.pipeline.parking.sweep import close_settled, sweep


def aside(uuid: str, kind: ParkedKind = ParkedKind.IN_DOUBT, **fields: Any) -> Parked:
    message = Message(body={"id": uuid}, uuid=uuid)
    return Parked(
        id=uuid, uuid=uuid, trigger_name="book", kind=kind, reason="row 10", message=message, **fields
    )


def completed(store: MemoryHistory, uuids: Sequence[str]) -> None:
    for uuid in uuids:
        (claim,) = drive(store.claim("book", [uuid], "worker"))
        assert drive(store.complete("book", uuid, claim.fence, EntryOutcome.OK))


def parked_in(store: MemoryHistory) -> list[str]:
    return sorted(parked.id for parked in drive(store.parking.list(limit=10_000)))


def test_a_copy_behind_thousands_of_others_is_closed() -> None:
    store = MemoryHistory()
    others = [aside(f"a{number:05}", ParkedKind.REJECTED) for number in range(2500)]
    drive(store.parking.park([*others, aside("z1"), aside("z2")]))
    completed(store, ["z1"])

    closed = drive(close_settled("book", store, store.parking))

    assert (closed.copies, closed.cursor) == (1, None)
    assert parked_in(store) == [*(parked.id for parked in others), "z2"]


def test_a_sweep_looks_at_some_and_the_next_goes_on(monkeypatch: Any) -> None:
    monkeypatch.setattr(sweeping, "LOOKED_AT", 400)
    store = MemoryHistory()
    copies = [aside(f"a{number:05}") for number in range(1000)]
    drive(store.parking.park(copies))
    completed(store, [parked.id for parked in copies])

    left: list[int] = []
    cursor: str | None = None
    while not left or cursor is not None:
        cursor = drive(sweep("book", store, store.parking, cursor))
        left.append(len(parked_in(store)))

    assert left == [600, 200, 0]


def test_only_in_doubt_copies_of_what_has_succeeded_are_closed() -> None:
    store = MemoryHistory()
    (started, failed) = drive(store.claim("book", ["started", "failed"], "worker"))
    assert drive(store.complete("book", "failed", failed.fence, EntryOutcome.FAILED))
    completed(store, ["rejected"])
    drive(
        store.parking.park(
            [aside("started"), aside("failed"), aside("absent"), aside("rejected", ParkedKind.REJECTED)]
        )
    )

    drive(close_settled("book", store, store.parking))

    assert started.found is None
    assert parked_in(store) == ["absent", "failed", "rejected", "started"]
