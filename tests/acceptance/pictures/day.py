"""A day of the shop's fleet in a history: entries, charts, consumers, and parked messages."""

import math
from collections.abc import Callable, Coroutine, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from threading import Event, Thread
from typing import Any

from pydantic import JsonValue

from history.beside.charts import ChartStep
from history.beside.journal import JournalLine
from history.beside.kept import KeepsBeside
from history.beside.progress import begin, change
from history.bridge import drive
from history.entry import EntryOutcome, Settlement
from history.message import Message, Uuid
from history.store.control import Counts, Report, TriggerState, Trouble, TroubleKind
from history.store.parking import Evidence, Parked, ParkedKind, parked_id
from history.store.progress import BatchState, Beginning
from tests.fixtures.beside import kept_in
from triggers.providers.opening import open_provider

#: Messages per second of each trigger by day.
RATES = {"charge-card": 24, "ship-parcel": 17, "send-receipt": 31, "update-stock": 58, "notify-partner": 6}

#: The number of entries of each trigger.
ENTRIES = 400

#: The duration of one run of each trigger, in milliseconds.
DURATIONS = {
    "charge-card": 212,
    "ship-parcel": 95,
    "send-receipt": 41,
    "update-stock": 8,
    "notify-partner": 160,
}

IN_DOUBT = "IN DOUBT: an earlier run did not finish; parked (row 10)"
ASKED = (
    "IN DOUBT: an earlier run did not finish; the resolver says: the bank has no booking yet; parked (row 11)"
)
FAILED = "FAILED: a fatal error; parked (row 7)"
UNREADABLE = "UNREADABLE: the body is not JSON; parked"


@dataclass(frozen=True, slots=True)
class Heap:
    """Parked messages of one trigger with one cause: one every ``pause``, since ``ago``."""

    trigger: str
    count: int
    ago: timedelta
    pause: timedelta
    kind: ParkedKind = ParkedKind.REJECTED
    reason: str = FAILED
    error: str | None = None
    text: str = ""
    place: str | None = None
    hosts: Sequence[str] = ("worker-2:311:9c4e",)


HEAPS = (
    Heap(
        *("charge-card", 41, timedelta(minutes=52), timedelta(seconds=2), ParkedKind.IN_DOUBT, ASKED),
        hosts=("worker-3:4242:1f3a",),
    ),
    Heap(
        *("charge-card", 186, timedelta(minutes=31), timedelta(seconds=9)),
        error="payments.bank.LimitExceededError",
        text="the limit of {amount} EUR is exceeded",
        place="payments/bank.py:88 in book",
    ),
    Heap(
        *("ship-parcel", 23, timedelta(hours=5), timedelta(minutes=3)),
        error="shipping.NoSuchAddressError",
        text="customer {customer} has no address",
        place="shipping/labels.py:41 in address_of",
        hosts=("worker-1:207:77ab",),
    ),
    Heap(
        *("ship-parcel", 9, timedelta(minutes=52), timedelta(seconds=3), ParkedKind.IN_DOUBT, IN_DOUBT),
        hosts=("worker-3:4242:1f3a",),
    ),
    Heap(
        *("send-receipt", 12, timedelta(hours=9), timedelta(minutes=11)),
        error="pydantic_core.ValidationError",
        text="currency: Field required",
        place="receipts/templates.py:19 in total_of",
        hosts=("worker-1:207:77ab",),
    ),
    Heap("update-stock", 3, timedelta(hours=20), timedelta(hours=1), ParkedKind.UNREADABLE, UNREADABLE),
)


def fill(store: KeepsBeside, url: str) -> None:
    """Write the data of a day of work."""
    now = datetime.now(UTC)
    for trigger in RATES:
        complete(store, trigger)
        draw(store, trigger, now)
    for heap in HEAPS:
        pile(store, heap, now)
    journal = kept_in(store).journal
    for number in range(14):
        duplicate = JournalLine(
            uuid=f"order-{81_204 + 7 * number}",
            verdict="duplicate",
            reason="DUPLICATE: it already ran; not run again (row 8)",
            row=8,
        )
        drive(journal.append("charge-card" if number % 3 else "send-receipt", [duplicate]))
    complete(store, "lake")
    for batch in range(9):
        run_batch(store, batch, now - timedelta(seconds=30 * (9 - batch)))
    send(url)


def complete(store: KeepsBeside, trigger: str) -> None:
    """Remember messages that ran."""
    uuids = [f"order-{number}" for number in range(ENTRIES * (1 + RATES.get(trigger, 0) // 10))]
    claims = drive(store.claim(trigger, uuids, "worker-1:207:77ab"))
    ends = [
        Settlement(Uuid(one), claim.fence, EntryOutcome.OK) for one, claim in zip(uuids, claims, strict=True)
    ]
    drive(store.settle(trigger, ends))


def draw(store: KeepsBeside, trigger: str, now: datetime) -> None:
    """Add the steps of a day: more by day than by night, recent failures, and a pause."""
    charts, new, failed, parked, spent = kept_in(store).charts, 0, 0, 0, 0
    for ago in range(25 * 60, -30, -1):  # some pictures are made after this call
        at = now - timedelta(minutes=ago)
        rises = 0.62 + 0.38 * math.sin((at.hour * 60 + at.minute) / 1440 * 2 * math.pi - 1.9)
        count = int(60 * RATES[trigger] * (rises + 0.06 * math.sin(ago * 0.9) + 0.04 * math.sin(ago * 2.3)))
        is_bad = trigger == "charge-card" and 3 < ago < 32
        new, failed = new + count, failed + (count // 9 if is_bad else count // 900)
        spent += count * (DURATIONS[trigger] * 1000 + 400 * (ago % 13) + (90_000 if is_bad else 0))
        parked += 7 if is_bad else int(ago % 240 == 0)
        counts = Counts(new=new, duplicate=new // 40, failed=failed, runs=new, microseconds=spent)
        if not 52 < ago < 56:  # consumers were restarted
            drive(charts.add(trigger, at, _made(ChartStep(at, counts, parked))))


def _made(step: ChartStep) -> Callable[[], Coroutine[Any, Any, ChartStep]]:
    async def make() -> ChartStep:
        return step

    return make


def pile(store: KeepsBeside, heap: Heap, now: datetime) -> None:
    first = {one: number * 1000 + 81_000 for number, one in enumerate(HEAPS)}[heap]
    drive(
        store.parking.park(
            [parked(store, heap, first + n, now - heap.ago + n * heap.pause) for n in range(heap.count)]
        )
    )


def parked(store: KeepsBeside, heap: Heap, number: int, at: datetime) -> Parked:
    uuid, owner = f"order-{number}", heap.hosts[0]
    order: dict[str, JsonValue] = {
        "order": uuid,
        "customer": f"c-{number * 37 % 5000:05}",
        "amount": round(number * 7.13 % 400, 2),
        "currency": "EUR",
    }
    headers = {"source": "web-shop", "trace": f"{number * 7919:032x}"}
    message = Message(body=order, uuid=uuid, timestamp=at - timedelta(seconds=4), properties=headers)
    claim = drive(store.claim(heap.trigger, [uuid], f"{owner}{number:x}"))[0]
    is_read = heap.kind is not ParkedKind.UNREADABLE
    text = heap.text.format(**order)
    file, _, line = (heap.place or "").partition(":")
    line, _, function = line.partition(" in ")
    frame = f'  File "{file}", line {line}, in {function}'
    trace = f"Traceback (most recent call last):\n{frame}\n{heap.error}: {text}"
    return Parked(
        id=parked_id(heap.trigger, message),
        trigger_name=heap.trigger,
        kind=heap.kind,
        reason=heap.reason,
        uuid=uuid if is_read else None,
        destination=PLACES[heap.trigger],
        message=message if is_read else None,
        raw=None if is_read else {"body": f"<order id='{number}'><customer/></order>"},
        evidence=Evidence(
            delivery_count=2, owner=owner, started_at=at - timedelta(seconds=31), fence=claim.fence
        ),
        error_class=heap.error,
        error_message=text or None,
        error_trace=trace if heap.error else None,
        error_place=heap.place,
        parked_at=at,
    )


PLACES = {
    "charge-card": "payments",
    "ship-parcel": "parcels",
    "send-receipt": "receipts",
    "update-stock": "stock",
    "notify-partner": "partners",
}


def run_batch(store: KeepsBeside, number: int, at: datetime) -> None:
    """Write the records of a batch of two Spark queries."""
    for query, rows in (("orders-to-lake", 48_210), ("refunds-to-lake", 1_904)):
        beginning = Beginning(query=query, batch=number, lineage="5b1e", run=f"run-{number}")
        record = drive(begin(store.progress, "lake", beginning, at))
        counts = {
            "rows": rows,
            "new": rows - 31 * number,
            "duplicate": 31 * number,
            "in_doubt": 0,
            "rejected": 0,
        }
        for state in (BatchState.RUNNING, BatchState.COMPLETED):
            record = drive(change(store.progress, "lake", record, state, at + timedelta(seconds=4.2), counts))


def send(url: str) -> None:
    """Let messages wait at the provider."""
    provider = open_provider(url)
    for place, count in (("payments", 14), ("parcels", 3), ("partners", 1_288)):
        drive(provider.send(place, [Message(body={"order": f"order-{n}"}) for n in range(count)]))
    drive(provider.close())


@contextmanager
def beating(store: KeepsBeside) -> Generator[None]:
    """Let three running consumers report until the end of the block."""
    ended = Event()

    def beat() -> None:
        beats = 0
        while not ended.wait(0.5):
            beats += 1
            say(store, beats)

    say(store, 0)
    thread = Thread(target=beat)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def say(store: KeepsBeside, beats: int) -> None:
    """Let each consumer report once."""
    for worker in (1, 2, 3):
        drive(store.control.beat(f"token-{worker}", [report(name, worker, beats) for name in RATES]))


def report(name: str, worker: int, beats: int) -> Report:
    """Return what a consumer reports about one of its triggers."""
    new = 60_000 + int(RATES[name] / 6 * (beats + 0.8 * math.sin(beats / 3 + worker)))
    is_bad, is_held = name == "charge-card", name == "notify-partner"
    counts = Counts(
        new=60_000 if is_held else new,
        duplicate=(60_000 if is_held else new) // 40,
        in_doubt=17 if is_bad else 0,
        rejected=4,
        failed=(new - 59_000) // 9 if is_bad else 12,
        runs=new,
        microseconds=new * DURATIONS[name] * 1000,
    )
    if is_held:
        reason = "the partner's certificate has expired (ann)"
        return Report(
            consumer=f"worker-{worker}",
            trigger=name,
            state=TriggerState.SUSPENDED,
            reason=reason,
            by_command=True,
            elapsed=2520 + beats / 2,
            counts=counts,
        )
    fails = Trouble(
        kind=TroubleKind.FAILING,
        cause="payments.bank.LimitExceededError: the limit of 250.0 EUR is exceeded",
        elapsed=1860 + beats / 2,
        count=62,
    )
    return Report(
        consumer=f"worker-{worker}",
        trigger=name,
        busy=worker + RATES[name] % 3,
        elapsed=3120 + beats / 2,
        counts=counts,
        troubles=(fails,) if is_bad else (),
    )
