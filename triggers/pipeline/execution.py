"""Run the service: its arguments, its attempts, its time limit, and the meaning of its end."""

import logging
from asyncio import CancelledError
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter
from typing import Any, Protocol, Self
from uuid import uuid4

from history.shell import Shell
from history.support.paging import pieces_of
from history.support.user_code import is_failure
from triggers.detection.aftermath import Ending
from triggers.pipeline.end import failed, succeeded
from triggers.pipeline.run import Run
from triggers.providers.outgoing import SentInRun, not_sending, sending
from triggers.service.binding import Binding
from triggers.service.delivery import Delivery
from triggers.service.failures import (
    BodyTooLargeError,
    HostRetryError,
    LeaseLostError,
    UnawaitedError,
    check_result,
    own_error,
    rerun,
)
from triggers.service.settings import Settings

#: Logged when sys.exit() in a service ends the process: no other line would give the reason.
ENDED_BY_SERVICE = (
    "%s: %s ended its service and ends this process: the message is not answered, and comes again; to give "
    "up the message alone, raise an error that is no %s"
)

_log = logging.getLogger(__name__)

#: Waits this many seconds before a service runs again; returns whether it must not run any more.
Pause = Callable[[float], Awaitable[bool]]

#: The arguments of one run: positional, and by name.
_Arguments = tuple[list[Any], dict[str, Any]]


class ServiceTransaction(Protocol):
    """The open transaction that an atomic trigger's service is a part of."""

    @property
    def connection(self) -> Any:
        """Return its connection."""
        ...

    def expect(self) -> None:
        """Note that a savepoint for a service follows, right after the next statement."""
        ...

    def resume(self) -> None:
        """Note that the next statements belong to the history."""
        ...

    async def mark(self) -> None:
        """Set the savepoint to which :meth:`undo` goes back."""
        ...

    async def flush(self) -> None:
        """Send what the service has left to do to the database; raises as :meth:`keep`."""
        ...

    async def keep(self) -> None:
        """Keep what the service did since the savepoint, to commit it later.

        Raises:
            Exception: keeping it failed; this is a failure of the service.
        """
        ...

    async def undo(self) -> None:
        """Go back to the savepoint.

        Raises:
            HistoryUnavailableError: this failed, and nothing of the transaction will be committed.
        """
        ...

    def is_worth_another_try(self, error: BaseException) -> bool:
        """Whether the transaction itself caused an error, and not the work that was done in it."""
        ...


class Execution(Protocol):
    """The work for a message that is to run."""

    @property
    def takes_batches(self) -> bool:
        """Whether it takes many messages in one call."""
        ...

    def waiting(self, pause: Pause) -> Self:
        """Return the same execution, which waits with ``pause`` between the tries of a message."""
        ...

    async def run(self, run: Run, transaction: ServiceTransaction | None = None) -> None:
        """Execute one message; afterwards the run holds how it ended.

        Raises:
            HistoryUnavailableError: the transaction cannot go on.
        """
        ...

    async def run_together(self, runs: Sequence[Run], transaction: ServiceTransaction | None = None) -> None:
        """Execute many messages; raises the same errors as :meth:`run`."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceExecution:
    """Runs a trigger's service, once for each message or, with ``batch=``, once for many."""

    settings: Settings
    binding: Binding
    shell: Shell
    pause: Pause | None = None

    @property
    def takes_batches(self) -> bool:
        """Whether the service takes many messages in one call."""
        return self.binding.batch

    def waiting(self, pause: Pause) -> Self:
        """Return the same execution, which waits with ``pause`` between the tries of a message."""
        return replace(self, pause=pause)

    async def run(self, run: Run, transaction: ServiceTransaction | None = None) -> None:
        """Run the service for one message; afterwards the run holds how it ended.

        Raises:
            HistoryUnavailableError: the transaction cannot go on.
        """
        started = perf_counter()
        call = partial(self._call, run, transaction)
        try:
            result, error = await self._attempts([run], call, transaction)
        except BaseException as death:
            self._tell_of_death([run], death)
            raise
        conclude(run, result, error, self.settings, transaction)
        run.seconds = perf_counter() - started

    async def _call(self, run: Run, transaction: ServiceTransaction | None, attempt: int) -> Any:
        binding = run.binding or self.binding
        positional, named = self._arguments(binding, run, attempt, transaction)
        run.attempts = attempt
        if self.settings.policy.transacted:
            return await self._call_sending([run], binding, (positional, named), transaction)
        with not_sending():
            result = binding.service(*positional, **named)
            return result if result is None else await self._ended(result)

    async def _call_sending(
        self,
        runs: Sequence[Run],
        binding: Binding,
        arguments: _Arguments,
        transaction: ServiceTransaction | None,
    ) -> Any:
        """Call the service of a transacted trigger, and send its messages after it has succeeded."""
        message_ids = [run.message.uuid or run.message.message_id or uuid4().hex for run in runs]
        sends = SentInRun(self.settings.name, message_ids, blocking=self.shell.blocking)
        positional, named = arguments
        try:
            with sending(sends):
                result = binding.service(*positional, **named)
                if result is not None:
                    result = await self._ended(result)
            if transaction is not None:
                await transaction.flush()  # or messages would leave for changes that the database refuses
            await sends.leave(None if transaction is None else transaction.connection)
        finally:
            await sends.end()
        return result

    async def _ended(self, result: Any) -> Any:
        """Return a result if its work is done; refuse any other."""
        if hasattr(result, "__await__"):
            result = await self._await(result)
        settings = self.settings
        if not settings.shadow:  # a transaction that changes nothing
            check_result(settings.name, result, kept=settings.keep_result is not False)
        return result

    async def run_together(self, runs: Sequence[Run], transaction: ServiceTransaction | None = None) -> None:
        """Run a batch service for at most ``batch`` messages per call; raises as :meth:`run`."""
        for some in pieces_of(runs, self.settings.batch):
            await self._run_batch(some, transaction)

    async def _run_batch(self, runs: Sequence[Run], transaction: ServiceTransaction | None) -> None:
        """Run a batch service. Only a message that does not fit fails; the others share one end."""
        started = perf_counter()
        good = {run: rows for run in runs if (rows := self._begin(run, transaction)) is not None}
        if not good:
            return
        call = partial(self._call_with_all, good, transaction)
        try:
            result, error = await self._attempts(list(good), call, transaction)
        except BaseException as death:
            self._tell_of_death(list(good), death)
            raise
        seconds = (perf_counter() - started) / len(good)
        if error is None:
            conclude_all(list(good), result, self.settings)
        for run in good:
            run.seconds = seconds
            if error is not None:
                conclude(run, result, error, self.settings, transaction)

    async def _call_with_all(
        self, first: Mapping[Run, _Arguments], transaction: ServiceTransaction | None, attempt: int
    ) -> Any:
        rows = (
            list(first.values())
            if attempt == 1
            else [self._arguments(self.binding, run, attempt, transaction) for run in first]
        )
        positional, named = self.binding.together(rows)
        for run in first:
            run.attempts = attempt
        if self.settings.policy.transacted:
            arguments = (positional, named)
            return await self._call_sending(list(first), self.binding, arguments, transaction)
        with not_sending():
            result = self.binding.service(*positional, **named)
            return result if result is None else await self._ended(result)

    def _begin(self, run: Run, transaction: ServiceTransaction | None) -> _Arguments | None:
        """Return the arguments of a message's first run; None if there are none, and the run has ended."""
        try:
            return self._arguments(self.binding, run, 1, transaction)
        except BaseException as error:
            if not is_failure(error):
                raise
            conclude(run, None, error, self.settings, transaction)
            return None

    def _arguments(
        self, binding: Binding, run: Run, attempt: int, transaction: ServiceTransaction | None
    ) -> _Arguments:
        message = run.message
        size = message.body_size()
        if size > self.settings.max_body_size:
            raise BodyTooLargeError(size, self.settings.max_body_size)
        delivery = self._delivery(run, attempt) if binding.takes_delivery else None
        return binding.arguments(message, delivery, transaction)

    def _delivery(self, run: Run, attempt: int) -> Delivery:
        return Delivery(
            uuid=run.message.uuid,
            fence=run.fence,
            attempt=attempt,
            trigger_name=self.settings.name,
            delivery_count=run.message.delivery_count,
            lease=run,
        )

    async def _await(self, result: Awaitable[Any]) -> Any:
        if self.shell.blocking:
            raise UnawaitedError(self.settings.name, result)
        return await result

    async def _attempts(
        self,
        runs: Sequence[Run],
        call: Callable[[int], Awaitable[Any]],
        transaction: ServiceTransaction | None,
    ) -> tuple[Any, BaseException | None]:
        """Call, again if the failure is transient and the settings allow it; return result and error."""
        if transaction is not None:
            return await self._inside(runs, transaction, call)
        try:
            return await call(1), None  # nearly every message ends here, so it costs no extra coroutine
        except BaseException as error:
            if not is_failure(error):
                raise
            failure = own_error(error)
        settings = self.settings
        if not settings.retry.max_attempts or not settings.is_transient(failure):
            return None, failure
        return await self._again(runs, call, failure)

    async def _again(
        self, runs: Sequence[Run], call: Callable[[int], Awaitable[Any]], failure: BaseException
    ) -> tuple[Any, BaseException | None]:
        """Call repeatedly after a transient failure, and log each pause; return result and error."""
        settings = self.settings

        async def pause(seconds: float) -> None:
            for run in runs:
                extra = {"trigger": settings.name, "uuid": run.message.uuid, "fence": run.fence}
                text = "attempt %d failed (%s): again in %.1f s"
                _log.info(text, run.attempts, run.told_of(failure), seconds, extra=extra)
            # It is already acknowledged, so it could not be recovered.
            if self.pause is None or settings.acknowledge_mode == "auto":
                await self.shell.sleep(seconds)
            elif await self.pause(seconds):
                for run in runs:
                    run.stopped = True
                raise failure

        async def again(attempt: int) -> Any:
            nonlocal failure
            try:
                return await call(attempt)
            except Exception as error:
                failure = error
                raise

        return await self._try(
            rerun(
                again,
                retry=settings.retry,
                transient=settings.transient,
                sleep=pause,
                redact=settings.redaction,
            )
        )

    def _tell_of_death(self, runs: Sequence[Run], death: BaseException) -> None:
        """Log what ends this process inside a service, because nothing else names these messages.

        A cancelled task does not end the process. The pipeline reports what an outage does to a transaction.
        """
        if isinstance(death, Exception | CancelledError | GeneratorExit):
            return
        for run in runs:
            extra = {"trigger": self.settings.name, "uuid": run.message.uuid, "fence": run.fence}
            _log.error(ENDED_BY_SERVICE, run.named, run.told_of(death), type(death).__name__, extra=extra)

    async def _try(self, call: Awaitable[Any]) -> tuple[Any, BaseException | None]:
        """Return what user code returned, or how it failed.

        Raises:
            BaseException: an exception that is not a failure: KeyboardInterrupt, a cancellation of this task,
                and similar.
        """
        try:
            return await call, None
        except BaseException as error:
            if not is_failure(error):
                raise
            return None, own_error(error)

    async def _inside(
        self, runs: Sequence[Run], transaction: ServiceTransaction, call: Callable[[int], Awaitable[Any]]
    ) -> tuple[Any, BaseException | None]:
        """Call inside a transaction. A failure is undone; effects that cannot be kept are a failure."""

        async def kept() -> Any:
            result = await call(1)
            await transaction.keep()
            return result

        await transaction.mark()
        result, error = await self._try(kept())
        if error is not None:
            for run in runs:
                run.raised = error
            await transaction.undo()
        return result, error


def conclude_all(runs: Sequence[Run], result: Any, settings: Settings) -> None:
    """Note that one call has succeeded for all of these: as :func:`conclude`, with one end for all."""
    policy = settings.policy
    ends = {recorded: succeeded(result, policy, recorded=recorded) for recorded in (True, False)}
    for run in runs:
        run.end = ends[run.finding.recorded]


def conclude(
    run: Run,
    result: Any,
    error: BaseException | None,
    settings: Settings,
    transaction: ServiceTransaction | None = None,
) -> None:
    """Note how a run ended and what the table orders after that."""
    policy, recorded = settings.policy, run.finding.recorded
    if error is None:
        run.end = succeeded(result, policy, recorded=recorded)
        return
    ending = Ending.FATAL
    if issubclass(type(error), LeaseLostError) or run.taken_by is not None:
        ending = Ending.LOST  # another owner has the message, whatever the failure was
    elif issubclass(type(error), HostRetryError):
        ending = Ending.LEFT
    elif run.stopped:
        ending = Ending.STOPPED
    elif settings.is_transient(error) or (
        transaction is not None and transaction.is_worth_another_try(error)
    ):
        ending = Ending.TRANSIENT
    run.end = failed(ending, error, policy, recorded=recorded)
