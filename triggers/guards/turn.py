"""One passage through a guard by a ``with`` statement: the body is the service."""

from collections.abc import Coroutine, Generator
from dataclasses import dataclass
from typing import Any

from triggers.providers.outgoing import SentInRun
from triggers.service.delivery import Delivery
from triggers.service.outcome import Outcome


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
