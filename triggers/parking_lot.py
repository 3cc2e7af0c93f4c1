"""Where a trigger parks: the lot beside its history, and a local file when no server can take the message."""

import logging
from collections.abc import Sequence
from pathlib import Path

from history.bridge import drive
from history.errors import UnavailableError
from history.opening import local_parking_file
from history.parking import Parked, Parking

_log = logging.getLogger(__name__)


class ParkingLot:
    """Parks in ``primary``, or, when that is away or None, in a SQLite file of this machine.

    The file is the last resort of a message that must be acknowledged while its history is away; it is as
    durable as the disk it is on. ``doubtless parked list --local`` shows it.
    """

    def __init__(self, primary: Parking | None, local_file: Path | None = None) -> None:
        self._primary = primary
        self._local_file = local_file
        self._local: Parking | None = None

    async def park(self, parked: Sequence[Parked]) -> bool:
        """Keep messages; False when nothing could take them, so that they must not be acknowledged."""
        if self._primary is not None:
            try:
                await self._primary.park(parked)
            except UnavailableError as error:
                _log.warning("%s: parking %d messages in a local file", error, len(parked))
            else:
                return True
        return self._park_locally(parked)

    def _park_locally(self, parked: Sequence[Parked]) -> bool:
        try:
            drive(self._local_parking().park(parked))
        except (OSError, UnavailableError) as error:
            _log.critical("cannot park %d messages, not even locally: %s", len(parked), error)
            return False
        return True

    def _local_parking(self) -> Parking:
        if self._local is None:
            self._local = open_local_parking(self._local_file)
        return self._local


def open_local_parking(file: Path | None = None) -> Parking:
    """Open the parking lot in this machine's file, by default in the user's state directory."""
    from history.sql_parking import SqlParking  # noqa: PLC0415  (SQLAlchemy loads when it is needed)

    path = file or local_parking_file()
    path.parent.mkdir(parents=True, exist_ok=True)
    return SqlParking.from_url(f"sqlite:///{path}")


def local_parking_if_any() -> Parking | None:
    """Open this machine's file, if it was ever needed."""
    return open_local_parking() if local_parking_file().exists() else None
