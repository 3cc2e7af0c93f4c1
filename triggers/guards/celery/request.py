"""A request of Celery's worker. It notes the format of its message, so that it can be sent again unchanged.

If ``time_limit`` kills the process of a request, this is treated as if the process had died by itself. Celery
would acknowledge such a task, and nobody would learn that it may have run. Instead the task goes back to the
broker and comes again, and the history knows that it started. A worker imports this.
"""

from importlib import import_module
from typing import Any

from triggers.guards.celery.sending import CONTENT_TYPE

#: As Any: Celery has no types.
_base: Any = import_module("celery.worker.request").Request
_killed: Any = import_module("celery.exceptions").TimeLimitExceeded

#: Marks a request that lost its process to a kill.
_MARK = "_doubtless_killed"


def _begin(request: Any, message: Any, *about: Any, **more: Any) -> None:
    """Note the content type in a place where the task finds it, in any process."""
    _base.__init__(request, message, *about, **more)
    request._request_dict[CONTENT_TYPE] = message.content_type  # noqa: SLF001  (what Celery hands on)


def _on_failure(request: Any, exc_info: Any, *about: Any, **more: Any) -> Any:
    """Note how a task ended; a pool reports this before it reports a passed limit."""
    error = exc_info.exception
    setattr(request, _MARK, isinstance(getattr(error, "exc", error), _killed))
    return _base.on_failure(request, exc_info, *about, **more)


def _on_timeout(request: Any, soft: bool, timeout: float) -> None:  # noqa: FBT001  (as Celery calls it)
    """Note that a limit was passed. The task itself also notices the soft limit, and fails."""
    setattr(request, _MARK, not soft)
    _base.on_timeout(request, soft, timeout)


def _acknowledge(request: Any) -> None:
    """Acknowledge a task, unless nobody knows how it ended."""
    if getattr(request, _MARK, False):
        request.reject(requeue=True)
    else:
        _base.acknowledge(request)


Request: Any = type(
    "Request",
    (_base,),
    {"__init__": _begin, "on_failure": _on_failure, "on_timeout": _on_timeout, "acknowledge": _acknowledge},
)
