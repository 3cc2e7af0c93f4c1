"""Events on their way to a handler that is called later: one bounded queue, one thread, in order.

Nothing is dropped: if the queue is full, the publisher waits, and the remaining events are delivered when the
interpreter ends. Only a hanging handler misses events: one that hangs for :data:`PATIENCE` at the end, or for
:data:`HANGING` while its queue is full. The log names each missed event. Events live in memory: a process
that is killed takes them with it.
"""

import asyncio
import atexit
import inspect
import logging
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import closing
from datetime import timedelta
from functools import cache
from typing import Any

from history.errors import ConfigurationError, UnavailableError
from history.shell import Shell
from history.support.rendering import exception_info, text_of
from triggers.events.event import RetrievalFailureEvent
from triggers.events.hearing import failure_of

_log = logging.getLogger(__name__)

#: Receives events. It may be a coroutine function.
Handler = Callable[[RetrievalFailureEvent], Awaitable[None] | None]

#: How many events wait for a handler at most, by default.
DEFAULT_QUEUE_SIZE = 1000

#: How long the end of an interpreter or a consumer waits for handlers, all of them together.
PATIENCE = timedelta(seconds=10)

#: How long a handler may take for one event before publishers no longer wait for room in its queue.
HANGING = timedelta(minutes=5)

#: How often a publisher checks whether a full queue has room, in seconds.
FULL_PAUSE = 0.01


class Mailbox:
    """Passes events to one handler in a background thread, which starts with the first event."""

    def __init__(self, handler: Handler, size: int = DEFAULT_QUEUE_SIZE) -> None:
        if type(size) is not int or size < 1:
            raise ConfigurationError("queue_size", f"must be 1 or more, not {size!r}", "use a whole number")
        self._handler = handler
        self._size = size
        self._closing = False
        self.renew()
        _drain_at_exit()
        _mailboxes.add(self)

    def renew(self) -> None:
        """Begin empty: a forked child has neither its parent's thread nor its events."""
        self._changed = threading.Condition()
        self._waiting: deque[RetrievalFailureEvent] = deque()
        self._current: RetrievalFailureEvent | None = None
        self._current_since = 0.0
        self._thread: threading.Thread | None = None

    async def put(self, event: RetrievalFailureEvent, shell: Shell) -> None:
        """Hand an event over; wait while the queue is full, unless the handler hangs."""
        warned = False
        while not self._offer(event):
            if self._hangs():
                self._name(event)
                return
            if not warned:
                _log.warning(
                    "the queue of %s is full: waiting for it", named(self._handler), extra=_extra(event)
                )
            warned = True
            await shell.sleep(FULL_PAUSE)

    def _hangs(self) -> bool:
        with self._changed:
            telling = self._current is not None
            return telling and time.monotonic() - self._current_since > HANGING.total_seconds()

    def _offer(self, event: RetrievalFailureEvent) -> bool:
        with self._changed:
            # The handler itself must not wait for its own end.
            mine = threading.current_thread() is self._thread
            if len(self._waiting) >= self._size and not mine:
                return False
            self._waiting.append(event)
            self._changed.notify_all()
            working = self._thread is not None or self._start()
        if not working:
            self._work()
        return True

    def _start(self) -> bool:
        """Start the thread; False if the caller's thread must do it, because the interpreter is ending."""
        thread = threading.Thread(target=self._work, name="doubtless-events", daemon=True)
        try:
            if not _drained.is_set():
                thread.start()
                self._thread = thread
                return True
        except RuntimeError:
            _log.debug("no thread starts any more")
        self._thread, self._closing = threading.current_thread(), True
        return False

    def _work(self) -> None:
        # One event loop for all events, so that what a handler opens on it stays from one event to the next;
        # made when the first event is awaited.
        with closing(asyncio.Runner()) as runner:
            while (event := self._next()) is not None:
                tell(self._handler, event, run=runner.run)
                with self._changed:
                    self._current = None
                    self._changed.notify_all()

    def _next(self) -> RetrievalFailureEvent | None:
        """Wait for an event; None when there are no more."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closing)
            if not self._waiting:
                self._thread = None
                return None
            self._current, self._current_since = self._waiting.popleft(), time.monotonic()
            self._changed.notify_all()
            return self._current

    def flush(self, timeout: timedelta) -> bool:
        """Wait until all events are delivered; False if it took longer, or if the handler itself asks."""
        with self._changed:
            if threading.current_thread() is self._thread:
                return False
            return self._changed.wait_for(
                lambda: not self._waiting and self._current is None, timeout.total_seconds()
            )

    def finish(self) -> None:
        """Let the thread end once all events are delivered; it starts again for later events."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()

    def end(self, timeout: timedelta) -> bool:
        """Finish, and wait for it; name in the log the events that were not delivered in time."""
        thread = self._thread
        self.finish()
        ended = self.flush(timeout)
        with self._changed:
            telling, waiting = self._current, list(self._waiting)
        if ended and thread is not None:
            thread.join(timeout.total_seconds())  # it only has to close its event loop
        if telling is not None and not ended:
            _log.error("%s has not come back from an event", named(self._handler), extra=_extra(telling))
        for event in waiting:
            self._name(event)
        return ended

    def _name(self, event: RetrievalFailureEvent) -> None:
        _log.error("%s was not told of an event in time", named(self._handler), extra=_extra(event))


def tell(
    handler: Handler,
    event: RetrievalFailureEvent,
    *,
    run: Callable[[Coroutine[Any, Any, BaseException | None]], BaseException | None],
) -> None:
    """Call a handler in a thread where nobody catches its exceptions, and log them."""
    try:
        handling = handler(event)
        if inspect.isawaitable(handling):
            failure = run(failure_of(handling))
            if failure is not None:
                log_failure(handler, event, failure)
    except BaseException as error:  # noqa: BLE001  (user code; a SystemExit would end the thread silently)
        log_failure(handler, event, error)


def log_failure(handler: Handler, event: RetrievalFailureEvent, error: BaseException) -> None:
    """Log the exception of a handler: in one line if that says all, else with its traceback."""
    expected = issubclass(type(error), (ConfigurationError, UnavailableError))
    _log.error(
        "the retrieval failure handler %s failed: %s",
        named(handler),
        text_of(error),
        exc_info=None if expected else exception_info(error),
        extra=_extra(event),
    )


def named(handler: Handler) -> str:
    """Return the name of a handler; of a sink its class, because its address may contain a password."""
    name = getattr(handler, "__qualname__", None)
    return name if isinstance(name, str) else type(handler).__name__


def _extra(event: RetrievalFailureEvent) -> dict[str, object]:
    """Return the log's fixed keys."""
    return {"trigger": event.trigger_name, "uuid": event.uuid}


_mailboxes: "weakref.WeakSet[Mailbox]" = weakref.WeakSet()

#: Set when the interpreter is ending: nobody would wait for a thread that starts now.
_drained = threading.Event()


def flush_events(timeout: timedelta = PATIENCE) -> bool:
    """Wait until every handler has received all published events; False if it took longer."""
    return _all_within(timeout, Mailbox.flush)


def _all_within(timeout: timedelta, wait: Callable[[Mailbox, timedelta], bool]) -> bool:
    deadline = time.monotonic() + timeout.total_seconds()
    done = [wait(box, timedelta(seconds=max(deadline - time.monotonic(), 0))) for box in list(_mailboxes)]
    return all(done)


# At the first mailbox, because importing a package has no effect; once.
@cache
def _drain_at_exit() -> None:
    atexit.register(_drain)
    os.register_at_fork(after_in_child=_renew_all)


def _drain() -> None:
    _drained.set()
    _all_within(PATIENCE, Mailbox.end)


def _renew_all() -> None:
    for box in list(_mailboxes):
        box.renew()
