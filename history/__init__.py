"""What happened: messages, the document history that remembers them, and the parking lot.

``message.py`` is what was sent, ``entry.py`` what is remembered of it, ``errors.py`` what can go wrong.
``store/`` says what a document history must do; ``memory/``, ``redis/`` and ``sql/`` do it, and ``contract/``
checks that. ``opening.py`` makes one from a URL. ``circuit.py`` fails fast while a server is away.
``bridge.py`` and ``shell.py`` serve blocking and asyncio callers alike. ``forks.py`` keeps connections out of
forked children. ``rendering.py`` shows exceptions, ``references.py`` reads secrets from the
environment or files, and ``private_files.py`` makes files for one user alone.

The stores load their drivers when they are first asked for, so importing this package stays cheap.
"""

from typing import TYPE_CHECKING

from history.entry import Claim, Entry, EntryOutcome, Fence, Settlement, State
from history.errors import (
    ConfigurationError,
    DoubtlessError,
    HistoryUnavailableError,
    MissingExtraError,
    TransactionConflictError,
    UnavailableError,
)
from history.faces import lazy
from history.memory.history import MemoryHistory
from history.message import Message, Uuid
from history.opening import open_history
from history.store import BatchOwner, Evidence, HistoryStore, Parked, ParkedKind, Verb

if TYPE_CHECKING:
    from history.circuit import CircuitOpenError
    from history.redis.history import RedisHistory
    from history.sql.history import SqlHistory

__all__ = [
    "BatchOwner",
    "CircuitOpenError",
    "Claim",
    "ConfigurationError",
    "DoubtlessError",
    "Entry",
    "EntryOutcome",
    "Evidence",
    "Fence",
    "HistoryStore",
    "HistoryUnavailableError",
    "MemoryHistory",
    "Message",
    "MissingExtraError",
    "Parked",
    "ParkedKind",
    "RedisHistory",
    "Settlement",
    "SqlHistory",
    "State",
    "TransactionConflictError",
    "UnavailableError",
    "Uuid",
    "Verb",
    "open_history",
]

__getattr__ = lazy(__name__, circuit=("CircuitOpenError",), redis=("RedisHistory",), sql=("SqlHistory",))
