"""Where a trigger parks: the lot beside its history, and a local file if no server can take the message."""

import logging
from collections.abc import Sequence
from pathlib import Path

from history.bridge import drive
from history.opening import local_parking_file, open_local_parking
from history.store import HistoryStore
from history.store.parking import Parked, Parking
from history.store.sealing import cipher_of_lot
from history.support.encryption import Cipher
from history.support.private_files import make_folder, make_private
from history.support.rendering import text_of

_log = logging.getLogger(__name__)


class ParkingLot:
    """Parks in ``primary``, or in a SQLite file of this machine if ``primary`` is unavailable or None.

    The file is the last resort for a message that must be acknowledged while its history is unavailable. It
    is as durable as its disk, and only this user may read it. ``doubtless parked list --local`` shows it. It
    is encrypted in the same way as ``primary``. ``owned`` is a history that was opened only for its lot;
    :meth:`close` closes it.
    """

    def __init__(
        self, primary: Parking | None, local_file: Path | None = None, *, owned: HistoryStore | None = None
    ) -> None:
        self._primary = primary
        self._local_file = local_file
        self._local: HistoryStore | None = None
        self._owned = owned

    @property
    def primary(self) -> Parking | None:
        """The lot beside the history, or the lot that the trigger names."""
        return self._primary

    async def park(self, parked: Sequence[Parked]) -> bool:
        """Park messages; False if nothing could take them, so that they must not be acknowledged."""
        if self._primary is not None:
            try:
                await self._primary.park(parked)
            except Exception as error:  # noqa: BLE001  (any error of a lot: the message must go somewhere)
                _log.warning("%s: parking %d messages in a local file", text_of(error), len(parked))
            else:
                return True
        return self._park_locally(parked)

    def _park_locally(self, parked: Sequence[Parked]) -> bool:
        try:
            drive(self._open_local().parking.park(parked))
        except Exception as error:  # noqa: BLE001  (as above)
            _log.critical("cannot park %d messages, not even locally: %s", len(parked), text_of(error))
            return False
        return True

    def _open_local(self) -> HistoryStore:
        if self._local is None:
            self._local = _open_local(self._local_file, cipher_of_lot(self._primary))
        return self._local

    async def close(self) -> None:
        """Close the connections that were opened only for parking."""
        opened, self._local = (self._owned, self._local), None
        for store in opened:
            if store is not None:
                await store.close()


def _open_local(file: Path | None, cipher: Cipher | None) -> HistoryStore:
    path = file or local_parking_file()
    make_folder(path.parent)
    make_private(path)
    return open_local_parking(path, cipher)
