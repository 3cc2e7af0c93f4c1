"""The journal of a trigger: one line for each verdict that needs an explanation."""

import json
import os
import time
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import Any, Protocol, Self

from history.store.history import HistoryStore

#: About how many lines of each trigger are kept, the latest ones.
JOURNAL_LENGTH = 10_000

#: A longer reason is cut off there; a resolver may return any text.
REASON_LENGTH = 2_000


def line_id() -> str:
    """Return an id that no other line has; the ids of a process are in the order of time."""
    return f"{time.time_ns():016x}{os.urandom(4).hex()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalLine:
    """The verdict on one delivery, and the reason.

    ``verdict`` is a word such as "duplicate", "in doubt" or "taken over", ``reason`` the sentence of the
    outcome, ``row`` the row of the decision table. ``by`` is the process that wrote it. ``at`` is the time of
    the store's server, None before it is stored. ``id`` is unique to the line, so a line that was sent twice
    is shown once.
    """

    verdict: str
    reason: str
    uuid: str | None = None
    row: int | None = None
    fence: int | None = None
    delivery_count: int = -1
    by: str | None = None
    at: datetime | None = None
    id: str = field(default_factory=line_id)

    def to_json(self) -> str:
        """Return it as JSON in ASCII, without its time."""
        document = asdict(self)
        del document["at"]
        document["reason"] = self.reason[:REASON_LENGTH]
        return json.dumps(document)

    @classmethod
    def from_json(cls, text: str | bytes, at: datetime) -> Self:
        """Read what :meth:`to_json` wrote, without fields that a newer version added.

        Raises:
            ValueError, TypeError: the text is not a line.
        """
        document: dict[str, Any] = json.loads(text)
        fields = {name: document[name] for name in cls.__slots__ if name in document}
        return replace(cls(**fields), at=at)


class Journal(Protocol):
    """Keeps the latest lines of each trigger. A line may be sent twice."""

    async def append(self, trigger: str, lines: list[JournalLine]) -> None:
        """Add lines, in one call."""
        ...

    async def read(self, trigger: str, uuid: str | None = None, *, limit: int = 100) -> list[JournalLine]:
        """Return the last lines, for one uuid or all, the oldest of them first."""
        ...


def journal_of(store: HistoryStore) -> Journal | None:
    """Return the journal of a store; None if it does not keep one. Your own store may, in a property."""
    kept: Journal | None = getattr(store, "journal", None)
    return kept


def told_once(lines: list[JournalLine]) -> list[JournalLine]:
    """Return the lines without repetitions."""
    return list({line.id: line for line in lines}.values())
