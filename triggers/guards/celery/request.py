"""A request of Celery's worker: it notes how its message was written, so that it can be sent again like that.

A request whose process is killed by ``time_limit`` is treated as if the process had died by itself.
Celery acknowledges such a task, so that nobody would hear that it may have happened. Given back to the broker
it comes again, and the history knows that it started. A worker imports this.
"""

from importlib import import_module
from typing import Any

from triggers.guards.celery.sending import CONTENT_TYPE

#: As Any: Celery tells no types.
_base: Any = import_module("celery.worker.request").Request
_killed: Any = import_module("celery.exceptions").TimeLimitExceeded

#: What marks a request whose process was killed.
_MARK = "_doubtless_killed"


def _begin(request: Any, message: Any, *about: Any, **more: Any) -> None:
    """Note the content type where the task finds it, in whichever process it runs."""
    _base.__init__(request, message, *about, **more)
    request._request_dict[CONTENT_TYPE] = message.content_type  # noqa: SLF001  (what Celery hands on)


def _on_failure(request: Any, exc_info: Any, *about: Any, **more: Any) -> Any:
    """Hear how a task ended, which a pool says before it says that a limit was passed."""
    error = exc_info.exception
    setattr(request, _MARK, isinstance(getattr(error, "exc", error), _killed))
    return _base.on_failure(request, exc_info, *about, **more)


def _on_timeout(request: Any, soft: bool, timeout: float) -> None:  # noqa: FBT001  (as Celery calls it)
    """Hear that a limit was passed: of the soft one the task hears as well, and fails."""
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
