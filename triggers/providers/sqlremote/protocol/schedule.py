"""When the gate of a link opens: on every run, at an interval, or daily at a time. Pure."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, Self

from history.errors import ConfigurationError

_FORM = re.compile(r"(every|at) +(\d{1,2}):(\d{2})(?::(\d{2}))?", re.IGNORECASE)

_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Schedule:
    """``frequency`` A: on every run; P: SEND EVERY ``time``; D: SEND AT ``time`` of the day, in UTC."""

    frequency: Literal["A", "P", "D"] = "A"
    time: timedelta | None = None

    @classmethod
    def parse(cls, text: str | None) -> Self:
        """Read ``every HH:MM:SS``, ``at HH:MM`` or None.

        Raises:
            ConfigurationError: it is anything else.
        """
        if text is None:
            return cls()
        parts = _FORM.fullmatch(text.strip())
        if parts is not None:
            hours, minutes, seconds = (int(part or 0) for part in parts.groups()[1:])
            time = timedelta(hours=hours, minutes=minutes, seconds=seconds)
            daily = parts[1].lower() == "at"
            if minutes < 60 and seconds < 60 and (time < _DAY if daily else time):  # noqa: PLR2004  (a clock)
                return cls("D" if daily else "P", time)
        raise ConfigurationError(
            "send", f"{text!r} is not a schedule", "write 'every 00:05:00' or 'at 22:00'"
        )

    @property
    def send_time(self) -> str | None:
        """The column ``send_time``: ``HH:MM:SS``."""
        if self.time is None:
            return None
        minutes, seconds = divmod(int(self.time.total_seconds()), 60)
        return f"{minutes // 60:02}:{minutes % 60:02}:{seconds:02}"

    def due(self, last: datetime | None, *, now: datetime, others: Iterable[datetime | None] = ()) -> bool:
        """Whether the gate opens now.

        ``last`` is when this peer was served, and ``others`` when the peers with the same period were: they
        are served together. Another peer that was due already when this one was served had nothing to get,
        and does not count. A new peer with a period is due immediately; with a time, at that time.
        A peer that was served in the future is due: the clock was set back since.
        """
        if self.time is None or (last is not None and last > now):
            return True
        if self.frequency == "P":
            dues = [other + self.time for other in others if other is not None]
            return last is None or last + self.time <= now or any(last < due <= now for due in dues)
        # The latest such time of the day that is over: due, unless it was served since.
        today = now.replace(hour=0, minute=0, second=0, microsecond=0) + self.time
        latest = today if today <= now else today - _DAY
        return last is not None and last < latest
