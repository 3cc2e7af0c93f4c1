"""The client-side queue: messages on disk while the provider is away, in one SQLite file.

A file belongs to one alias; any number of threads and processes may share it. Its writes are on disk before
they return (WAL, ``synchronous = FULL``), so that a queue survives ``kill -9`` and a power cut. One drainer
works at a time: it locks the file ``<queue>-drain``, and the operating system frees the lock of a dead
process.

Calls block for as long as the disk takes. Under asyncio they hold the event loop for so long.
"""

import logging
import sqlite3
import threading
from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from history.errors import UnavailableError
from history.message import Message
from history.support.encryption import Cipher, MissingKeyError, cipher_of
from history.support.forks import at_fork, keep
from history.support.open_files import Identity, OpenFile
from history.support.private_files import make_private
from history.support.rendering import name_of, text_of
from history.support.spoilt import readable
from triggers.producer.delivery_failure import DeliveryFailureEvent
from triggers.producer.queue.file import BUSY_TIMEOUT_SECONDS, prepare
from triggers.producer.queue.rows import LockedRowError, Queued, QueueRows, UnreadableRow
from triggers.producer.settings import DEFAULT_QUEUE_LIMIT, UNLIMITED
from triggers.providers.provider import ProviderUnavailableError
from triggers.service.checking import check_duration

_log = logging.getLogger(__name__)

#: The loss when a file is deleted or replaced.
_LOST = "and messages that waited in the other one are not sent"


class ClientQueueFullError(ProviderUnavailableError):
    """The provider is away and the client-side queue has no room; nothing was stored."""

    __module__ = "triggers"

    def __init__(self, file: Path, *, waiting: int, limit: int, wanted: int) -> None:
        super().__init__("the provider", "sending")
        room = f"holds {waiting} of at most {limit} messages: no room for {wanted} more"
        self.args = (f"the client-side queue {file} {room}; send again later, or raise queue_limit",)


class ClientQueueUnavailableError(UnavailableError):
    """The file of the client-side queue could not be read or written."""

    def __init__(self, file: Path, doing: str, error: Exception) -> None:
        super().__init__(f"the client-side queue {file}", f"{doing} ({error})")


class ClientQueue:
    """Messages that wait for their provider, in order, and given-up messages.

    Args:
        file: made at first use, with other files that begin with its name; only this user may read them.
        alias: the owner of the queue.
        limit: how many messages may wait; -1 for any number, 0 stores none.
        encrypt: where the key for the messages is, ``file:/path`` or ``env:NAME``.

    Raises:
        ConfigurationError: ``encrypt`` names no key; or, at first use, the file is something else, or belongs
            to another alias.
        ClientQueueUnavailableError: the disk is full, or the file cannot be read or written.
    """

    def __init__(
        self,
        file: Path,
        *,
        alias: str,
        limit: int = DEFAULT_QUEUE_LIMIT,
        encrypt: str | Cipher | None = None,
    ) -> None:
        self._rows = QueueRows(alias, cipher_of(encrypt))
        self.file = file.absolute()
        self.alias = alias
        self.limit = limit
        self._begin()
        at_fork(
            self, ClientQueue._in_child, before=ClientQueue._before_fork, in_parent=ClientQueue._after_fork
        )

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._forking = False
        self._connection: sqlite3.Connection | None = None
        self._opened = OpenFile(self.file, f"one is made, {_LOST}", f"that one is used now, {_LOST}")
        self._identity: Identity | None = None
        #: Connections that hold, or ask for, the drainers' lock.
        self._lock_connections: list[sqlite3.Connection] = []

    def _before_fork(self) -> None:
        """Close the file: a child with the parent's connection would believe that it has its locks."""
        self._forking = self._lock.acquire(timeout=BUSY_TIMEOUT_SECONDS)
        if self._forking and self._connection is not None:
            self._connection.close()
            self._connection = None

    def _after_fork(self) -> None:
        if self._forking:
            self._lock.release()

    def _in_child(self) -> None:
        keep(self._connection)  # closing it would free the parent's locks
        if self._forking:  # nobody was using one of them
            for lock in self._lock_connections:
                # SQLite would believe for ever that this process has the lock. The parent keeps it, because a
                # process frees only its own locks. The file has nothing that closing could change.
                lock.close()
        self._begin()

    def put(self, destination: str, messages: Iterable[Message]) -> None:
        """Store messages behind the waiting ones, all of them or none.

        Raises:
            ClientQueueFullError: the queue has no room for all of them.
        """
        rows = [(destination, self._rows.of_message(destination, message)) for message in messages]
        with self._using("storing messages", writing=True) as connection:
            waiting = _count(connection)
            if self.limit != UNLIMITED and waiting + len(rows) > self.limit:
                raise ClientQueueFullError(self.file, waiting=waiting, limit=self.limit, wanted=len(rows))
            connection.executemany("INSERT INTO queued (destination, message) VALUES (?, ?)", rows)

    def size(self) -> int:
        """Count the messages that wait."""
        with self._using("counting") as connection:
            return _count(connection)

    def has(self, destination: str) -> bool:
        """Tell whether messages for a destination wait."""
        with self._using("looking for messages of a destination") as connection:
            statement = "SELECT EXISTS (SELECT 1 FROM queued WHERE destination = ?)"
            return bool(connection.execute(statement, (destination,)).fetchone()[0])

    def next_run(self, *, skip: Collection[str] = (), limit: int, size: int) -> list[Queued]:
        """Return the oldest waiting messages of one destination: of the oldest one that is not in ``skip``.

        At most ``limit`` of them, and no more once their texts are longer than ``size``; maybe none. An
        unreadable row is moved out of the way: otherwise everything behind it would wait for ever.

        Raises:
            LockedRowError: the first is encrypted, and its key is not here. It stays where it is.
        """
        while True:
            run, spoilt = self._read_run(skip, limit, size)
            for number, problem in spoilt.items():
                self._take_aside(number, problem)
            if run or not spoilt:
                return run

    def _read_run(
        self, skip: Collection[str], limit: int, size: int
    ) -> tuple[list[Queued], Mapping[int, str]]:
        """Return messages, and by number what is wrong with the unreadable ones."""
        marks = ", ".join("?" * len(skip))
        with self._using("reading") as connection:
            first = connection.execute(
                f"SELECT destination FROM queued WHERE destination NOT IN ({marks}) ORDER BY number LIMIT 1",  # noqa: S608
                tuple(skip),
            ).fetchone()
            if first is None:
                return [], {}
            rows = connection.execute(
                "SELECT number, destination, message, attempts FROM queued WHERE destination = ? "
                "ORDER BY number LIMIT ?",
                (first[0], limit),
            )
            run: list[Queued] = []
            spoilt: dict[int, str] = {}
            for number, destination, text, attempts in rows:
                try:
                    run.append(Queued(number, destination, self._rows.message(destination, text), attempts))
                except MissingKeyError as error:
                    if run or spoilt:
                        break
                    raise LockedRowError(destination, error) from error
                except (ValueError, TypeError, LookupError, AttributeError) as error:
                    spoilt[number] = text_of(error).replace("\n", " ")
                    continue
                size -= len(text)
                if size < 0:
                    break
            return run, spoilt

    def _take_aside(self, number: int, problem: str) -> None:
        """Move an unreadable row out of the queue, as it is."""
        with self._using("taking a row aside that cannot be read", writing=True) as connection:
            connection.execute(
                "INSERT OR IGNORE INTO unreadable (number, destination, message, problem) "
                "SELECT number, destination, message, ? FROM queued WHERE number = ?",
                (problem, number),
            )
            connection.execute("DELETE FROM queued WHERE number = ?", (number,))
        _log.error(
            "message %d of the queue %s cannot be read, and was moved to its table unreadable: %s",
            number,
            self.file,
            problem,
        )

    def unreadable(self) -> Sequence[UnreadableRow]:
        """Return the rows that could not be read, in order; nobody sends them."""
        with self._using("reading what cannot be read") as connection:
            rows = connection.execute(
                "SELECT number, destination, message, problem FROM unreadable ORDER BY number"
            )
            return [UnreadableRow(*row) for row in rows]

    def remove(self, numbers: Collection[int]) -> None:
        """Delete waiting messages that have arrived."""
        with self._using("deleting what was sent", writing=True) as connection:
            connection.executemany("DELETE FROM queued WHERE number = ?", [(number,) for number in numbers])

    def count_attempt(self, number: int) -> int:
        """Note that sending a waiting message failed, and return how often it has."""
        with self._using("counting an attempt", writing=True) as connection:
            return int(
                connection.execute(
                    "UPDATE queued SET attempts = attempts + 1 WHERE number = ? RETURNING attempts", (number,)
                ).fetchone()[0]
            )

    def give_up(self, queued: Queued, error: Exception, *, attempts: int) -> DeliveryFailureEvent:
        """Move a waiting message to the failed ones, and return its event."""
        event = DeliveryFailureEvent(
            alias=self.alias,
            destination=queued.destination,
            number=queued.number,
            time=datetime.now(UTC),
            attempts=attempts,
            exception_class=name_of(error),
            exception_message=text_of(error),
            message=queued.message,
        )
        with self._using("giving up a message", writing=True) as connection:
            connection.execute(
                "INSERT INTO failed (number, event, told) VALUES (?, ?, 0)",
                (queued.number, self._rows.of_failure(event)),
            )
            connection.execute("DELETE FROM queued WHERE number = ?", (queued.number,))
        return event

    def unreported(self) -> Sequence[DeliveryFailureEvent]:
        """Return the events of failed messages that may not have been published, in order."""
        return self._events("WHERE told = 0")

    def mark_reported(self, number: int) -> None:
        """Note that the event of a failed message was published."""
        with self._using("noting an event", writing=True) as connection:
            connection.execute("UPDATE failed SET told = 1 WHERE number = ?", (number,))

    def failed(self) -> Sequence[DeliveryFailureEvent]:
        """Return the messages that were given up, in order."""
        return self._events("")

    def _events(self, which: str) -> Sequence[DeliveryFailureEvent]:
        with self._using("reading the failed messages") as connection:
            rows = connection.execute(
                f"SELECT number, event FROM failed {which} ORDER BY number"  # noqa: S608
            ).fetchall()
        what = f"in the client-side queue {self.file}, the failed message"
        return list(readable(what, ((number, (number, row)) for number, row in rows), self._rows.failure))

    def requeue(
        self, numbers: Collection[int] | None = None, *, time_to_live: timedelta | None = None
    ) -> int:
        """Let failed messages wait again, under the same uuids and behind all others; return how many.

        All of them by default. An expired message loses its expiration; ``time_to_live`` gives each a new
        one. The limit does not apply: nothing may be lost.

        Raises:
            ConfigurationError: ``time_to_live`` is not a duration: each message would fail again.
        """
        if time_to_live is not None:
            check_duration("time_to_live", time_to_live)
        chosen = [event for event in self.failed() if numbers is None or event.number in numbers]
        now = datetime.now(UTC)
        requeued = 0
        with self._using("queueing failed messages again", writing=True) as connection:
            for event in chosen:
                gone = connection.execute("DELETE FROM failed WHERE number = ?", (event.number,)).rowcount
                if gone:  # else another caller has decided by now
                    message = _renewed(event.message, now, time_to_live)
                    row = (event.destination, self._rows.of_message(event.destination, message))
                    connection.execute("INSERT INTO queued (destination, message) VALUES (?, ?)", row)
                    requeued += 1
        return requeued

    def discard(self, numbers: Collection[int]) -> int:
        """Delete failed messages for good; return how many."""
        with self._using("discarding failed messages", writing=True) as connection:
            return sum(
                connection.execute("DELETE FROM failed WHERE number = ?", (number,)).rowcount
                for number in numbers
            )

    @contextmanager
    def draining(self) -> Generator[bool]:
        """Take the drainers' lock while entered; False if somebody else has it."""
        with self._lock:
            lock, mine = self._take_turn()
            self._lock_connections.append(lock)
        try:
            yield mine
        finally:
            with self._lock:
                if lock in self._lock_connections:  # else this process was forked meanwhile
                    self._lock_connections.remove(lock)
                lock.close()

    def _take_turn(self) -> tuple[sqlite3.Connection, bool]:
        """Ask for the drainers' lock; return the connection, and whether it holds the lock."""
        file = self.file.with_name(f"{self.file.name}-drain")
        try:
            make_private(file)
            lock = sqlite3.connect(file, timeout=0, isolation_level=None, check_same_thread=False)
        except (OSError, sqlite3.Error) as error:
            raise ClientQueueUnavailableError(self.file, "locking it", error) from error
        try:
            lock.execute("BEGIN EXCLUSIVE")
        except sqlite3.DatabaseError as error:
            if error.sqlite_errorcode == sqlite3.SQLITE_BUSY:
                return lock, False
            lock.close()
            raise ClientQueueUnavailableError(self.file, "locking it", error) from error
        return lock, True

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        with self._lock:
            connection, self._connection = self._connection, None
            self._opened.closed()
            if connection is not None:
                connection.close()

    @contextmanager
    def _using(self, doing: str, *, writing: bool = False) -> Generator[sqlite3.Connection]:
        """Use the connection, one thread at a time; all writes are kept or none."""
        with self._lock:
            try:
                connection = self._current()
                if not writing:
                    yield connection
                    return
                connection.execute("BEGIN IMMEDIATE")
                try:
                    yield connection
                    connection.execute("COMMIT")
                except BaseException:
                    connection.rollback()
                    raise
            except sqlite3.Error as error:
                raise ClientQueueUnavailableError(self.file, doing, error) from error

    def _current(self) -> sqlite3.Connection:
        """Return the connection to the file that exists now."""
        if self._connection is not None and self._opened.look() != self._identity:
            self._connection.close()
            self._connection = None
        if self._connection is None:
            self._connection = self._open()
            self._opened.closed()  # the loss of the previous file is already logged
            self._identity = self._opened.look()
        return self._connection

    def _open(self) -> sqlite3.Connection:
        try:
            make_private(self.file)
        except OSError as error:
            raise ClientQueueUnavailableError(self.file, "making it", error) from error
        connection = sqlite3.connect(
            self.file, timeout=BUSY_TIMEOUT_SECONDS, isolation_level=None, check_same_thread=False
        )
        try:
            prepare(connection, self.file, self.alias)
        except BaseException:
            connection.close()
            raise
        return connection


def _count(connection: sqlite3.Connection) -> int:
    return int(connection.execute("SELECT value FROM about WHERE name = 'queued'").fetchone()[0])


def _renewed(message: Message, now: datetime, time_to_live: timedelta | None) -> Message:
    if time_to_live is not None:
        return message.model_copy(update={"expiration": now + time_to_live})
    expired = message.expiration is not None and message.expiration <= now
    return message.model_copy(update={"expiration": None}) if expired else message
