"""Background work that fails for a while: nobody waits for it, so the log has to report it.

Background work must not end with an error, even an error of a setting. Somebody may correct a changed
password or a missing permission at the server, and then the work goes on.
"""

import logging
import time
from collections.abc import Mapping

from history.errors import ConfigurationError, UnavailableError
from history.support.rendering import exception_info, reason_of, text_of

#: The pause after the first failure, in seconds, which doubles with each further one, up to the longest.
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 10.0


class Outage:
    """The current failure, if there is one: logged once for each cause, and once when it works again.

    Args:
        log: the logger to use.
        fails: the work that fails, as in "replies of shop cannot be received".
        works: the work that succeeds again, as in "replies of shop are received again".
        extra: the fixed keys of the log.
    """

    def __init__(self, log: logging.Logger, fails: str, works: str, extra: Mapping[str, object]) -> None:
        self._log, self._fails, self._works, self._extra = log, fails, works, extra
        self._began = 0.0
        self._causes: set[str] = set()
        self._failures = 0

    def note(self, error: Exception) -> float:
        """Log what is new, and return how long to pause before the next try, in seconds.

        A server that is away is tried again soon; after other errors, the pauses are longer.
        """
        self._began = self._began or time.monotonic()
        cause = text_of(error)
        if cause not in self._causes:
            self._causes.add(cause)
            self._say(error, cause)
        if isinstance(error, UnavailableError):
            return FIRST_PAUSE
        self._failures += 1
        return float(min(FIRST_PAUSE * 2 ** min(self._failures - 1, 30), LONGEST_PAUSE))

    def _say(self, error: Exception, cause: str) -> None:
        away = isinstance(error, UnavailableError)
        is_expected = away or isinstance(error, ConfigurationError)
        self._log.log(
            logging.WARNING if away else logging.ERROR,
            "%s, which is tried until it works: %s",
            self._fails,
            f"{cause} ({reason_of(error.__cause__)})" if away else cause,
            exc_info=None if is_expected else exception_info(error),
            extra=self._extra,
        )

    def end(self) -> None:
        """Log that it works again, if it did not."""
        if not self._causes:
            return
        seconds = time.monotonic() - self._began
        self._log.warning("%s, after %.1f s", self._works, seconds, extra=self._extra)
        self._causes.clear()
        self._began, self._failures = 0.0, 0
