"""Every failure path of the reference system, run through real stores: the cells of ``failure_matrix.md``."""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

import pytest

from resolvers import Resolution
from tests.fixtures.histories import with_store
from tests.fixtures.ports import closed_port
from triggers import FatalError, Message, Outcome, Retry, TransientError, Trigger, trigger

MATRIX = (Path(__file__).parent / "failure_matrix.md").read_text(encoding="utf-8")

KINDS = ("plain", "transacted")
SERVICES = ("success", "transient once", "transient, throw", "transient, suspend", "fatal", "crash")
HISTORIES = ("on", "off", "away, suspend", "away, resolve")
RESOLVERS = ("none", "NEW", "DUPLICATE", "IN_DOUBT", "transient error", "other error")

NAME, UUID = "book", "u-1"


class Died(BaseException):
    """Simulates the death of the process. No code below catches it."""


class First(NamedTuple):
    """A line of the first table."""

    trigger: str
    service: str
    history: str
    resolver: str
    verdict: str
    runs: str
    entry: str
    answer: str
    event: str
    why: str


class Next(NamedTuple):
    """A line of the second table."""

    trigger: str
    service: str
    history: str
    entry: str
    resolver: str
    verdict: str
    why: str


class Cell(NamedTuple):
    """One combination."""

    trigger: str
    service: str
    history: str
    resolver: str

    def __str__(self) -> str:
        return "-".join(self).replace(", ", "_").replace(" ", "_")


CELLS = [Cell(*parts) for parts in product(KINDS, SERVICES, HISTORIES, RESOLVERS)]

L = TypeVar("L", First, Next)


def lines_of(kind: type[L]) -> Sequence[L]:
    """Read a table: the lines with as many columns as the tuple has fields."""
    rows = [[part.strip() for part in line.strip("| ").split("|")] for line in MATRIX.splitlines()]
    found = [row for row in rows if len(row) == len(kind._fields)]
    return [kind(*row) for row in found if row[0] not in {"trigger", "---"}]


FIRST, NEXT = lines_of(First), lines_of(Next)


def line_for(lines: Sequence[L], **facts: str) -> L:
    """Return the first line that matches these facts."""
    return next(
        line for line in lines if all(getattr(line, name) in {"any", fact} for name, fact in facts.items())
    )


class Service:
    """Fails according to its name, and counts its runs."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.runs = 0

    def run(self, _message: Message) -> None:
        self.runs += 1
        if self.name.startswith("transient") and (self.name != "transient once" or self.runs == 1):
            raise TransientError("not now")
        if self.name == "fatal":
            raise FatalError("never")
        if self.name == "crash" and self.runs == 1:
            raise Died


def resolver_of(name: str) -> Any:
    def resolve(uuid: str, trigger_name: str, message: Message) -> Resolution:
        if name == "transient error":
            raise TransientError("not now")
        if name == "other error":
            raise LookupError("never")
        return Resolution[name]

    return None if name == "none" else resolve


@dataclass(frozen=True)
class Store:
    """A kind of history: the URL of a working history, and the URL of an unreachable history."""

    url: str
    away_url: str

    def entry(self) -> str:
        entry = with_store(self.url, lambda store: store.lookup(NAME, [UUID]))[0]
        return "absent" if entry is None else str(entry.outcome or entry.state)


#: Every cell on Redis and on a file. On a file, cells without a working history run only in ``make prove``.
WHERE = [
    *(pytest.param(cell, "redis", id=f"{cell}-redis") for cell in CELLS),
    *(
        pytest.param(
            cell, "sqlite", id=f"{cell}-sqlite", marks=[] if cell.history == "on" else [pytest.mark.prove]
        )
        for cell in CELLS
    ),
]


@pytest.fixture
def store(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    if kind == "redis":
        # A server that is gone: nobody listens on its port any more.
        yield Store(cast("str", request.getfixturevalue("redis_url")), f"redis://127.0.0.1:{closed_port()}")
        return
    locked = sqlite3.connect(tmp_path / "locked.sqlite3", isolation_level=None)
    locked.execute("BEGIN EXCLUSIVE")
    yield Store(f"sqlite:///{tmp_path}/history.sqlite3", f"sqlite:///{tmp_path}/locked.sqlite3?timeout=0.01")
    locked.close()


def made(cell: Cell, store: Store, service: Service, folder: Path) -> Trigger[..., None]:
    suspends = cell.service == "transient, suspend"
    settings: dict[str, Any] = {"on_history_error": cell.history.removeprefix("away, ")}
    if not cell.history.startswith("away"):
        settings = {}
    if cell.trigger == "transacted":
        settings |= {"transacted": True, "on_rollback": "suspend_and_recover" if suspends else "recover"}
    else:
        settings |= {
            "retry": Retry(max_attempts=1, interval=Retry().interval * 0),
            "on_retry_failure": "suspend" if suspends else "throw",
        }
    urls = {"on": store.url, "off": None}
    return trigger(
        "orders",
        name=NAME,
        history=urls.get(cell.history, store.away_url),
        resolver=resolver_of(cell.resolver),
        parking=store.url if cell.history == "off" else None,
        local_parking_file=folder / "local.sqlite3",
        lease=None,  # as in the reference system
        **settings,
    )(service.run)


def handled(book: Trigger[..., None], count: int) -> Outcome | None:
    """Deliver the message. Return None if the process "died"."""
    try:
        return book.handle(Message(uuid=UUID, body="x", delivery_count=count))
    except Died:
        return None


def verdict_of(outcome: Outcome) -> str:
    if outcome.status is not None:
        return str(outcome.status)
    return "rejected" if outcome.rejected else "undecided"


def answer_of(outcome: Outcome) -> str:
    answer = "acknowledge" if outcome.acknowledge else "recover"
    return answer + ", park" * outcome.parked + ", suspend" * outcome.suspend


@pytest.mark.parametrize(("cell", "kind"), WHERE)
def test_the_cell(cell: Cell, store: Store, tmp_path: Path) -> None:
    service = Service(cell.service)
    first = line_for(FIRST, **cell._asdict())
    with ExitStack() as closing:
        book = made(cell, store, service, tmp_path)
        closing.callback(book.close)

        outcome = handled(book, 1)

        assert service.runs == int(first.runs)
        assert store.entry() == first.entry
        if outcome is None:
            assert (first.verdict, first.answer, first.event) == ("NEW", "none", "no")
        else:
            assert verdict_of(outcome) == first.verdict, outcome.reason
            assert answer_of(outcome) == first.answer, outcome.reason
            assert (outcome.event is not None) is (first.event == "yes"), outcome.reason

        again = handled(book, 2)

        then = line_for(NEXT, entry=first.entry, **cell._asdict())
        if again is None:  # dies in its first run, which is this one
            assert then.verdict == "NEW"
        else:
            assert verdict_of(again) == then.verdict, again.reason


@pytest.mark.parametrize("table", [FIRST, NEXT], ids=["first", "next"])
def test_every_line_is_for_a_cell(table: Sequence[First] | Sequence[Next]) -> None:
    reached: set[First | Next] = set()
    for cell in CELLS:
        first = line_for(FIRST, **cell._asdict())
        reached |= {first, line_for(NEXT, entry=first.entry, **cell._asdict())}

    assert set(table) <= reached
