"""A member of a consumer group, with a thread of its own that polls: the edge to confluent-kafka.

The thread asks for messages while somebody wants some, and keeps the membership alive whatever a service
does. What stands between this and a poll loop by hand: a message is committed when it is settled, and so is
what lies before it; a partition that is taken away is committed first; nobody's slow service gives a
partition to others; and who wants nothing for a while leaves, so that others have its partitions.
"""

import heapq
import logging
import os
import threading
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import count
from typing import Any, cast

from history.shell import fail, fulfil
from history.support.forks import at_fork, keep
from triggers.providers.brokers.push_receiver import Inbox, Token
from triggers.providers.kafka.codec import Consumed, Record
from triggers.providers.kafka.driver import QUIET, driver
from triggers.providers.kafka.errors import (
    ALL_BROKERS_DOWN,
    UNKNOWN_TOPIC,
    is_refusal,
    no_topic,
    translated,
)
from triggers.providers.kafka.offsets import Partition
from triggers.providers.provider import ProviderUnavailableError

_log = logging.getLogger(__name__)

#: How long a broker may take to answer, in seconds.
PATIENCE = 10.0

#: How long one poll, or one pause of the thread, takes at most, in seconds.
_LOOK = 0.1

#: How often what is settled is committed, in seconds; it is also committed when a partition is taken away.
_COMMITTING = 0.2

#: After how long without anybody who wants a message Kafka is told to fetch none, in seconds.
_PAUSING = 0.5

#: How many messages one poll brings at most.
_MOST = 500

#: How often a new topic is looked for, and for how long, in seconds: brokers make it when it is asked for.
_APPEARING, _LOOKING = 5.0, 0.2

#: How long a new consumer waits for its partitions, in seconds: those of a dead one are free after a session.
_SHARING = 30.0

#: How long all of that may take, in seconds.
JOINING = PATIENCE + _APPEARING + _SHARING + PATIENCE


@dataclass(frozen=True, slots=True)
class Place:
    """Where a delivery stands, and the record itself: it is handed out again from here."""

    partition: Partition
    consumed: Consumed


class Member:
    """One consumer in its group, from joining to leaving."""

    def __init__(self, settings: dict[str, Any], topic: str, inbox: Inbox) -> None:
        self.ready: Future[None] = Future()
        self.left: Future[None] = Future()
        self.over = False
        self._settings = settings
        self._topic = topic
        self._inbox = inbox
        self._process = os.getpid()
        self._lock = threading.RLock()
        self._wake = threading.Event()
        self._asked: list[Future[None]] = []
        self._credit = 0
        self._closing = False
        self._partitions: dict[int, Partition] = {}
        self._handed: set[Token] = set()
        self._waiting: list[tuple[float, int, Place]] = []
        self._numbers = count()
        self._error: Exception | None = None
        self._doubts = self._shared = False
        self._joined = self._paused = False
        self._wanted_at = self._committed_at = time.monotonic()
        self._consumer: Any = None

    def start(self) -> None:
        """Begin to join."""
        at_fork(self, _belongs_to_the_parent)
        threading.Thread(target=self._run, name="doubtless-kafka", daemon=True).start()

    # What the receiver's thread calls.

    def want(self, number: int) -> None:
        """Let so many more come; what is in the inbox counts."""
        with self._lock:
            self._credit = max(0, number - self._inbox.size)
            self._wanted_at = time.monotonic()
        self._wake.set()

    def stop_soon(self) -> None:
        """Let no more come."""
        with self._lock:
            self._credit = 0

    def stopped(self) -> "Future[None]":
        """Let no more come; fulfilled when nothing is on its way."""
        future: Future[None] = Future()
        with self._lock:
            self._credit = 0
            self._asked.append(future)
            if self.over:
                self._answer_all()
        self._wake.set()
        return future

    def settle(self, tokens: Sequence[Token]) -> None:
        """Note that these are done; they are committed within a moment."""
        with self._lock:
            for token in tokens:
                self._handed.discard(token)
                place: Place = token.tag
                place.partition.settle(place.consumed.offset)

    def give_back(self, tokens: Sequence[Token], seconds: float, *, seen: bool) -> None:
        """Hand these out again, not before so many seconds have passed."""
        due = time.monotonic() + seconds
        with self._lock:
            for token in tokens:
                self._handed.discard(token)
                place: Place = token.tag
                self._wait(place, due, seen=seen)
        self._wake.set()

    def _wait(self, place: Place, due: float, *, seen: bool) -> None:
        if place.partition.gone:
            return  # another consumer has it
        was = place.consumed
        again = Consumed(was.topic, was.partition, was.offset, was.record, was.again or seen)
        # What is due together comes in the order of its partition.
        heapq.heappush(self._waiting, (due, was.offset, Place(place.partition, again)))

    def leave(self) -> "Future[None]":
        """Commit what is settled, and leave the group; fulfilled when that is done."""
        self._closing = True
        self._wake.set()
        return self.left

    # What runs on the thread.

    def _run(self) -> None:
        try:
            self._begin()
            fulfil(self.ready, None)
            while not self._closing and self._error is None:
                self._turn()
        except BaseException as error:  # noqa: BLE001  (whoever waits must hear of it)
            self._error = self._error or self._translated(error, "receiving")
        finally:
            self._end()

    def _begin(self) -> None:
        callbacks = {
            "error_cb": self._on_error,
            "on_commit": self._on_commit,
            "logger": QUIET,
        }
        self._consumer = driver.Consumer(self._settings | callbacks)
        deadline = time.monotonic() + _APPEARING
        while not self._exists():
            if time.monotonic() > deadline:
                raise no_topic(self._topic)
            time.sleep(_LOOKING)
        self._join()
        self._wait_for_a_share()

    def _exists(self) -> bool:
        try:
            found = self._consumer.list_topics(self._topic, timeout=PATIENCE).topics.get(self._topic)
        except driver.KafkaException as error:
            self._consumer.poll(0)  # which tells why
            raise self._error or self._translated(error, "connecting") from error
        problem = None if found is None else found.error
        if problem is not None and is_refusal(problem):
            raise self._translated(problem, "receiving")
        return found is not None and problem is None and bool(found.partitions)

    def _wait_for_a_share(self) -> None:
        """Wait until the group has given out its partitions, lest its queue be taken for empty before."""
        deadline = time.monotonic() + _SHARING
        while not (self._shared or self._closing or self._error) and time.monotonic() < deadline:
            message = self._consumer.poll(_LOOK)
            if message is not None:
                self._take(message)

    def _join(self) -> None:
        self._joined = True
        self._consumer.subscribe(
            [self._topic], on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
        )

    def _turn(self) -> None:
        if self._doubts:
            self._look_for_brokers()
        with self._lock:
            self._answer_all()
            wanted = self._credit
        if wanted > 0:
            self._receive()
        else:
            self._rest()
        self._commit_now_and_then()
        self._leave_when_idle()

    def _receive(self) -> None:
        if not self._joined:
            self._join()
        if self._paused:
            self._fetch(wanted=True)
        self._hand_out_again()
        wanted = self._credit
        if wanted <= 0:
            return
        first = self._consumer.poll(self._until_due())
        if first is None:
            return
        self._take(first)
        if wanted > 1:
            for message in self._consumer.consume(min(wanted - 1, _MOST), 0):
                self._take(message)

    def _until_due(self) -> float:
        with self._lock:
            if self._asked:
                return 0.0
            return min(_LOOK, max(0.0, self._waiting[0][0] - time.monotonic())) if self._waiting else _LOOK

    def _hand_out_again(self) -> None:
        with self._lock:
            while self._credit > 0 and self._waiting and self._waiting[0][0] <= time.monotonic():
                _, _, place = heapq.heappop(self._waiting)
                if not place.partition.gone:
                    self._hand_out(place)

    def _hand_out(self, place: Place) -> None:
        token = Token(place)
        self._handed.add(token)
        self._credit -= 1
        self._inbox.push(token, place.consumed)

    def _take(self, message: Any) -> None:
        if message.error() is not None:
            self._on_error(message.error())
            return
        with self._lock:
            partition = self._partitions.get(message.partition())
            again = None if partition is None else partition.take(message.offset())
            if partition is None or again is None:
                return  # not ours any more, or settled by whoever had it before
            place = Place(partition, _consumed(message, again=again))
            if self._credit > 0:
                self._hand_out(place)
            else:  # nobody wants it any more; it has been fetched, and waits here
                heapq.heappush(self._waiting, (0.0, place.consumed.offset, place))

    def _rest(self) -> None:
        """Fetch nothing for a while, and hear of what happens in the group; also of having left it."""
        if self._joined and not self._paused and time.monotonic() - self._wanted_at > _PAUSING:
            self._fetch(wanted=False)
        if self._paused or not self._joined:
            message = self._consumer.poll(0)
            if message is not None:
                self._take(message)
        self._wake.wait(_LOOK)
        self._wake.clear()

    def _leave_when_idle(self) -> None:
        unasked = self._inbox.take_unasked() if self._joined else None
        if unasked is None:
            return
        with self._lock:
            self._credit = 0
            if unasked:
                self.give_back(unasked, 0.0, seen=False)
            if self._handed:
                return
        if not self._commit(list(self._partitions.values()), waiting=True):
            return  # the group is being shared out anew; it listens again in a moment
        with self._lock:
            self._waiting.clear()
        self._joined = False
        self._fetch(wanted=True)
        self._consumer.unsubscribe()

    def _fetch(self, *, wanted: bool) -> None:
        """Have Kafka's client fetch from all that is assigned, or from none of it."""
        self._paused = not wanted
        assigned = self._consumer.assignment()
        (self._consumer.resume if wanted else self._consumer.pause)(assigned)

    def _commit_now_and_then(self) -> None:
        if self._joined and time.monotonic() - self._committed_at >= _COMMITTING:
            self._committed_at = time.monotonic()
            self._commit(list(self._partitions.values()), waiting=False)

    def _commit(self, partitions: Iterable[Partition], *, waiting: bool) -> bool:
        """Commit what is settled; return whether it was sent, or stands, where that is waited for."""
        offsets: list[Any] = []
        with self._lock:
            for partition in partitions:
                found = partition.to_commit(surely=waiting)
                if found is not None and not partition.gone:
                    partition.committed(found)
                    offset, text = found
                    offsets.append(driver.TopicPartition(partition.topic, partition.number, offset, text))
        if not offsets:
            return True
        try:
            self._consumer.commit(offsets=offsets, asynchronous=not waiting)
        except driver.KafkaException as error:
            self._on_commit(error.args[0], offsets)
            return False
        return True

    def _on_commit(self, error: Any, partitions: Sequence[Any]) -> None:
        """Say what did not arrive once more, unless the partition went to others: then it comes again."""
        if error is None:
            return
        with self._lock:
            for listed in partitions:
                if (partition := self._partitions.get(listed.partition)) is not None:
                    partition.committed((-1, ""))

    def _on_assign(self, consumer: Any, partitions: Sequence[Any]) -> None:
        """Go on where the group has committed; without an answer, where librdkafka finds that itself."""
        self._shared = True
        if not partitions or self._closing:
            return
        listed = _committed(consumer, partitions)
        with self._lock:
            for found in listed:
                self._partitions[found.partition] = Partition.resumed(
                    found.topic, found.partition, found.offset, found.metadata
                )
        given = [driver.TopicPartition(one.topic, one.partition, _or_stored(one.offset)) for one in listed]
        consumer.incremental_assign(given)
        # Whether one is fetched is remembered from when it was ours before.
        (consumer.pause if self._paused else consumer.resume)(given)

    def _on_revoke(self, consumer: Any, partitions: Sequence[Any]) -> None:
        taken = [
            self._partitions[listed.partition]
            for listed in partitions
            if listed.partition in self._partitions
        ]
        self._commit(taken, waiting=True)
        self._forget(partitions)
        consumer.incremental_unassign(list(partitions))

    def _on_lost(self, consumer: Any, partitions: Sequence[Any]) -> None:
        self._forget(partitions)
        consumer.incremental_unassign(list(partitions))

    def _forget(self, partitions: Sequence[Any]) -> None:
        with self._lock:
            for listed in partitions:
                if (partition := self._partitions.pop(listed.partition, None)) is not None:
                    partition.gone = True

    def _on_error(self, error: Any) -> None:
        if error.code() == ALL_BROKERS_DOWN:
            self._doubts = True  # the driver may not be asked anything from inside of this call
        elif is_refusal(error):
            self._error = self._translated(error, "receiving")
        elif error.code() == UNKNOWN_TOPIC:
            self._error = no_topic(self._topic)

    def _look_for_brokers(self) -> None:
        """Tell brokers that closed what nobody used from brokers that are away."""
        self._doubts = False
        try:
            self._consumer.list_topics(self._topic, timeout=PATIENCE / 2)
        except driver.KafkaException as error:
            self._error = self._error or self._translated(error, "receiving")

    def _translated(self, error: BaseException, doing: str) -> Exception:
        return translated(error, topic=self._topic, doing=doing)

    def _answer_all(self) -> None:
        asked, self._asked = self._asked, []
        for future in asked:
            fulfil(future, None)

    def _end(self) -> None:
        error = self._error or ProviderUnavailableError("Kafka", "receiving")
        try:
            if self._consumer is not None:
                self._commit(list(self._partitions.values()), waiting=True)
                self._forget(
                    [driver.TopicPartition(self._topic, number) for number in list(self._partitions)]
                )
                self._consumer.close()
        except BaseException as failure:  # noqa: BLE001  (it ends; what was not committed comes again)
            _log.debug("leaving the group failed: %r", failure)
        finally:
            with self._lock:
                self.over = True
                self._answer_all()
            self._inbox.lose(error)
            fail(self.ready, error)
            fulfil(self.left, None)

    def abandon(self) -> None:
        """In a forked child: neither use nor end what belongs to the parent."""
        keep(self._consumer)
        self.over = True
        self._inbox.lose(
            ProviderUnavailableError("Kafka, which the parent of this process uses,", "receiving")
        )


def _belongs_to_the_parent(member: Member) -> None:
    member.abandon()


def _committed(consumer: Any, partitions: Sequence[Any]) -> Sequence[Any]:
    """Return partitions with what the group has committed; as they are where that cannot be had."""
    try:
        return cast("Sequence[Any]", consumer.committed(list(partitions), PATIENCE))
    except BaseException as error:  # noqa: BLE001  (the driver's own are no Exceptions in a callback)
        _log.warning("could not ask Kafka what is settled (%r): some messages may come again", error)
        return partitions


def _or_stored(offset: int) -> int:
    return offset if offset >= 0 else int(driver.OFFSET_STORED)


def _consumed(message: Any, *, again: bool) -> Consumed:
    kind, milliseconds = message.timestamp()
    timestamp = None if kind == driver.TIMESTAMP_NOT_AVAILABLE else milliseconds
    record = Record(message.value(), message.key(), message.headers() or (), timestamp)
    return Consumed(message.topic(), message.partition(), message.offset(), record, again)
