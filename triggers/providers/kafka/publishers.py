"""The producers of a provider: one for it and for the providers that it makes for event loops."""

import threading
from weakref import WeakSet

from history.support.forks import at_fork, keep
from triggers.providers.brokers.url import BrokerUrl
from triggers.providers.kafka.publisher import PATIENCE, Publisher
from triggers.providers.kafka.settings import KafkaSettings, producing, transacting
from triggers.providers.kafka.transactions import TransactionalPublisher


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
