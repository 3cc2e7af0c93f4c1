"""What happened: messages, the document history that remembers them, and the parking lot.

The stores load their drivers when they are first asked for, so importing this package stays cheap.
"""

from typing import TYPE_CHECKING

from history.entry import Claim, Entry, EntryOutcome, Fence, Settlement, State
from history.errors import ConfigurationError, DoubtlessError, MissingExtraError, UnavailableError
from history.faces import lazy
from history.memory.history import MemoryHistory
from history.message import Message, Uuid
from history.opening import open_history
from history.store import BatchOwner, HistoryStore

if TYPE_CHECKING:
    from history.redis.history import RedisHistory
    from history.sql.history import SqlHistory

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


__getattr__ = lazy(__name__, redis=("RedisHistory",), sql=("SqlHistory",))
