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
    from history.circuit import CircuitOpenError as CircuitOpenError
    from history.entry import Claim as Claim
    from history.entry import Entry as Entry
    from history.entry import EntryOutcome as EntryOutcome
    from history.entry import Fence as Fence
    from history.entry import Renewal as Renewal
    from history.entry import Settlement as Settlement
    from history.entry import State as State
    from history.errors import ConfigurationError as ConfigurationError
    from history.errors import DoubtlessError as DoubtlessError
    from history.errors import HistoryUnavailableError as HistoryUnavailableError
    from history.errors import MissingExtraError as MissingExtraError
    from history.errors import NotPermittedError as NotPermittedError
    from history.errors import TransactionConflictError as TransactionConflictError
    from history.errors import UnavailableError as UnavailableError
    from history.memory.history import MemoryHistory as MemoryHistory
    from history.message import Message as Message
    from history.message import Uuid as Uuid
    from history.opening import open_history as open_history
    from history.redis.history import RedisHistory as RedisHistory
    from history.sql.history import SqlHistory as SqlHistory
    from history.store import BatchOwner as BatchOwner
    from history.store import Evidence as Evidence
    from history.store import HistoryStore as HistoryStore
    from history.store import Parked as Parked
    from history.store import ParkedKind as ParkedKind
    from history.store import Verb as Verb
else:  # for a type checker, any name would be there
    __getattr__ = lazy(__name__)
