"""What happened: messages, the document history that remembers them, and the parking lot.

``message.py`` is what was sent, ``identity.py`` by what it is known, ``json_text.py`` reads its body,
``entry.py`` is what is remembered of it, ``errors.py`` what can go wrong.
``store/`` says what a document history must do; ``memory/``, ``redis/`` and ``sql/`` do it, and ``contract/``
checks that. ``beside/`` is what all of them keep beside the entries. ``opening.py`` makes one from a URL.
``circuit.py`` fails fast while a server is away.
``bridge.py`` and ``shell.py`` serve blocking and asyncio callers alike, ``gathering.py`` makes one call of
what many tasks ask for at once; ``support/`` knows of no messages.

Each name is loaded when it is first asked for, so importing this package alone costs nothing.
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
