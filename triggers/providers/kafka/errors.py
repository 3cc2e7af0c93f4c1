"""The meaning of librdkafka's errors: a wrong setting if a retry never helps, else an outage."""

import logging
import time
from collections.abc import Callable, Sequence
from typing import Any

from history.errors import ConfigurationError, NotPermittedError
from triggers.providers.kafka.driver import driver
from triggers.providers.provider import ProviderUnavailableError

_log = logging.getLogger(__name__)

_CODES = driver.KafkaError

#: For how long commits may be refused before the log says so, in seconds: a rebalance refuses a few.
REFUSING = 5.0

#: None of the brokers is connected; a partition has no further message. Names of errors of librdkafka itself
#: begin with an underscore.
ALL_BROKERS_DOWN: int = _CODES._ALL_BROKERS_DOWN  # noqa: SLF001
AT_END: int = _CODES._PARTITION_EOF  # noqa: SLF001

#: The topic does not exist, or not yet, or no longer: the brokers' code, and librdkafka's.
_NO_TOPIC: tuple[int, ...] = (_CODES.UNKNOWN_TOPIC_OR_PART, _CODES._UNKNOWN_TOPIC)  # noqa: SLF001

#: Another producer has begun under the same ``transactional.id``.
FENCED: tuple[int, ...] = (
    _CODES._FENCED,  # noqa: SLF001
    _CODES.PRODUCER_FENCED,
    _CODES.INVALID_PRODUCER_EPOCH,
)

#: The brokers are too old for this request.
UNSUPPORTED: int = _CODES._UNSUPPORTED_FEATURE  # noqa: SLF001

#: Nobody answered; the last two are messages that we gave up for that reason.
_SILENCE: tuple[int, ...] = (
    _CODES._MSG_TIMED_OUT,  # noqa: SLF001
    _CODES._TIMED_OUT,  # noqa: SLF001
    _CODES._TRANSPORT,  # noqa: SLF001
    _CODES._PURGE_QUEUE,  # noqa: SLF001
    _CODES._PURGE_INFLIGHT,  # noqa: SLF001
)

_LOGINS = (_CODES._AUTHENTICATION, _CODES.SASL_AUTHENTICATION_FAILED)  # noqa: SLF001
_TLS = (_CODES._SSL,)  # noqa: SLF001
#: The last one is the answer to a producer whose account may not write to any topic.
_TOPICS = (_CODES.TOPIC_AUTHORIZATION_FAILED, _CODES.CLUSTER_AUTHORIZATION_FAILED)
_GROUPS = (_CODES.GROUP_AUTHORIZATION_FAILED,)
_NAMES = (_CODES.TOPIC_EXCEPTION, _CODES._UNKNOWN_TOPIC)  # noqa: SLF001
_IDS = (_CODES.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,)
_MESSAGES = (_CODES.MSG_SIZE_TOO_LARGE, _CODES.INVALID_RECORD)
_SESSIONS = (_CODES.INVALID_SESSION_TIMEOUT,)
_TRANSACTIONS = (_CODES.INVALID_TRANSACTION_TIMEOUT,)
_SEATS = (_CODES.FENCED_INSTANCE_ID,)
_PROTOCOLS = (_CODES.UNSUPPORTED_VERSION,)
_ASSIGNORS = (_CODES.UNSUPPORTED_ASSIGNOR,)

#: A consumer's client has ended: only the text of the error has the brokers' answer.
_FATAL: int = _CODES._FATAL  # noqa: SLF001

#: The answers after which the client of a consumer ends, and which no retry cures.
_ENDINGS = (*_SEATS, *_PROTOCOLS, *_ASSIGNORS)

#: For each kind: its codes, the field that is wrong, the problem, and the remedy.
_REFUSALS = (
    (_LOGINS, "provider", "refuses the login", "correct user, password and mechanism in its URL"),
    (_TLS, "provider", "cannot be reached over TLS", "correct the certificate, or name its cafile"),
    (
        _TOPICS,
        "destination",
        "does not let us use {topic!r}",
        "give the account Read on this topic to receive from it, or Write to send to it",
    ),
    (_GROUPS, "group", "does not let us join {group!r}", "give the account Read on this group"),
    (_NAMES, "destination", "has no topic {topic!r}", "create it, or correct its name"),
    (_IDS, "transactional_id", "does not let us use it", "give the account Write on it"),
    (
        _MESSAGES,
        "message",
        "refuses it",
        "send less, or raise max.message.bytes of the topic, up to 50 MB",
    ),
    (
        _SESSIONS,
        "heartbeat",
        "allows no such session",
        "give one from group.min.session.timeout.ms to group.max.session.timeout.ms of the brokers",
    ),
    (
        _TRANSACTIONS,
        "transactional_id",
        "allows no transaction of a minute",
        "set transaction.max.timeout.ms of the brokers to 60000 or more",
    ),
    (
        _SEATS,
        "group.instance.id",
        "gives the partitions to another consumer with this id",
        "give each process a different id",
    ),
    (_PROTOCOLS, "group.protocol", "does not know it", "leave it out, or let the brokers have this protocol"),
    (_ASSIGNORS, "group.remote.assignor", "does not know it", "correct it, or leave it out"),
)


def translated(error: object, *, topic: str, doing: str, group: str | None = None) -> Exception:
    """Return our error for an error of the driver, which may be a KafkaException or the error inside it."""
    if isinstance(error, ConfigurationError | ProviderUnavailableError):
        return error
    driven: Any = error
    reason = driven.args[0] if isinstance(error, driver.KafkaException) else driven
    if isinstance(reason, driver.KafkaError):
        for codes, field, problem, remedy in _REFUSALS:
            if _code_of(reason) in codes:
                text = f"Kafka {problem.format(topic=topic, group=group)} ({reason.str()})"
                wrong = NotPermittedError if codes in {_TOPICS, _GROUPS, _IDS} else ConfigurationError
                return wrong(field, text, remedy)
    lost = ProviderUnavailableError("Kafka", doing)
    lost.__cause__ = error if isinstance(error, BaseException) else driver.KafkaException(error)
    return lost


def is_refusal(error: Any) -> bool:
    """Whether a retry never helps against an error of the driver, or only a new client does."""
    code = error.code()
    return bool(error.fatal()) or code == _FATAL or any(code in codes for codes, *_ in _REFUSALS)


def _code_of(error: Any) -> int:
    """Return the brokers' code of an error, which a fatal error has only in its text."""
    if error.code() == _FATAL:
        return next((code for code in _ENDINGS if driver.KafkaError(code).str() in error.str()), _FATAL)
    return int(error.code())


def is_no_topic(error: Any) -> bool:
    """Whether an error of the driver, a KafkaException or the error inside it, says that."""
    driven: Any = error
    reason = driven.args[0] if isinstance(error, driver.KafkaException) else driven
    return isinstance(reason, driver.KafkaError) and reason.code() in _NO_TOPIC


class Connecting:
    """What librdkafka reports of its connections: it tries again for ever, even if the login is refused."""

    def __init__(self) -> None:
        #: The last refusal of a broker.
        self.refusal: Any = None
        #: Whether no broker is connected, and one of them has refused us.
        self.hopeless = False

    def begin(self) -> None:
        """Forget what was reported."""
        self.refusal, self.hopeless = None, False

    def note(self, error: Any) -> None:
        """Take a report."""
        if error.code() == ALL_BROKERS_DOWN:
            self.hopeless = self.refusal is not None
        elif is_refusal(error):
            self.refusal = error

    def reason_of(self, error: Any) -> Any:
        """Return why there was no connection, if an error says only that."""
        return self.refusal if self.refusal is not None and error.code() in _SILENCE else error


class NoTopicError(ProviderUnavailableError):
    """The topic does not exist, or not yet: the brokers make it on request, or somebody does."""

    def __init__(self, topic: str) -> None:
        super().__init__("Kafka", f"receiving from {topic!r}")
        self.args = (f"Kafka has no topic {topic!r}",)
        self.__cause__ = LookupError("create it, or correct its name")


class Refusals:
    """Counts the refused commits of one member; logs once if refusals last."""

    def __init__(self, topic: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._topic = topic
        self._clock = clock
        self._since: float | None = None
        self._told = False
        self._number = 0

    def take(self) -> int:
        """Return how many partitions' commits were refused since the last call."""
        number, self._number = self._number, 0
        return number

    def note(self, error: Any, partitions: Sequence[Any]) -> Sequence[int]:
        """Return the numbers of the partitions with a refused commit.

        If Kafka refuses only some partitions, ``error`` is None and each of those has its own error.
        """
        errors = [error if listed.error is None else listed.error for listed in partitions]
        refused = [problem for problem in errors if problem is not None]
        self._number += len(refused)
        if refused:
            self._refused(refused[0])
        elif error is None:
            self._since, self._told = None, False
        return [
            listed.partition
            for listed, problem in zip(partitions, errors, strict=True)
            if problem is not None
        ]

    def _refused(self, error: Any) -> None:
        now = self._clock()
        if self._since is None:
            self._since = now
        if self._told or now - self._since < REFUSING:
            return
        self._told = True
        _log.error(
            "topic %s: Kafka refuses this group's commits (%s). Messages run again after a restart. "
            "Check the account's Read permission on the group, and the log of the brokers.",
            self._topic,
            error.str(),
        )
