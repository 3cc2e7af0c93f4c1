"""Sending to Kafka in transactions: what one call sends is committed together, or none of it is.

The brokers know a producer by its ``transactional.id``. A producer that begins under an id ends the open
transaction of an earlier producer of that id, and locks it out (*fences* it). So a process that died between
two messages leaves none of them. A process that returns from a long sleep cannot disturb its successor.

:class:`Publishers` holds the producers of a provider, with and without transactions.
"""

import logging
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Any
from weakref import WeakSet

from history.errors import ConfigurationError
from history.support.forks import at_fork, keep
from triggers.providers.brokers.url import BrokerUrl
from triggers.providers.kafka.codec import KafkaRecord
from triggers.providers.kafka.driver import driver, made
from triggers.providers.kafka.errors import FENCED, UNSUPPORTED
from triggers.providers.kafka.publisher import PATIENCE, Publisher
from triggers.providers.kafka.settings import KafkaSettings, producing, transacting
from triggers.providers.provider import ProviderUnavailableError

_log = logging.getLogger(__name__)

#: How long the abort of a failed transaction may take, in seconds: in the end the brokers abort it.
_ABORTING = PATIENCE / 3


class TransactionalPublisher(Publisher):
    """The producer of an id, for all threads of a process: it has one transaction, so they take turns.

    After a failure the producer is replaced: it may have skipped numbers that the brokers wait for, and would
    fail the next transaction. Its successor first settles what it left open.
    """

    def __init__(self, settings: dict[str, Any]) -> None:
        super().__init__(settings)
        self._id = settings["transactional.id"]
        self._turn = threading.Lock()
        self._known = False

    def publish(self, topic: str, records: Sequence[KafkaRecord]) -> None:
        """Send in order, and commit all of it.

        Raises:
            ProviderUnavailableError: nothing is committed; but if the commit itself was not answered, nobody
                knows.
            ConfigurationError: one of them can never be sent so, and nothing is committed.
        """
        with self._turn:
            self._begin(topic)
            try:
                super().publish(topic, records)
            except BaseException:
                self._abort()
                raise
            self._commit(topic)

    def _begin(self, topic: str) -> None:
        if not self.usable:
            self._producer = made(driver.Producer, self._settings)
            self.usable, self._known = True, False
        self._forget_earlier_reports()
        try:
            if not self._known:
                self._producer.init_transactions(PATIENCE)
                self._known = True
            self._producer.begin_transaction()
        except driver.KafkaException as error:
            self.usable = False
            with suppress(driver.KafkaException):  # a fatal error, which is the one that we have
                self._producer.poll(0)  # this reports the reason
            raise self._translated(error.args[0], topic) from error

    def _abort(self) -> None:
        self.usable = False
        try:
            self._producer.abort_transaction(_ABORTING)
        except driver.KafkaException as error:
            _log.debug("could not abort a transaction of %s: %s", self._id, error)

    def _commit(self, topic: str) -> None:
        try:
            self._producer.commit_transaction(PATIENCE)
        except driver.KafkaException as error:
            self.usable = False  # it may be committed, now or later; unless the answer says that it cannot be
            reason = error.args[0]
            if reason.txn_requires_abort():
                self._abort()
            raise self._translated(reason, topic) from error

    def _translated(self, error: Any, topic: str) -> Exception:
        if error.code() in FENCED:
            return self._fenced(topic)
        if error.code() == UNSUPPORTED:
            return ConfigurationError(
                "transactional_id", f"these brokers know no transactions ({error.str()})", "leave it out"
            )
        return super()._translated(error, topic)

    def _fenced(self, topic: str) -> Exception:
        taken = f"another producer has taken over the transactional_id {self._id!r}"
        _log.warning("%s: give each process that sends an id of its own", taken)
        return ProviderUnavailableError("Kafka", f"sending to {topic!r}: {taken}")


class Publishers:
    """The producers of one provider, blocking and asyncio together; safe between threads.

    Two producers of one ``transactional.id`` would lock each other out, although they are in one process.
    """

    def __init__(self, url: BrokerUrl, settings: KafkaSettings) -> None:
        self._url = url
        self._settings = settings
        self._begin()
        at_fork(self, Publishers._in_child)

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._publisher: Publisher | None = None
        self._transactional: TransactionalPublisher | None = None
        self._users: WeakSet[object] = WeakSet()

    def sending(self, user: object) -> Publisher:
        """Return the producer for a program's messages: it uses transactions if the settings have an id."""
        if self._settings.transactional_id is None:
            return self.publishing(user)
        with self._lock:
            self._users.add(user)
            if self._transactional is None:
                settings = transacting(self._url, self._settings, PATIENCE)
                self._transactional = TransactionalPublisher(settings)
            return self._transactional

    def publishing(self, user: object) -> Publisher:
        """Return the producer without transactions."""
        with self._lock:
            self._users.add(user)
            if self._publisher is None or not self._publisher.usable:
                self._publisher = Publisher(producing(self._url, self._settings, PATIENCE))
            return self._publisher

    def leave(self, user: object) -> None:
        """End the producers when nobody else uses them; everything that was sent has been reported."""
        with self._lock:
            self._users.discard(user)
            if not self._users:
                self._publisher = self._transactional = None

    def _in_child(self) -> None:
        """Begin again, and leave the producers to the parent, because they need its threads."""
        keep(self._publisher, self._transactional)
        self._begin()
