"""The databases and servers of the main job: one SQLite file, or Redis with the bookings elsewhere."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Self

#: A silent worker counts as dead after a second here, so that the demo need not wait for half a minute.
_FAST_REDIS = "?claim_idle=1&reclaim_interval=0.2"
_FAST_SQLITE = "?lease=1&poll_interval=0.2"


class GroundName(StrEnum):
    """The names of the grounds, for the command line."""

    SQLITE = "sqlite"
    REDIS = "redis"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """Where messages, history and bookings are, the module with the service, and its guarantee.

    ``worker_provider`` is the worker's form of the provider. If it is ``atomic``, nothing may be In Doubt.
    """

    provider: str
    worker_provider: str
    history: str
    module: str
    bookings: Path
    atomic: bool

    @classmethod
    def sqlite(cls, folder: Path) -> Self:
        """Return one file for everything: the messages (SQL-JMS), the history and the bookings."""
        file = folder / "demo.sqlite3"
        url = f"sqlite:///{file}"
        return cls(
            provider=url,
            worker_provider=url + _FAST_SQLITE,
            history=url,
            module="triggers.demo.atomic_booking",
            bookings=file,
            atomic=True,
        )

    @classmethod
    def redis(cls, folder: Path, url: str) -> Self:
        """Return messages and history on a Redis server, and the bookings in a separate file."""
        return cls(
            provider=url,
            worker_provider=url + _FAST_REDIS,
            history=url,
            module="triggers.demo.booking",
            bookings=folder / "bookings.sqlite3",
            atomic=False,
        )
