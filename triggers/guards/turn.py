"""One passage through a guard by a ``with`` statement: the body is the service."""

from collections.abc import Coroutine, Generator
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from history.support.user_code import is_failure
from triggers.pipeline.execution import ServiceTransaction, conclude
from triggers.pipeline.run import Run
from triggers.providers.outgoing import SentInRun
from triggers.service.delivery import Delivery
from triggers.service.failures import check_result
from triggers.service.outcome import Outcome
from triggers.service.settings import Settings


@dataclass(slots=True, kw_only=True)
class Turn:
    """The value of ``with guard.once(uuid) as turn``: true if the body must do its work, else false.

    ``delivery`` is the run's, None without a run. ``outcome`` is known immediately if the turn is false, and
    else after the body has ended. The body may assign a ``result``, which becomes the outcome's.
    """

    delivery: Delivery | None = None
    outcome: Outcome | None = None
    result: Any = None

    def __bool__(self) -> bool:
        return self.delivery is not None


@dataclass(frozen=True, slots=True)
class Pause:
    """A run awaits this while the body of a ``with`` statement has its turn.

    ``sends`` keeps what the body of a transacted guard sends.
    """

    delivery: Delivery
    sends: SentInRun | None

    def __await__(self) -> Generator["Pause", Any, Any]:
        return (yield self)


class Passage:
    """A passage through a blocking pipeline that stops before it calls its service.

    A pipeline over a blocking store awaits nothing except the :class:`Pause`.
    """

    def __init__(self, handling: Coroutine[Pause, Any, Outcome]) -> None:
        self._handling = handling
        self.turn = Turn()
        self.sends: SentInRun | None = None

    def begin(self) -> Turn:
        """Go to the service, or to the end if there is nothing to run."""
        try:
            pause = self._handling.send(None)
            self.turn.delivery, self.sends = pause.delivery, pause.sends
        except StopIteration as ended:
            self.turn.outcome = ended.value
        return self.turn

    def end(self) -> None:
        """Go on after the body has ended well."""
        try:
            self._handling.send(self.turn.result)
        except StopIteration as ended:
            self.turn.outcome = ended.value

    def fail(self, error: BaseException) -> None:
        """Go on after the body has raised.

        Raises:
            BaseException: the same exception, if it is not a failure but the end of the process.
        """
        try:
            self._handling.throw(error)
        except StopIteration as ended:
            self.turn.outcome = ended.value


@dataclass(frozen=True, slots=True)
class HeldExecution:
    """Makes the body of a ``with`` statement the service."""

    settings: Settings

    @property
    def takes_batches(self) -> bool:
        """Whether the service takes several messages: never."""
        return False

    def waiting(self, pause: object) -> "HeldExecution":
        """Return itself."""
        del pause  # it never tries again
        return self

    async def run(self, run: Run, transaction: ServiceTransaction | None = None) -> None:
        """Give the body its turn, and note how it ended."""
        started = perf_counter()
        delivery = Delivery(
            uuid=run.message.uuid,
            fence=run.fence,
            attempt=1,
            trigger_name=self.settings.name,
            delivery_count=run.message.delivery_count,
            lease=run,
        )
        run.attempts, result, failure = 1, None, None
        sends = SentInRun(self.settings.name, [run.message.uuid or ""], blocking=True)
        try:
            result = await Pause(delivery, sends if self.settings.policy.transacted else None)
            check_result(self.settings.name, result, kept=self.settings.keep_result is not False)
            await sends.leave(None)
        except BaseException as error:
            if not is_failure(error):
                raise
            failure = error
        finally:
            await sends.end()
        conclude(run, result, failure, self.settings, transaction)
        run.seconds = perf_counter() - started

    async def run_together(self, runs: Any, transaction: ServiceTransaction | None = None) -> None:
        """Run some, one after the other."""
        for run in runs:
            await self.run(run, transaction)
