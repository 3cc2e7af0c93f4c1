"""Shared parts of the tests of the decision table: a trigger on a real history, and checks of its results."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from history import Entry, EntryOutcome, Message, Parked, ParkedKind, State, Uuid, open_history
from history.beside.kept import KeepsBeside
from history.bridge import drive
from resolvers import Resolution
from triggers import Delivery, Outcome, Trigger, trigger
from triggers.events import Cause, RetrievalFailureEvent, on_retrieval_failure

NAME = "book-order"
UUID = "order/4711"

OK, FAILED, STARTED = EntryOutcome.OK, EntryOutcome.FAILED, State.STARTED

#: The owner of an existing entry.
DEAD = "a worker that is no more"


class Effects:
    """A service that counts its runs and raises the given failures, one in each run.

    ``meanwhile`` happens in its first run.
    """

    def __init__(self, *failures: BaseException, meanwhile: Callable[[], object] | None = None) -> None:
        self.failures = list(failures)
        self.meanwhile = meanwhile
        self.runs: list[Delivery] = []

    def run(self, delivery: Delivery) -> str:
        self.runs.append(delivery)
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            meanwhile()
        if self.failures:
            raise self.failures.pop(0)
        return "booked"


@dataclass
class Bench:
    """A trigger under test on the history at ``url``, blocking or under asyncio."""

    url: str
    folder: Path
    asyncio: bool
    closing: ExitStack
    heard: list[RetrievalFailureEvent] = field(default_factory=list[RetrievalFailureEvent])

    def __post_init__(self) -> None:
        self.store: KeepsBeside = open_history(self.url)
        self.closing.callback(lambda: drive(self.store.close()))
        self.closing.callback(on_retrieval_failure(NAME)(self.heard.append).cancel)

    def trigger(self, effects: Effects, **settings: Any) -> Trigger[..., object]:
        """Make the trigger; with ``history=None`` it parks beside the history of the others."""
        given: dict[str, Any] = {"history": self.url, "local_parking_file": self.local_file, **settings}
        if given["history"] is None:
            given["parking"] = self.url
        book: Trigger[..., object] = trigger("orders", name=NAME, **given)(effects.run)
        self.closing.callback(book.close)
        return book

    def deliver(self, book: Trigger[..., object], message: Message) -> Outcome:
        """Take one message through the pipeline."""
        if not self.asyncio:
            return book.handle(message)

        async def handled() -> Outcome:
            try:
                return await book.ahandle(message)
            finally:
                await book.aclose()

        return asyncio.run(handled())

    @property
    def local_file(self) -> Path:
        return self.folder / "local" / "parked.sqlite3"

    def leave(self, left: State | EntryOutcome | timedelta | None) -> None:
        """Leave an entry behind: STARTED, COMPLETED, or with a lease that is still alive."""
        if left is None:
            return
        lease = left if isinstance(left, timedelta) else None
        claim = drive(self.store.claim(NAME, [UUID], DEAD, lease))[0]
        assert claim.found is None
        if isinstance(left, EntryOutcome):
            assert drive(self.store.complete(NAME, UUID, claim.fence, left))

    def entry(self) -> Entry | None:
        return drive(self.store.lookup(NAME, [UUID]))[0]

    def state(self) -> State | EntryOutcome | None:
        """The entry in one word: None, STARTED, OK or FAILED."""
        entry = self.entry()
        return None if entry is None else entry.outcome or entry.state

    def parked(self) -> Sequence[Parked]:
        return drive(self.store.parking.list(trigger=NAME))

    def parked_locally(self) -> Sequence[Parked]:
        """The messages parked in the local file."""
        if not self.local_file.exists():
            return []
        local = open_history(f"sqlite:///{self.local_file}")
        self.closing.callback(lambda: drive(local.close()))
        return drive(local.parking.list(trigger=NAME))


def order(uuid: str | None = UUID, **fields: Any) -> Message:
    body: JsonValue = {"id": "4711", "note": "caf\u00e9", "amount": 2.5}
    return Message(body=body, uuid=None if uuid is None else Uuid(uuid), destination="orders", **fields)


def answering(answer: object) -> Callable[[str, str, Message], Any]:
    def resolver(uuid: str, trigger_name: str, message: Message) -> object:
        if isinstance(answer, Exception):
            raise answer
        return answer

    return resolver


NEW, DUPLICATE, IN_DOUBT = (answering(word) for word in Resolution)


def off(**settings: Any) -> dict[str, Any]:
    """Make the settings of a trigger without a document history."""
    return {"history": None, **settings}


def assert_parked(bench: Bench, outcome: Outcome, kind: ParkedKind | None, message: object) -> None:
    """Assert that a single copy of ``kind``, or none, is parked beside the history."""
    parked = bench.parked()
    assert outcome.parked is (kind is not None)
    assert [(one.kind, one.message, one.reason) for one in parked] == (
        [] if kind is None else [(kind, message, outcome.reason)]
    )


def assert_told(bench: Bench, outcome: Outcome, cause: Cause | None, message: object) -> None:
    """Assert that there is one event of ``cause``, or none."""
    assert [event.cause for event in bench.heard] == ([] if cause is None else [cause])
    assert outcome.event == (bench.heard[0] if bench.heard else None)
    assert all(event.message == message for event in bench.heard)
