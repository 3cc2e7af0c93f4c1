"""A join of only one: the first message of an activation runs the service, the others are discarded."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

from history.errors import HistoryUnavailableError
from history.store.joining import Joining
from triggers.pipeline.end import succeeded
from triggers.pipeline.execution import Pause, ServiceExecution, Transaction, conclude
from triggers.pipeline.joining.parts import activation_of, give_back, reject
from triggers.pipeline.run import Run
from triggers.service.failures import FatalError, persist
from triggers.service.outcome import VERDICT_LOGGER
from triggers.service.settings import Settings

_log = logging.getLogger(__name__)
_verdicts = logging.getLogger(VERDICT_LOGGER)

#: The value of :attr:`~triggers.service.outcome.Outcome.join` for a message after the first one.
DISCARDED = "discarded"


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstExecution:
    """Runs the service for the first message of each activation.

    The uuid identifies the first message, so it stays the first when it is delivered again.
    """

    service: ServiceExecution
    joining: Joining

    @property
    def takes_batches(self) -> bool:
        """False: each message may belong to another activation."""
        return False

    def waiting(self, pause: Pause) -> Self:
        """Return the same execution, which waits with ``pause`` between the tries of a message."""
        return replace(self, service=self.service.waiting(pause))

    @property
    def settings(self) -> Settings:
        """The trigger's settings."""
        return self.service.settings

    async def run(self, run: Run, transaction: Transaction | None = None) -> None:
        """Run the service, or discard the message."""
        try:
            first = await self._is_first(run)
        except HistoryUnavailableError as error:
            give_back(run, self.settings, error)
            return
        except FatalError as error:
            conclude(run, None, error, self.settings)
            reject(run)
            return
        if first:
            await self.service.run(run, transaction)
        else:
            self._discard(run)

    async def run_together(self, runs: Sequence[Run], transaction: Transaction | None = None) -> None:
        """Run the messages one by one."""
        for run in runs:
            await self.run(run, transaction)

    async def _is_first(self, run: Run) -> bool:
        settings, message = self.settings, run.message
        activation = activation_of(message)
        return await persist(
            lambda: self.joining.first(
                settings.name, activation, message.uuid or "", time_out=settings.join_timeout
            ),
            self.service.shell.sleep,
        )

    def _discard(self, run: Run) -> None:
        run.join = DISCARDED
        run.end = succeeded(None, self.settings.policy, recorded=run.finding.recorded)
        run.note("discarded: another message of its activation was first")
        _verdicts.info(
            "discarded: another message of its activation was first",
            extra={"trigger": self.settings.name, "uuid": run.message.uuid, "fence": run.fence},
        )

    async def purge(self) -> None:
        """Forget the first messages of activations after their time-out; later if the store is away."""
        name = self.settings.name
        try:
            await self.joining.purge(name)
        except HistoryUnavailableError as error:
            _log.warning("%s: old activations stay for now", error, extra={"trigger": name})
