"""One run of the crash matrix of atomic triggers: send, kill, finish, and check the result."""

from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass

from sqlalchemy import Engine, text

from history import Message, open_history
from history.bridge import drive
from tests.crash.helpers.aftermath import die_and_finish
from tests.crash.victims.atomic_victim import POINTS, TABLE, UUIDS, name_of
from tests.fixtures.databases import asked, engine_at
from triggers import open_provider


@dataclass(frozen=True, slots=True)
class AtomicDeaths:
    """The deaths with effects in a database; ``scheme`` comes before the name of a destination."""

    url: str
    engine: Engine
    scheme: str = ""

    def send(self, provider: str) -> None:
        opened = open_provider(provider)
        messages = [Message(uuid=uuid, body="x", properties={"a": 1}) for uuid in UUIDS]
        for point in POINTS:
            drive(opened.send(self.scheme + name_of(point), messages))
        drive(opened.close())

    def run(self, provider: str, history: str, is_drained: Callable[[], bool]) -> None:
        """Let a process die at each point, and another process finish."""
        words = [provider, history, *([self.scheme] if self.scheme else [])]
        die_and_finish("tests.crash.victims.atomic_victim", words, lambda: self._all_ran and is_drained())

    @property
    def _all_ran(self) -> bool:
        return self.effects.total() >= len(POINTS) * len(UUIDS)

    @property
    def effects(self) -> Counter[tuple[str, str]]:
        """How often each message of each death had its effect."""
        with self.engine.connect() as connection:
            rows = connection.execute(text("SELECT death, uuid FROM effects")).all()
        return Counter((str(death), str(uuid)) for death, uuid in rows)

    def check(self) -> None:
        assert self.effects == {(name_of(point), uuid): 1 for point in POINTS for uuid in UUIDS}

    def check_history(self) -> None:
        """Assert that nothing is In Doubt and nothing is running."""
        left = open_history(self.url)
        parked = drive(left.parking.list())
        started = [drive(left.stats(name_of(point))).started for point in POINTS]
        drive(left.close())
        assert [one.reason for one in parked] == []
        assert started == [0] * len(POINTS)


@contextmanager
def atomic_deaths(url: str, scheme: str = "") -> Generator[AtomicDeaths]:
    """Make the table of effects in a database; yield a reader of it."""
    asked(url, TABLE)
    with engine_at(url) as engine:
        yield AtomicDeaths(url, engine, scheme)
