"""What happened: messages, the document history that remembers them, and the parking lot.

The stores load their drivers when they are first asked for, so importing this package stays cheap.
"""

from typing import TYPE_CHECKING, Any

from history.entry import Claim, Entry, EntryOutcome, Fence, Settlement, State
from history.errors import ConfigurationError, DoubtlessError, MissingExtraError, UnavailableError
from history.memory import MemoryHistory
from history.message import Message, Uuid
from history.opening import open_history
from history.store import BatchOwner, HistoryStore

if TYPE_CHECKING:
    from history.redis import RedisHistory
    from history.sql import SqlHistory

__all__ = [
    "BatchOwner",
    "Claim",
    "ConfigurationError",
    "DoubtlessError",
    "Entry",
    "EntryOutcome",
    "Fence",
    "HistoryStore",
    "MemoryHistory",
    "Message",
    "MissingExtraError",
    "RedisHistory",
    "Settlement",
    "SqlHistory",
    "State",
    "UnavailableError",
    "Uuid",
    "open_history",
]


def __getattr__(name: str) -> Any:
    if name == "RedisHistory":
        from history.redis import RedisHistory  # noqa: PLC0415  (a driver loads when it is asked for)

        return RedisHistory
    if name == "SqlHistory":
        from history.sql import SqlHistory  # noqa: PLC0415  (as above)

        return SqlHistory
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
