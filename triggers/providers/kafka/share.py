"""A member of a share group (KIP-932), with its own thread that polls: the edge to ``ShareConsumer``.

The brokers give each message to one member, count its deliveries, and take an answer for each: ACCEPT,
RELEASE or REJECT. The driver fetches the next messages when all of the last ones are answered. So a long run,
or a message that waits for its retry, delays the next ones. The brokers give a member a message for a limited
time (the *lock*). A moment before it ends, messages that no service is processing go back to the group.
"""

import heapq
import json
import logging
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from itertools import count
from typing import Any

from history.errors import ConfigurationError
from history.shell import fulfil
from history.support.forks import keep
from triggers.providers.brokers.push_receiver import Inbox, PushToken
from triggers.providers.kafka.codec import Consumed
from triggers.providers.kafka.driver import driver, made
from triggers.providers.kafka.membership import LOOK, PATIENCE, Membership, record_of

_log = logging.getLogger(__name__)

#: How often settled messages are reported, in seconds; releases, and the last answer, are sent immediately.
_TELLING = 0.2

#: The interval of the driver's statistics, in milliseconds: nothing else tells that it has its partitions.
_STATISTICS = 100

#: How long a new member waits for its first partition, and then for a message, in seconds, before its queue
#: counts as empty. Kafka names the partitions of a new group in the answer to the second heartbeat: after 5 s
#: by default, and 15 s at most.
_SHARING, _FETCHING = 20.0, 1.0

#: After this part of the lock's time, messages without a service go back: the brokers use their own clock.
_SAFE = 0.8

#: After so many seconds without a membership the log says so: without share groups the driver is silent.
PUZZLING = 10.0


def check_driver() -> None:
    """Check that the driver has share groups.

    Raises:
        ConfigurationError: it has none.
    """
    if not hasattr(driver, "ShareConsumer"):
        raise ConfigurationError(
            "share",
            f"confluent-kafka {version('confluent-kafka')} has no share groups",
            "install confluent-kafka>=2.16",
        )


@dataclass(frozen=True, slots=True, eq=False)
class LockedRecord:
    """A message that this member has until ``until``."""

    consumed: Consumed
    until: float


class ShareMember(Membership):
    """One consumer in its share group, from joining to leaving."""

    def __init__(self, settings: dict[str, Any], topic: str, inbox: Inbox, *, lock_time: float) -> None:
        super().__init__(settings, topic, inbox)
        self._lock_time = lock_time * _SAFE
        #: Received and unsettled messages, by partition and offset.
        self._locks: dict[tuple[int, int], LockedRecord] = {}
        #: Messages that nobody has asked for yet.
        self._kept: deque[LockedRecord] = deque()
        self._waiting: list[tuple[float, int, int, LockedRecord]] = []
        self._numbers = count()
        self._answers: list[tuple[LockedRecord, Any]] = []
        self._asker: Any = None
        self._untold = False
        self._told_at = time.monotonic()
        self._joining_since = self._joined_by = 0.0
        self._is_member = self._warned = False
        self._joined: Future[None] = Future()

    # Called by the receiver's thread.

    def joined(self) -> "Future[None]":
        """Fulfilled when the member has its partitions, or should have: it joins when something is wanted.

        So the first fetch brings everything that exists, and the queue does not look empty before.
        """
        return self._joined

    def settle(self, tokens: Sequence[PushToken]) -> None:
        """Accept these; the broker learns it within a moment.

        Messages with a dead letter are accepted as well: if they were rejected, Kafka 4.4 might write another
        dead letter (KIP-1191).
        """
        self._answer([token.tag for token in tokens], driver.AcknowledgeType.ACCEPT)

    def give_back(self, tokens: Sequence[PushToken], seconds: float, *, seen: bool) -> None:  # noqa: ARG002  (counted)
        """Release these when so many seconds have passed, or a moment before their lock ends."""
        if seconds <= 0:
            self._answer([token.tag for token in tokens], driver.AcknowledgeType.RELEASE)
            return
        due = time.monotonic() + seconds
        with self._lock:
            for token in tokens:
                lock: LockedRecord = token.tag
                entry = (min(due, lock.until), lock.consumed.offset, next(self._numbers), lock)
                heapq.heappush(self._waiting, entry)
        self._wake.set()

    def _answer(self, locks: Sequence[LockedRecord], answer: Any) -> None:
        with self._lock:
            self._answers += [(lock, answer) for lock in locks]
        self._wake.set()

    # Runs on the thread.

    def _begin(self) -> None:
        check_driver()
        self._find_topic()
        self._asker.close()
        self._asker = None

    def _client(self) -> Any:
        """Return a consumer that is in no group: a share consumer cannot be asked for topics."""
        if self._asker is None:
            asking = {name: self._settings[name] for name in self._settings if not _is_sharing(name)}
            own = {"error_cb": self._on_error, "allow.auto.create.topics": True}
            self._asker = made(driver.Consumer, asking | own)
        return self._asker

    def _join(self) -> None:
        callbacks = {"error_cb": self._on_error, "stats_cb": self._on_statistics}
        own = {"share.acknowledgement.mode": "explicit", "statistics.interval.ms": _STATISTICS}
        self._consumer = made(driver.ShareConsumer, self._settings | own | callbacks)
        self._consumer.subscribe([self._topic])
        self._joining_since = time.monotonic()
        self._joined_by = self._joining_since + _SHARING
        self._is_member = False

    def _turn(self) -> None:
        self._release_due()
        self._tell()
        with self._lock:
            self._answer_all()
            wanted = self._credit
        if wanted > 0:
            self._receive()
        else:
            self._rest()
        self._leave_when_idle()

    def _receive(self) -> None:
        if self._consumer is None:
            self._join()
        if self._hand_out():
            return
        if self._locks:  # the driver gives nothing until all are answered
            self._rest()
            return
        self._poll(LOOK)
        self._hand_out()
        if self._locks or time.monotonic() >= self._joined_by:
            fulfil(self._joined, None)

    def _rest(self) -> None:
        with self._lock:
            due = self._waiting[0][0] - time.monotonic() if self._waiting else LOOK
        self._wake.wait(max(0.0, min(LOOK, due)))
        self._wake.clear()

    def _poll(self, seconds: float) -> None:
        """Keep what comes; also notice errors, and the arrival of partitions."""
        messages = self._consumer.poll(seconds)
        until = time.monotonic() + self._lock_time
        for message in messages:
            if message.error() is not None:
                self._on_bad_record(message)
                continue
            place, number = (message.partition(), message.offset()), message.delivery_count()
            came = Consumed(message.topic(), *place, record_of(message), number > 1, number)
            lock = self._locks[place] = LockedRecord(came, until)
            self._kept.append(lock)

    def _on_bad_record(self, message: Any) -> None:
        """Release a damaged record, such as one with a wrong checksum; any other error is the client's."""
        if message.offset() is not None and message.offset() >= 0 and message.topic():
            _log.warning(
                "%s %s:%s cannot be read by the Kafka client and goes back to the share group: %s",
                *(message.topic(), message.partition(), message.offset(), message.error()),
            )
            with suppress(driver.IllegalStateException):
                self._consumer.acknowledge(message, driver.AcknowledgeType.RELEASE)
            return
        self._on_error(message.error())

    def _hand_out(self) -> bool:
        """Hand over what was asked for; return whether there was any."""
        handed = False
        with self._lock:
            while self._credit > 0 and self._kept:
                lock = self._kept.popleft()
                if lock.until <= time.monotonic():
                    self._answers.append((lock, driver.AcknowledgeType.RELEASE))
                    continue
                self._credit -= 1
                self._inbox.push(PushToken(lock), lock.consumed)
                handed = True
        return handed

    def _release_due(self) -> None:
        now = time.monotonic()
        release = driver.AcknowledgeType.RELEASE
        with self._lock:
            while self._waiting and self._waiting[0][0] <= now:
                self._answers.append((heapq.heappop(self._waiting)[-1], release))
            while self._kept and self._kept[0].until <= now:
                self._answers.append((self._kept.popleft(), release))

    def _tell(self) -> None:
        """Pass the answers to the driver, and let it send them: soon, or immediately if somebody waits."""
        with self._lock:
            answers, self._answers = self._answers, []
        urgent = False
        for lock, answer in answers:
            position = (lock.consumed.partition, lock.consumed.offset)
            if self._locks.get(position) is not lock:
                continue  # its session is over: it comes again
            del self._locks[position]
            self._consumer.acknowledge_offset(lock.consumed.topic, *position, answer)
            self._untold = True
            urgent = urgent or answer != driver.AcknowledgeType.ACCEPT
        over = not self._locks or time.monotonic() - self._told_at >= _TELLING
        if self._untold and (urgent or over):
            self._untold, self._told_at = False, time.monotonic()
            self._consumer.commit_async()

    def _leave_when_idle(self) -> None:
        """Leave when nobody has asked for a while: an idle member would still fetch, and lock messages."""
        unasked = self._inbox.take_unasked() if self._consumer is not None else None
        if unasked is None:
            return
        with self._lock:
            self._credit = 0
            kept = [token.tag for token in unasked] + list(self._kept)
            self._kept.clear()
        self._answer(kept, driver.AcknowledgeType.RELEASE)
        self._tell()
        if not self._locks:
            self._leave()

    def _leave(self) -> None:
        """Give back unsettled messages, and leave; afterwards the broker has all answers."""
        self._tell()
        for lock in [*self._locks.values()]:
            self._answer([lock], driver.AcknowledgeType.RELEASE)
        self._tell()
        consumer, self._consumer = self._consumer, None
        with self._lock:
            self._kept.clear()
            self._waiting.clear()
        self._locks.clear()
        try:
            consumer.commit_sync(PATIENCE)
        finally:
            consumer.close()

    def abandon(self) -> None:
        """In a forked child: neither use nor end what belongs to the parent."""
        keep(self._asker)
        super().abandon()

    def _on_statistics(self, text: str) -> None:
        if self._is_member:
            return
        group: Any = json.loads(text).get("cgrp", {})
        self._is_member = group.get("rebalance_cnt", 0) > 0  # it has partitions, or had some
        if self._is_member:
            self._joined_by = min(self._joined_by, time.monotonic() + _FETCHING)
        elif not self._warned and time.monotonic() - self._joining_since > PUZZLING:
            self._warned = True
            _log.warning(
                "not a member of the share group %s after %g s, so nothing is received: the brokers must be "
                "Kafka 4.2 or later, with share groups switched on, and let the account read the group",
                *(self._settings["group.id"], PUZZLING),
            )


def _is_sharing(name: str) -> bool:
    """Whether only a share consumer knows a setting."""
    return name == "max.poll.records" or name.startswith("share.")
