"""The subscribers of events: called before the message is acknowledged, or later, in the background.

A subscription is process-wide, as in the event manager of webMethods; it names triggers by a pattern in
which ``*`` stands for anything.
"""

import inspect
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta

from history.errors import ConfigurationError
from history.shell import Shell
from history.support.forks import forkable_lock
from history.support.user_code import is_failure, takes
from triggers.events.event import RetrievalFailureEvent
from triggers.events.hearing import finish, wildcard
from triggers.events.mailbox import DEFAULT_QUEUE_SIZE, PATIENCE, Handler, Mailbox, log_failure


class Subscription:
    """A handler and the triggers that it handles. It works until :meth:`cancel`.

    With a ``mailbox`` it is asynchronous: its handler is called in the background.
    """

    def __init__(self, handler: Handler, pattern: str, mailbox: Mailbox | None = None) -> None:
        self.handler = handler
        self.pattern = pattern
        self._mailbox = mailbox
        self._name = wildcard(pattern)

    def hears(self, trigger_name: str) -> bool:
        """Whether it handles events of this trigger; case matters, and ``*`` is the only wildcard."""
        return self._name.fullmatch(trigger_name) is not None

    @property
    def synchronous(self) -> bool:
        """Whether the handler returns before the message is acknowledged."""
        return self._mailbox is None

    def __call__(self, event: RetrievalFailureEvent) -> Awaitable[None] | None:
        """Call the handler itself."""
        return self.handler(event)

    async def tell(self, event: RetrievalFailureEvent, shell: Shell) -> None:
        """Call the handler, now or later, with its own copy of the event; its exceptions are logged."""
        event = event.copied()
        if self._mailbox is not None:
            await self._mailbox.put(event, shell)
            return
        try:
            handling = self.handler(event)
            if inspect.isawaitable(handling):
                await finish(handling, shell)
        except BaseException as error:
            if not is_failure(error):
                raise
            log_failure(self.handler, event, error)

    def cancel(self) -> None:
        """Stop receiving events; a second time is harmless. Events on their way are still delivered."""
        with _lock:
            if self in _subscriptions:
                _subscriptions.remove(self)
        if self._mailbox is not None:
            self._mailbox.finish()

    def flush(self, timeout: timedelta = PATIENCE) -> bool:
        """Wait until the handler has received all published events; False if it took longer.

        A call from the handler itself would wait for its own end, so it returns False immediately.
        """
        return self._mailbox is None or self._mailbox.flush(timeout)

    def close(self, timeout: timedelta = PATIENCE) -> bool:
        """Cancel and flush; the log names each event that was not delivered in time."""
        self.cancel()
        return self._mailbox is None or self._mailbox.end(timeout)


_lock = forkable_lock()
_subscriptions: list[Subscription] = []


def on_retrieval_failure(
    trigger: str = "*", *, synchronous: bool = True, queue_size: int = DEFAULT_QUEUE_SIZE
) -> Callable[[Handler], Subscription]:
    """Subscribe a handler to the retrieval failure events of the triggers with a matching name.

    A handler that fails is logged and changes nothing else.

    Args:
        trigger: the name of a trigger, in which ``*`` matches any text; case matters.
        synchronous: True calls the handler before the message is parked and acknowledged. If the process dies
            right afterwards, nothing is lost: the event is raised again at the next delivery. A coroutine
            function is awaited under asyncio; in blocking code it runs to its end on a separate event loop.
            False gives the event to a background thread of this subscription. The thread calls the handler in
            order, and a coroutine function on a separate event loop.
        queue_size: how many events may wait there, from 1. While the queue is full, a publisher waits.

    Raises:
        ConfigurationError: it was used without its parentheses, ``queue_size`` is less than 1, or the handler
            cannot be called with an event.
    """
    if not isinstance(trigger, str):  # pyright: ignore[reportUnnecessaryIsInstance]  (a user's)
        raise ConfigurationError(
            "on_retrieval_failure",
            "its first parameter is not the name of a trigger",
            "write @on_retrieval_failure(), or @on_retrieval_failure('NAME')",
        )

    def subscribe(handler: Handler) -> Subscription:
        _check_handler(handler)
        mailbox = None if synchronous else Mailbox(handler, queue_size)
        subscription = Subscription(handler, trigger, mailbox)
        with _lock:
            _subscriptions.append(subscription)
        return subscription

    return subscribe


def _check_handler(handler: Handler) -> None:
    if not callable(handler) or not takes(handler, 1):
        problem = f"{handler!r:.60} cannot be called with one event"
        raise ConfigurationError("on_retrieval_failure", problem, "write def handler(event)")


def is_heard(trigger: str) -> bool:
    """Whether anybody in this process receives a trigger's events."""
    return bool(_hearing(trigger))


def _hearing(trigger: str) -> Sequence[Subscription]:
    with _lock:
        return [subscription for subscription in _subscriptions if subscription.hears(trigger)]


async def publish(event: RetrievalFailureEvent, shell: Shell) -> None:
    """Call every subscriber with a matching pattern, in the order of subscription; never raise their errors.

    Raises:
        BaseException: KeyboardInterrupt, SystemExit and their kind, from a synchronous handler.
    """
    for subscription in _hearing(event.trigger_name):
        await subscription.tell(event, shell)
