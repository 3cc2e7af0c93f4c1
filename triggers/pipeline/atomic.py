"""Atomic triggers: the service's effects and the history entry share one SQL transaction.

A transacted trigger on a SQL history is atomic if its service takes a ``Connection`` or ``Session``.
Everything from claim to completion happens in one transaction. A process that dies in between leaves nothing
behind, so no message can be In Doubt. On PostgreSQL, a concurrent claim of the same uuid waits for the end of
the transaction and then finds a duplicate. On SQLite, one transaction runs at a time. If the messages wait in
the same database (SQL-JMS), the transaction also removes them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from history.errors import ConfigurationError, HistoryUnavailableError, TransactionConflictError
from history.shell import Shell
from history.store import HistoryStore
from triggers.pipeline.completion import settlement_of
from triggers.pipeline.run import Run
from triggers.providers.provider import Arrival, SharingTransactions
from triggers.service.binding import Binding
from triggers.service.settings import Settings

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from history.sql.history import SqlHistory
    from history.sql.transaction import SqlTransaction


@dataclass(frozen=True, slots=True)
class Transactions:
    """The source of the transactions of an atomic trigger."""

    trigger: str
    history: "SqlHistory"

    async def begin(self) -> "AbstractAsyncContextManager[SqlTransaction]":
        """Return a transaction to enter.

        Raises:
            HistoryUnavailableError: the server did not answer.
        """
        return await self.history.transaction(lean=True)

    async def settle(self, transaction: "SqlTransaction", runs: Sequence[Run]) -> None:
        """Record in a transaction how its runs ended.

        Raises:
            HistoryUnavailableError: recording failed, and nothing of the transaction may be committed.
        """
        if not await transaction.settle(self.trigger, [settlement_of(run) for run in runs]):
            raise HistoryUnavailableError("settling what this very transaction claimed")

    async def removal(
        self, receiver: SharingTransactions | None, arrivals: Mapping[Run, Arrival]
    ) -> "Removal | None":
        """Return the object that removes messages inside a transaction; None for another database."""
        if receiver is None or not await receiver.shares(self.history):
            return None
        return Removal(receiver, arrivals)


@dataclass(slots=True)
class Removal:
    """Removes the messages of a delivery from their queue, in the transaction of their effects."""

    receiver: SharingTransactions
    arrivals: Mapping[Run, Arrival]
    gone: set[Run] = field(default_factory=set["Run"])
    _pending: list[Run] = field(default_factory=list["Run"])

    async def take_out(self, transaction: "SqlTransaction", runs: Sequence[Run]) -> None:
        """Remove the messages that are done when the transaction is committed.

        Raises:
            TransactionConflictError: others received some of them meanwhile; nothing may be committed.
        """
        self._pending = [run for run in runs if run in self.arrivals]
        received = [self.arrivals[run] for run in self._pending]
        transaction.resume()
        if received and not await self.receiver.acknowledge_inside(transaction.connection, received):
            raise TransactionConflictError("taking out messages that were given to somebody else")

    def committed(self) -> None:
        """Note that the messages of the last removal are gone."""
        self.receiver.note_acknowledged([self.arrivals[run] for run in self._pending])
        self.gone.update(self._pending)


def transactions_of(
    settings: Settings, binding: Binding, store: HistoryStore | None, shell: Shell
) -> Transactions | None:
    """Return the source of an atomic trigger's transactions; None for a trigger that is not atomic.

    Raises:
        ConfigurationError: the service asks for a connection that cannot exist.
    """
    if getattr(store, "keeps_offsets", False):
        _check_for_offsets(settings, binding)
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
    if any(for_asyncio == shell.blocking for for_asyncio in binding.resources.values()):
        raise ConfigurationError(
            setting,
            f"its service takes a {asked}, which this pipeline does not have",
            "take AsyncConnection or AsyncSession in a coroutine function, Connection or Session elsewhere",
        )
    return Transactions(settings.name, history)


def _check_for_offsets(settings: Settings, binding: Binding) -> None:
    """Refuse what cannot work if a provider's offsets are stored in the transaction of the effects."""
    for is_wrong, problem, remedy in (
        (
            settings.uuid is not None,
            "reads its own identity with uuid=, and its provider's messages are known by offsets",
            "leave uuid= out",
        ),
        (
            settings.policy.forgotten == "in_doubt",
            "has forgotten='in_doubt', and its provider's offsets are never forgotten",
            "leave forgotten= out",
        ),
        (
            not binding.resources,
            "has no transaction for its provider's offsets",
            "say transacted=True and take a Connection or Session",
        ),
    ):
        if is_wrong:
            raise ConfigurationError(
                f"trigger {settings.name}",
                problem,
                f"{remedy}, or leave offsets= out of the provider's URL and give the trigger a history",
            )


def _sql_history(store: Any) -> "SqlHistory | None":
    # Imported here: without a SQL history, SQLAlchemy need not be loaded.
    from history.sql.history import SqlHistory  # noqa: PLC0415

    return store if isinstance(store, SqlHistory) else None
