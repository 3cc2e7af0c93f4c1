"""The part that all members of a group share: a thread, requests of the receiver's thread to it, and its end.

The members of a consumer group (``connection.py``) and of a share group (``share.py``) differ in how they
receive and in how they settle.
"""

import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from concurrent.futures import Future
from operator import methodcaller
from typing import Any

from history.shell import fail, fulfil
from history.support.forks import at_fork, keep
from triggers.providers.brokers.push_receiver import Inbox, PushToken
from triggers.providers.kafka.codec import UNREADABLE, KafkaRecord
from triggers.providers.kafka.driver import driver
from triggers.providers.kafka.errors import (
    ALL_BROKERS_DOWN,
    NoTopicError,
    is_no_topic,
    is_refusal,
    translated,
)
from triggers.providers.provider import ProviderUnavailableError

_log = logging.getLogger(__name__)

#: How long a broker may take to answer, in seconds.
PATIENCE = 10.0

#: How long one poll, or one pause of the thread, takes at most, in seconds.
LOOK = 0.1

#: How long a new topic is looked for, and how often, in seconds: brokers make it on request.
_APPEARING, _LOOKING = 5.0, 0.2

#: How long a new consumer waits for its partitions, in seconds: those of a dead one are free after a session.
SHARING = 30.0

#: How long all of that may take, in seconds.
JOINING = PATIENCE + _APPEARING + SHARING + PATIENCE

#: How long leaving may take, in seconds: the last turn, then the last answer to the broker.
LEAVING = 2 * PATIENCE

_REMEDIES = {
    driver.KafkaError.INCONSISTENT_GROUP_PROTOCOL: (
        "The other consumers of this group share out its partitions in another way: stop them, or name "
        "another group with ?group= in the provider's URL."
    ),
    driver.KafkaError.GROUP_MAX_SIZE_REACHED: "Run fewer consumers, or raise group.max.size of the brokers.",
}


class Membership(ABC):
    """One consumer in its group, from joining to leaving."""

    def __init__(self, settings: dict[str, Any], topic: str, inbox: Inbox) -> None:
        self.ready: Future[None] = Future()
        self.left: Future[None] = Future()
        self.over = False
        self._settings = settings
        self._topic = topic
        self._inbox = inbox
        self._lock = threading.RLock()
        self._wake = threading.Event()
        self._asked: list[Future[None]] = []
        self._credit = 0
        self._closing = False
        self._error: Exception | None = None
        self._doubts = False
        self._wanted_at = time.monotonic()
        self._consumer: Any = None
        #: The codes of the answers that are already in the log.
        self._told: set[int] = set()

    def start(self) -> None:
        """Begin to join."""
        at_fork(self, _belongs_to_the_parent)
        threading.Thread(target=self._run, name="doubtless-kafka", daemon=True).start()

    # Called by the receiver's thread.

    @property
    def ended_by(self) -> Exception | None:
        """The error that ended it, if any."""
        return self._error

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

    def joined(self) -> "Future[None]":
        """Fulfilled when existing messages can be received."""
        return self.ready

    @abstractmethod
    def settle(self, tokens: Sequence[PushToken]) -> None:
        """Note that these are settled; the broker learns it within a moment."""

    @abstractmethod
    def give_back(self, tokens: Sequence[PushToken], seconds: float, *, seen: bool) -> None:
        """Let these be delivered again, not before so many seconds have passed."""

    def leave(self) -> "Future[None]":
        """Commit what is settled, and leave the group; fulfilled when that is done."""
        self._closing = True
        self._wake.set()
        return self.left

    # Runs on the thread.

    @abstractmethod
    def _begin(self) -> None:
        """Join, and wait for a share of the partitions."""

    @abstractmethod
    def _turn(self) -> None:
        """Do the pending work, for a moment."""

    @abstractmethod
    def _leave(self) -> None:
        """Report what is settled, and leave."""

    @abstractmethod
    def _client(self) -> Any:
        """Return a client of the driver that can list topics."""

    def _run(self) -> None:
        try:
            self._begin()
            if self._error is None:
                fulfil(self.ready, None)
            while not self._closing and self._error is None:
                if self._doubts:
                    self._look_for_brokers()
                self._turn()
        except BaseException as error:  # noqa: BLE001  (the waiting caller must get it)
            self._error = self._error or self._translated(error, "receiving")
        finally:
            self._end()

    def _find_topic(self) -> None:
        deadline = time.monotonic() + _APPEARING
        while not self._exists():
            if time.monotonic() > deadline:
                raise NoTopicError(self._topic)
            time.sleep(_LOOKING)

    def _exists(self) -> bool:
        client = self._client()
        try:
            metadata = client.list_topics(self._topic, timeout=PATIENCE).topics.get(self._topic)
        except driver.KafkaException as error:
            client.poll(0)  # this reports the reason
            raise self._error or self._translated(error, "connecting") from error
        problem = None if metadata is None else metadata.error
        if problem is not None and is_refusal(problem) and not is_no_topic(problem):
            raise self._translated(problem, "receiving")
        return metadata is not None and problem is None and bool(metadata.partitions)

    def _on_error(self, error: Any) -> None:
        if error.code() == ALL_BROKERS_DOWN:
            self._doubts = True  # the driver may not be asked anything during this call
        elif is_no_topic(error) or is_refusal(error):
            self._error = self._translated(error, "receiving")
        elif error.code() > 0:  # an answer of the brokers; librdkafka recovers from its own, below 0
            self._tell_once(error)

    def _tell_once(self, error: Any) -> None:
        """Log an answer of the brokers after which librdkafka asks again: once for each code."""
        if error.code() not in self._told:
            self._told.add(error.code())
            _log.error(
                "topic %s: Kafka says %s: %s. %s",
                self._topic,
                error.name(),
                error.str(),
                _REMEDIES.get(error.code(), "See the log of the brokers."),
            )

    def _look_for_brokers(self) -> None:
        """Tell brokers that closed an unused connection from brokers that are away."""
        self._doubts = False
        try:
            self._client().list_topics(self._topic, timeout=PATIENCE / 2)
        except driver.KafkaException as error:
            self._error = self._error or self._translated(error, "receiving")

    def _translated(self, error: BaseException, doing: str) -> Exception:
        if is_no_topic(error):
            return NoTopicError(self._topic)
        return translated(error, topic=self._topic, doing=doing, group=self._settings.get("group.id"))

    def _answer_all(self) -> None:
        asked, self._asked = self._asked, []
        for future in asked:
            fulfil(future, None)

    def _end(self) -> None:
        error = self._error or ProviderUnavailableError("Kafka", "receiving")
        try:
            if self._consumer is not None:
                self._leave()
        except BaseException as failure:  # noqa: BLE001  (it ends; what was not committed comes again)
            _log.debug("leaving the group failed: %r", failure)
        finally:
            with self._lock:
                self.over = True
                self._answer_all()
            self._inbox.lose(error)
            fail(self.ready, error)
            fail(self.joined(), error)
            fulfil(self.left, None)

    def abandon(self) -> None:
        """In a forked child: neither use nor end what belongs to the parent."""
        keep(self._consumer)
        self.over = True
        self._inbox.lose(
            ProviderUnavailableError("Kafka, which the parent of this process uses,", "receiving")
        )


def _belongs_to_the_parent(member: Membership) -> None:
    member.abandon()


#: The interpreter's own call may return although the driver has raised; the error would then appear anywhere.
_headers_of = methodcaller("headers")


def record_of(message: Any) -> KafkaRecord:
    """Return what came, free of the driver."""
    time_type, milliseconds = message.timestamp()
    timestamp = None if time_type == driver.TIMESTAMP_NOT_AVAILABLE else milliseconds
    try:
        headers = _headers_of(message) or ()
    except SystemError:  # the driver cannot give us a name that is not UTF-8
        headers = UNREADABLE
    return KafkaRecord(message.value(), message.key(), headers, timestamp)
