"""Sending to Kafka: the call returns when each message is reported as delivered; an error is certain."""

import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from triggers.providers.kafka.codec import KafkaRecord
from triggers.providers.kafka.driver import driver, made
from triggers.providers.kafka.errors import Connecting, translated
from triggers.providers.provider import ProviderUnavailableError

#: How long the broker may take to confirm a message, in seconds.
PATIENCE = 30.0

#: How long one poll for reports takes at most, in seconds: another thread may have received ours.
_LOOK = 0.05


@dataclass(slots=True)
class _Reports:
    """The outcome of the messages of one call."""

    awaited: int
    first_error: Any = None
    lock: threading.Lock = field(default_factory=threading.Lock)

    def report(self, error: Any, _: Any) -> None:
        with self.lock:
            self.awaited -= 1
            self.first_error = self.first_error or error


class Publisher:
    """One producer for all threads of a process."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._connecting = Connecting()
        self._settings = settings | {"error_cb": self._connecting.note}
        self._producer = made(driver.Producer, self._settings)
        self.usable = True

    def publish(self, topic: str, records: Sequence[KafkaRecord]) -> None:
        """Send in order, and wait until the brokers have all of them.

        Raises:
            ProviderUnavailableError: it is unknown which of them arrived.
            ConfigurationError: one of them can never be sent so.
        """
        self._forget_earlier_reports()
        reports = _Reports(len(records))
        for record in records:
            self._produce(topic, record, reports)
        self._wait(topic, reports)
        if reports.first_error is not None:
            raise self._translated(reports.first_error, topic)
        if reports.awaited > 0:
            raise ProviderUnavailableError("Kafka", f"sending to {topic!r}")

    def _forget_earlier_reports(self) -> None:
        """Forget what librdkafka has reported since the last call: it may have found a broker since."""
        with suppress(driver.KafkaException):  # a fatal error, which comes again
            self._producer.poll(0)
        self._connecting.begin()

    def _wait(self, topic: str, reports: _Reports) -> None:
        deadline = time.monotonic() + PATIENCE + 1
        try:
            while reports.awaited > 0 and time.monotonic() < deadline:
                self._producer.poll(_LOOK)
                if self._connecting.hopeless:
                    self._give_up()
        except driver.KafkaException as error:  # a fatal one, which no callback receives
            raise self._translated(error.args[0], topic) from error

    def _give_up(self) -> None:
        """Report all messages as failed: without a login librdkafka would keep them until they time out."""
        self.usable = False  # what is purged leaves a gap in its numbers
        self._producer.purge()

    def ping(self) -> None:
        """Return when a broker answers.

        Raises:
            ProviderUnavailableError: none does.
            ConfigurationError: it refuses us.
        """
        self._forget_earlier_reports()
        try:
            self._producer.list_topics(timeout=PATIENCE / 3)
        except driver.KafkaException as error:
            self._producer.poll(0)  # this reports the reason
            reason = self._connecting.reason_of(error.args[0])
            raise translated(reason, topic="", doing="asking whether it is there") from error

    def _produce(self, topic: str, record: KafkaRecord, reports: _Reports) -> None:
        produce = partial(
            self._producer.produce,
            topic,
            record.value,
            record.key,
            headers=list(record.headers),
            on_delivery=reports.report,
            **({} if record.timestamp is None else {"timestamp": record.timestamp}),
        )
        try:
            while True:
                try:
                    produce()
                except BufferError:
                    self._producer.poll(_LOOK)  # until there is room
                else:
                    return
        except driver.KafkaException as error:
            reports.awaited = 0
            raise self._translated(error.args[0], topic) from error

    def _translated(self, error: Any, topic: str) -> Exception:
        if error.fatal():
            self.usable = False  # its sequence numbers are useless now; a new producer begins again
        reason = self._connecting.reason_of(error)
        return translated(reason, topic=topic, doing=f"sending to {topic!r}")
