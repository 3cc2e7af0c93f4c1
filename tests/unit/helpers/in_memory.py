"""Triggers over a history in memory, a service that counts its runs, and looks at the entries left behind."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from history import Entry, EntryOutcome, MemoryHistory, Message, Parked, State, Uuid
from history.bridge import drive
from triggers import Delivery, Trigger, trigger

NAME = "book"
AT_ONCE = timedelta(0)

#: A path that nobody can write to: a test that parks there by mistake fails.
NO_FILE = Path("/dev/null/parked.sqlite3")


class Clock:
    """The clock of a store's server; the test moves it."""

    def __init__(self) -> None:
        self.now = datetime(2024, 5, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


class Effects:
    """A service that counts its runs, and raises the given failures in their order."""

    def __init__(self, *failures: BaseException) -> None:
        self.failures = list(failures)
        self.runs: list[str | None] = []
        self.attempts: list[int] = []

    def __call__(self, body: Any, delivery: Delivery) -> object:
        self.runs.append(delivery.uuid)
        self.attempts.append(delivery.attempt)
        if self.failures:
            raise self.failures.pop(0)
        return body


class FailingHistory(MemoryHistory):
    """A history that raises an error from the named verbs."""

    def __init__(self, error: Exception, *verbs: str) -> None:
        super().__init__()
        self.error = error
        vars(self).update(dict.fromkeys(verbs, self.fail))

    async def fail(self, *_arguments: Any, **_terms: Any) -> Any:
        raise self.error


def made(service: Callable[..., object], **settings: Any) -> Trigger[..., object]:
    """Make a trigger over a new history; ``settings`` replace its defaults."""
    given: dict[str, Any] = {
        "name": NAME,
        "history": MemoryHistory(),
        "local_parking_file": NO_FILE,
        **settings,
    }
    return trigger("orders", **given)(service)


def message(uuid: str | None = "u-1", body: Any = b"{}", **fields: Any) -> Message:
    return Message(body=body, uuid=None if uuid is None else Uuid(uuid), **fields)


def store_of(book: Trigger[..., object]) -> MemoryHistory:
    store = book.open_store()
    assert isinstance(store, MemoryHistory)
    return store


def entry_of(book: Trigger[..., object], uuid: str = "u-1") -> Entry:
    (entry,) = drive(store_of(book).lookup(book.name, [uuid]))
    assert entry is not None
    return entry


def state_of(book: Trigger[..., object], uuid: str = "u-1") -> State | EntryOutcome | None:
    """Name the entry's state in one word: None, STARTED, OK or FAILED."""
    (entry,) = drive(store_of(book).lookup(book.name, [uuid]))
    return None if entry is None else entry.outcome or entry.state


def parked_of(book: Trigger[..., object]) -> Sequence[Parked]:
    return drive(store_of(book).parking.list(trigger=book.name))


def started_by_another(book: Trigger[..., object], uuid: str = "u-1", lease: timedelta | None = None) -> None:
    """Leave the entry of a process that died while the service ran."""
    drive(store_of(book).claim(book.name, [uuid], "somebody else", lease))


def take_over(book: Trigger[..., object], owner: str) -> None:
    assert drive(store_of(book).take_over(NAME, "u-1", owner, None, entry_of(book).fence)) is not None


def resolving(answer: object) -> Callable[..., Any]:
    def resolver(uuid: str, trigger_name: str, message: Message) -> object:
        if isinstance(answer, BaseException):
            raise answer
        return answer

    return resolver


def told(seen: list[Delivery]) -> Callable[[Delivery], None]:
    """Return a service that records the ``Delivery`` of each run."""

    def service(delivery: Delivery) -> None:
        seen.append(delivery)

    return service


def number(body: str) -> int:
    return int(body)
