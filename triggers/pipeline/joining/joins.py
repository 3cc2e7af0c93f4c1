"""Triggers with several destinations, how their messages are joined, and the join of only one.

=====================  ===========================================================================
``join="any"``         every message runs the service; the default
``join="all"``         one message of each destination with the same ``activation`` runs it, once
``join="one"``         the first message of an activation runs it, the others are discarded
=====================  ===========================================================================

Source: the join types All (AND), Any (OR) and Only one (XOR) of webMethods JMS triggers. The parts of a join
are stored beside the document history (:mod:`history.store.joining`), so that they outlive every process.
"""

import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Self

from history.beside.joining import Joining
from history.beside.kept import needed_beside
from history.errors import ConfigurationError, HistoryUnavailableError
from history.store import HistoryStore
from history.store.joining import Hold
from history.store.owners import owner_token
from resolvers.resolution import asking
from triggers.pipeline.completion import EntryCompletion
from triggers.pipeline.end import succeeded
from triggers.pipeline.execution import Pause, ServiceExecution, ServiceTransaction, conclude
from triggers.pipeline.joining.composite import Joined, JoinedBinding
from triggers.pipeline.joining.parts import (
    PartCompletion,
    PartExecution,
    activation_of,
    give_back,
    may_be_kept,
    reject,
    settings_of_parts,
)
from triggers.pipeline.joining.pipeline import JoiningPipeline, TimeOut
from triggers.pipeline.pipeline import MessagePipeline
from triggers.pipeline.protocol import Pipeline
from triggers.pipeline.run import Run
from triggers.service.binding import Binding
from triggers.service.failures import FatalError, persist
from triggers.service.outcome import VERDICT_LOGGER
from triggers.service.settings import Settings
from triggers.service.terms import check_history

__all__ = ["Joined", "bind", "with_join"]

#: How long a process that runs a period is presumed alive. It reports three times within this time.
HOLD = timedelta(seconds=30)

_verdicts = logging.getLogger(VERDICT_LOGGER)

#: The value of :attr:`~triggers.service.outcome.Outcome.join` for a message after the first one.
DISCARDED = "discarded"


def bind(service: Callable[..., Any], settings: Settings, local_names: Mapping[str, Any] | None) -> Binding:
    """Read a service's signature.

    Raises:
        ConfigurationError: it cannot be filled from the messages of this trigger.
    """
    if settings.join == "all":
        binding: Binding = JoinedBinding(service, settings.destinations, local_names)
    else:
        binding = Binding(service, local_names, batch=settings.batch > 1)
    if settings.join != "any" and binding.resources:
        raise ConfigurationError(
            "join",
            f"the service takes a {next(iter(binding.resources))}, which only a transacted trigger has, "
            f"and join={settings.join!r} cannot be transacted",
            "do without it, or without join",
        )
    return binding


def with_join(pipeline: MessagePipeline, service: ServiceExecution) -> Pipeline:
    """Return the pipeline that a trigger needs for its join; ``service`` is what the pipeline executes.

    Raises:
        ConfigurationError: the history is missing, or it does not support joins.
    """
    match pipeline.settings.join:
        case "any":
            return pipeline
        case "one":
            store = _store_of(pipeline)
            first = FirstExecution(service=service, joining=needed_beside(store, "history", "joins").joining)
            return replace(pipeline, execution=first)
        case "all":
            return _joining(pipeline, service)


def _store_of(pipeline: MessagePipeline) -> HistoryStore:
    store, join = pipeline.store, pipeline.settings.join
    check_history(join, store)
    assert store is not None  # noqa: S101  (it has just been checked)
    return store


def _joining(pipeline: MessagePipeline, service: ServiceExecution) -> JoiningPipeline:
    store, settings = _store_of(pipeline), pipeline.settings
    joining, hold = needed_beside(store, "history", "joins").joining, Hold(owner_token(), HOLD)
    of_parts = settings_of_parts(settings)
    usual = EntryCompletion(settings=of_parts, store=store, sleep=service.shell.sleep)
    parts = replace(
        pipeline,
        settings=of_parts,
        execution=PartExecution(settings=of_parts, sleep=service.shell.sleep, joining=joining, hold=hold),
        judge=replace(pipeline.judge, settings=of_parts, resolver=asking(may_be_kept), leases=None),
        completion=PartCompletion(settings=of_parts, store=store, usual=usual),
    )
    # The parts were already measured and routed; together they may exceed the limit of one message.
    whole = replace(service, settings=replace(settings, max_body_size=sys.maxsize))
    joined = replace(pipeline, execution=whole, routing=None, identify=None).at(0)
    return JoiningPipeline(
        settings=settings,
        parts=parts,
        joined=joined,
        joining=joining,
        hold=hold,
        time_out=TimeOut(settings=settings, lot=pipeline.lot, shell=pipeline.shell),
    )


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

    async def run(self, run: Run, transaction: ServiceTransaction | None = None) -> None:
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

    async def run_together(self, runs: Sequence[Run], transaction: ServiceTransaction | None = None) -> None:
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
