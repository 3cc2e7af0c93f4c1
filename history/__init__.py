"""Messages, the document history that remembers them, and the parking lot.

``message.py`` has the message, ``identity.py`` its uuid, ``json_text.py`` reads its body, ``entry.py`` has
its entry, and ``errors.py`` the errors.
``store/`` defines what a document history must do. ``memory/``, ``redis/`` and ``sql/`` implement it, and
``contract/`` tests them. ``beside/`` has the data that all of them keep beside the entries. ``opening.py``
opens a history from a URL. ``circuit.py`` fails fast while a server is away.
``bridge.py`` and ``shell.py`` serve both blocking and asyncio callers. ``gathering.py`` combines the calls
of many tasks into one. ``support/`` does not depend on messages.

Each name is loaded at its first use, so the import of this package is cheap.
"""

from typing import TYPE_CHECKING

from history.support.faces import lazy

if TYPE_CHECKING:
    from history.circuit import CircuitOpenError
    from history.entry import Claim, Entry, EntryOutcome, Fence, Renewal, Settlement, State
    from history.errors import (
        ConfigurationError,
        DoubtlessError,
        HistoryUnavailableError,
        MissingExtraError,
        NotPermittedError,
        TransactionConflictError,
        UnavailableError,
    )
    from history.memory.history import MemoryHistory
    from history.message import Message, Uuid
    from history.opening import open_history
    from history.redis.history import RedisHistory
    from history.sql.history import SqlHistory
    from history.store import BatchOwner, Evidence, HistoryStore, Parked, ParkedKind, Verb
else:  # for a type checker, any name would be there
    __getattr__ = lazy(__name__)

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
    "NotPermittedError",
    "Parked",
    "ParkedKind",
    "RedisHistory",
    "Renewal",
    "Settlement",
    "SqlHistory",
    "State",
    "TransactionConflictError",
    "UnavailableError",
    "Uuid",
    "Verb",
    "open_history",
]
