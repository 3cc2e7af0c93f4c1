"""A request of Celery's worker whose process is killed by ``time_limit``: as if it had died by itself.

Celery acknowledges such a task, so that nobody would hear that it may have happened. A worker imports this.
"""

from importlib import import_module
from typing import Any

#: As Any: Celery tells no types.
_Request: Any = import_module("celery.worker.request").Request
_TimeLimitExceeded: Any = import_module("celery.exceptions").TimeLimitExceeded


class Request(_Request):
    """Gives a task back whose process was killed; where it comes again, the history knows that it started."""

    _is_killed = False

    def on_failure(self, exc_info: Any, *about: Any, **more: Any) -> Any:
        """Hear how the task ended, which a pool says before it says that a limit was passed."""
        error = exc_info.exception
        self._is_killed = isinstance(getattr(error, "exc", error), _TimeLimitExceeded)
        return super().on_failure(exc_info, *about, **more)

    def on_timeout(self, soft: bool, timeout: float) -> None:  # noqa: FBT001  (as Celery calls it)
        """Hear that a limit was passed: of the soft one the task hears as well, and fails."""
        self._is_killed = not soft
        super().on_timeout(soft, timeout)

    def acknowledge(self) -> None:
        """Acknowledge the task, unless nobody knows how it ended."""
        if self._is_killed:
            self.reject(requeue=True)
        else:
            super().acknowledge()
