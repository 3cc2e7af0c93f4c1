"""Databases change the same rows. They are lost, restored, retired and replaced, and are equal in the end."""

import re
import shutil
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pytest
from sqlalchemy import Connection, text

from history.bridge import drive
from history.store.watermark import Offset
from tests.fixtures.scale import sized
from tests.integration.providers.sqlremote.captured_ends import is_sqlite
from tests.integration.providers.sqlremote.link_ends import ORDERS, Side
from tests.integration.providers.sqlremote.test_sqlremote_capture_conflicts import Captured, keep
from tests.integration.providers.sqlremote.three_ends import ROWS, Three, put
from tests.unit.helpers.lossy import Fate
from triggers.providers.sqlremote.extraction.extract import extract
from triggers.providers.sqlremote.extraction.load import load

#: The number of times that all three databases come to rest and are compared.
HISTORIES = sized(6, full=500)

#: The same for databases on a server, which takes longer.
HISTORIES_OF_SERVERS = sized(6, full=100)

ONCE = text("INSERT INTO applied VALUES (:uuid)")

#: The names of the remotes, and of their links at the consolidated database.
LINKS = {"a": "orders", "third-c": "third"}

#: The option that the alarm about a regressed subscriber demands.
CONFIRMED = re.compile(r"--confirmed (\d+)")


#: Changes of all kinds. Some of them move rows.
MOVING = (
    "DELETE FROM stock WHERE id = :row",
    "UPDATE stock SET value = :value WHERE id >= :row",
    "UPDATE stock SET rep = :rep WHERE id >= :row",
    "INSERT INTO stock VALUES (:row, :value, :rep) ON CONFLICT (id) DO UPDATE SET value = :value, rep = :rep",
)


def put_once(operations: Sequence[Any], connection: Connection, *, forwards: bool) -> None:
    """Apply operations. The primary key of ``applied`` refuses an operation that was already applied."""
    connection.execute(ONCE, operations)
    put(operations, connection)
    if forwards:
        ORDERS.append(connection, *operations, to_sender=True)


class Lives(Three):
    """Like :class:`Three`, with databases that come and go. The applications give each change an identity."""

    settings: Mapping[str, Any] = {"tables": ["stock"]}
    #: Whether each remote has all rows, so that the consolidated database can be rebuilt from one.
    remotes_have_all = True

    services = partial(put_once, forwards=True), partial(put_once, forwards=False)

    def __init__(self, seed: int, new_database: Callable[[], str], folder: Path) -> None:
        super().__init__(seed, [new_database() for _ in "cab"])
        self.new_database, self.folder, self.files = new_database, folder, 0
        self.backups: dict[str, Any] = {}
        #: The databases that a person has restored since all were last equal.
        self.restored: set[str] = set()
        #: The number of restores.
        self.seen = Counter[str]()
        for side in self.sides:
            self.prepare(side)

    def prepare(self, side: Side) -> None:
        side.execute("CREATE TABLE IF NOT EXISTS stock (id TEXT PRIMARY KEY, value TEXT)")
        side.execute("CREATE TABLE applied (uuid TEXT PRIMARY KEY)")

    def update(self, side: Side) -> None:
        with side.engine.begin() as connection:
            for row in self.random.sample(ROWS, self.random.choice([1, 2])):
                uuid = f"{side.name} {self.random.random()}"
                change = {"id": row, "value": uuid, "uuid": uuid}
                put([change], connection)
                ORDERS.append(connection, change)

    def change_lives(self) -> None:
        """Between changes, back up and restore databases, and let remotes leave for ever."""
        for _ in range(self.random.randrange(1, 5)):
            self.live()
            side = self.random.choice(self.sides)
            match self.random.randrange(6):
                case 0 | 1:
                    self.back_up(side)
                case 2 | 3 if side.name in self.backups:
                    self.restore(side)
                case 4 if len(self.sides) == len("cab"):
                    self.retire(self.random.choice(self.sides[1:]))
                case _:
                    pass
        self.live()

    def file(self, kind: str) -> Path:
        self.files += 1
        return self.folder / f"{self.files}.{kind}"

    def back_up(self, side: Side) -> None:
        if not is_sqlite(side):
            self.backups[side.name] = side.back_up()
            return
        file = self.backups[side.name] = self.file("backup")
        with closing(sqlite3.connect(place(side))) as here, closing(sqlite3.connect(file)) as there:
            here.backup(there)

    def restore(self, side: Side) -> None:
        if is_sqlite(side):
            self.restore_file(side)
        else:
            side.restore(self.backups[side.name])
        self.restored.add(side.name)
        self.seen["restored"] += 1

    def restore_file(self, side: Side) -> None:
        side.leave()
        side.engine.dispose()
        for rest in ("-wal", "-shm"):
            Path(f"{place(side)}{rest}").unlink(missing_ok=True)
        shutil.copy(self.backups[side.name], place(side))
        side.execute("UPDATE sysremoteuser SET doubtless_agent = NULL")
        side.restart()

    def retire(self, remote: Side) -> None:
        """A remote never comes back: the consolidated database revokes its link."""
        remote.leave()
        remote.engine.dispose()
        self.sides = tuple(side for side in self.sides if side is not remote)
        self.restored.discard(remote.name)
        self.backups.pop(remote.name, None)
        self.with_links([name for name in self.centre.names if name != LINKS[remote.name]])
        drive(self.centre.links.history.watermarks.revoke(LINKS[remote.name]))
        assert drive(self.centre.links.history.watermarks.read(LINKS[remote.name])) is None
        self.seen["retired"] += 1

    def with_links(self, names: Sequence[str]) -> None:
        self.centre.leave()
        self.centre.names = tuple(names)
        self.centre.restart()

    def replace(self) -> None:
        """Replace a remote that has left by a new database."""
        (name,) = {*LINKS} - {side.name for side in self.sides}
        link = LINKS[name]
        shared: dict[str, Any] = {"carrier": self.carrier, "clock": self.centre.clock}
        remote = Side(
            name,
            "c" if link == "orders" else f"c-{link}",
            self.new_database(),
            service=self.services[1],
            settings=dict(self.settings),
            **shared,
        )
        self.prepare(remote)
        self.sides = (*self.sides, remote)
        self.with_links([*self.centre.names, link])
        drive(self.centre.links.setup(link))
        self.load_from_centre(link)

    def load_from_centre(self, link: str) -> None:
        self.synchronize((self.centre, link), (self.remote_of(link), "orders"))

    def synchronize(self, right: tuple[Side, str], wrong: tuple[Side, str]) -> None:
        """Extract at one end of a link, and load at the other one."""
        for side, _ in (right, wrong):
            side.leave()
            side.restart()
        (here, link), (there, link_there) = right, wrong
        file, end = self.file("extract"), drive(there.links.history.watermarks.end()).last
        begin = there.row(link_there).watermark.outgoing.epoch, end
        drive(extract(here.links, link, file, beyond=begin))
        drive(load(there.links, link_there, file, discard=True))

    def remote_of(self, link: str) -> Side:
        return next(side for side in self.sides if LINKS.get(side.name) == link)

    def repair(self) -> bool:
        """Do what the alarms demand, like a person who knows the restores. Return False without an alarm."""
        alarms = {
            link if side is self.centre else LINKS[side.name]: stopped
            for side in self.sides
            for link in side.names
            if (stopped := side.row(link).stopped) is not None
        }
        if "c" in self.restored and alarms and self.remotes_have_all:
            # A remote has the rest of the centre's work. The other remotes then begin again with that.
            first, *others = self.centre.names
            self.synchronize((self.remote_of(first), "orders"), (self.centre, first))
            alarms = dict.fromkeys(others, "")
        for link, alarm in alarms.items():
            confirmed = CONFIRMED.search(self.centre.row(link).stopped or "")
            if confirmed and alarm and self.random.random() < 0.5:
                self.send_again(link, Offset(int(confirmed[1])))
            else:
                self.load_from_centre(link)
            self.seen["repaired"] += 1
        return bool(alarms)

    def send_again(self, link: str, confirmed: Offset) -> None:
        drive(self.centre.links.history.watermarks.reset(link, confirmed=confirmed))
        self.with_links(self.centre.names)
        self.seen["sent again"] += 1

    def settle(self) -> None:
        """Replace the remotes that have left, let all messages arrive, and act on alarms."""
        if len(self.sides) < len("cab"):
            self.replace()
        self.carrier.fate = lambda: Fate.ARRIVES
        quiet = 0
        for _ in range(60):
            for side in self.sides:
                self.run(side)
            self.centre.clock.pass_by()
            # The answer to an agent's greeting takes a while to arrive.
            quiet = quiet + 1 if not self.repair() and self.is_quiet() else 0
            if quiet == 3:
                break
        else:
            raise AssertionError("something is still on its way")
        for side in self.sides:
            assert [outcome for outcome in side.outcomes if outcome.error is not None] == []
        self.restored.clear()

    def are_equal(self) -> bool:
        centre, *remotes = self.stocks()
        return remotes == [centre, centre]


def place(side: Side) -> str:
    return side.url.removeprefix("sqlite:///")


class CapturedLives(Lives, Captured):
    """Like :class:`Lives`, but SQL triggers capture the changes, and no program appends."""

    services, settings = Captured.services, Captured.settings

    def prepare(self, side: Side) -> None:
        super().prepare(side)
        drive(side.links.capture("orders"))

    def update(self, side: Side) -> None:
        Captured.update(self, side)


class SubscribedLives(CapturedLives):
    """Like :class:`CapturedLives`, and each remote gets the rows of its representative."""

    remotes_have_all = False
    representatives: ClassVar[Mapping[str, str]] = {"a": "ann", "third-c": "bob"}

    def __init__(self, seed: int, new_database: Callable[[], str], folder: Path) -> None:
        super().__init__(seed, new_database, folder)
        self.centre.settings |= {"tables": ["stock subscribe by rep"]}
        own = {link: {"subscription": self.representatives[name]} for name, link in LINKS.items()}
        self.centre.own = own
        self.with_links(self.centre.names)
        for link in LINKS.values():
            drive(self.centre.links.setup(link))
        drive(self.centre.links.capture("orders"))

    def prepare(self, side: Side) -> None:
        side.execute("CREATE TABLE IF NOT EXISTS stock (id TEXT PRIMARY KEY, value TEXT)")
        side.execute("ALTER TABLE stock ADD COLUMN rep TEXT")
        super().prepare(side)

    def run(self, side: Side) -> None:
        for link in side.names:
            if side is self.centre:
                told = side.own[link]
                side.service = partial(keep, tables=side.settings["tables"], to_sender=True, **told)
            side.run(link)

    def update(self, side: Side) -> None:
        """Change rows, and give some to others."""
        reps = [*self.representatives.values(), None]
        with side.engine.begin() as connection:
            for row in self.random.sample(ROWS, self.random.choice([1, 2])):
                value, rep = f"{side.name} {self.random.random()}", self.random.choice(reps)
                statement = self.random.choice(MOVING)
                connection.execute(text(statement), {"row": row, "value": value, "rep": rep})

    def are_equal(self) -> bool:
        """Whether each remote has its rows, and no others."""
        centre = self.rows_of(self.centre)
        mine = {remote.name: self.representatives[remote.name] for remote in self.sides[1:]}
        return all(
            self.rows_of(remote) == {row for row in centre if row[2] == mine[remote.name]}
            for remote in self.sides[1:]
        )

    def rows_of(self, side: Side) -> set[tuple[Any, ...]]:
        return {tuple(row) for row in side.query("SELECT id, value, rep FROM stock")}


@pytest.fixture(params=[Lives, CapturedLives, SubscribedLives])
def lives(
    request: pytest.FixtureRequest, seed: int, new_database: Callable[[], str], tmp_path: Path
) -> Iterator[Lives]:
    made = request.param(seed, new_database, tmp_path)
    yield made
    made.leave()


@pytest.mark.parametrize(
    ("new_database", "seed", "histories"),
    [
        ("sqlite", 0, HISTORIES),
        ("sqlite", 3, HISTORIES),
        pytest.param("postgres", 0, HISTORIES_OF_SERVERS, marks=pytest.mark.prove),
        pytest.param("mixed", 3, HISTORIES_OF_SERVERS, marks=pytest.mark.prove),
    ],
    indirect=["new_database"],
)
def test_all_are_equal_after_restores_and_retirements_and_nothing_was_applied_twice(
    lives: Lives, histories: int
) -> None:
    for history in range(histories):
        lives.change_lives()
        lives.settle()

        assert lives.are_equal(), f"after history {history}"
    assert min(lives.seen[what] for what in ("restored", "repaired", "retired")) > 0
