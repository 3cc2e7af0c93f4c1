"""Atomic triggers: the service's effects and the history entry share one SQL transaction.

A transacted trigger on a SQL history whose service takes a ``Connection`` or ``Session`` is atomic.
Everything from claim to completion happens in one transaction; a process that dies in between leaves nothing
behind, so there is no In Doubt window. On PostgreSQL a concurrent claim of the same uuid waits for the end of
the transaction, and then meets a duplicate; on SQLite one transaction runs at a time.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from history.errors import ConfigurationError
from history.store import HistoryStore
from triggers.binding import Binding
from triggers.settings import Settings

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from history.sql import SqlHistory
    from history.sql_transaction import SqlTransaction


@dataclass(frozen=True, slots=True)
class Transactions:
    """Where the transactions of an atomic trigger come from."""

    history: "SqlHistory"

    async def begin(self) -> "AbstractAsyncContextManager[SqlTransaction]":
        """Return a transaction to enter.

        Raises:
            HistoryUnavailableError: the server did not answer.
        """
        return await self.history.transaction()


def transactions_of(
    settings: Settings, binding: Binding, store: HistoryStore | None, *, blocking: bool
) -> Transactions | None:
    """Return where an atomic trigger's transactions come from; None for a trigger that is not atomic.

    Raises:
        ConfigurationError: the service asks for a connection that there cannot be.
    """
    if not binding.resources:
        return None
    asked = " and ".join(sorted(binding.resources))
    setting = f"trigger {settings.name}"
    if not settings.policy.transacted:
        raise ConfigurationError(
            setting, f"its service takes a {asked}, and it is not transacted", "say transacted=True"
        )
    if settings.policy.on_history_error != "suspend":
        raise ConfigurationError(
            setting, "an atomic trigger cannot run without its history", 'leave on_history_error="suspend"'
        )
    history = _sql_history(store)
    if history is None:
        raise ConfigurationError(
            setting,
            f"its service takes a {asked}, and its history is not in SQL",
            "give history='postgresql://...' or 'sqlite:///...', the database of the effects",
        )
    if any(for_asyncio == blocking for for_asyncio in binding.resources.values()):
        raise ConfigurationError(
            setting,
            f"its service takes a {asked}, which this pipeline does not have",
            "take AsyncConnection or AsyncSession in a coroutine function, Connection or Session elsewhere",
        )
    return Transactions(history)


def _sql_history(store: Any) -> "SqlHistory | None":
    # Imported here: whoever has no SQL history need not load SQLAlchemy.
    from history.sql import SqlHistory  # noqa: PLC0415

    return store if isinstance(store, SqlHistory) else None
