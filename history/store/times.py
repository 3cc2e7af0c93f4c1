"""Instants and durations as the servers store them: whole milliseconds, since 1970."""

from datetime import datetime, timedelta

#: The instant of an unknown time.
EPOCH = datetime.fromisoformat("1970-01-01T00:00:00+00:00")
_MILLISECOND = timedelta(milliseconds=1)


def instant(milliseconds: int) -> datetime:
    """Return the aware UTC instant of a server's milliseconds since 1970."""
    return EPOCH + timedelta(milliseconds=milliseconds)


def milliseconds(duration: timedelta) -> int:
    """Return a duration in whole milliseconds, the unit of the servers."""
    return duration // _MILLISECOND


def milliseconds_of(at: datetime) -> int:
    """Return an aware instant in whole milliseconds since 1970, rounded up."""
    return -((EPOCH - at) // _MILLISECOND)
