"""The worth of a broker's delivery count: measured, per broker, wire and kind of queue.

A delivery count of 1 should mean that a message was never delivered before. Some brokers keep no count, some
forget it when they crash, and then 1 proves nothing. :data:`PROFILES` holds what was measured: the tests
cause each :class:`Happening` on a real broker and compare the next delivery. A provider passes each count
that it receives through :func:`weighed`; ``docs/delivery-counts.md`` shows the profiles. This module does no
I/O.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from history.errors import ConfigurationError
from history.message import UNDEFINED_COUNT


class Happening(StrEnum):
    """An event between a delivery and the next one of the same message."""

    RETURNED = "given back as failed"
    RELEASED = "given back unseen"
    CONSUMER_KILLED = "consumer killed"
    BROKER_KILLED = "broker killed"


class Effect(StrEnum):
    """The report of the next delivery after a happening."""

    COUNTED = "counted"
    FLAGGED = "not counted, but redelivered"
    FORGOTTEN = "forgotten: as a first delivery"
    UNKNOWN = "not measured"


class FirstCount(StrEnum):
    """The setting ``first_count``: how to treat a count of 1."""

    #: -1, undefined, if 1 does not prove that nothing was delivered before.
    WEIGHED = "weighed"
    #: 1, as the broker says. webMethods does the same.
    AS_TOLD = "as_told"

    @classmethod
    def read(cls, text: str) -> "FirstCount":
        """Read the setting, such as from a URL.

        Raises:
            ConfigurationError: it is neither.
        """
        try:
            return cls(text)
        except ValueError as error:
            raise ConfigurationError(
                "first_count", f"{text!r} is unknown", "give weighed or as_told"
            ) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustProfile:
    """Knowledge about the count of one broker, over one wire, from one kind of queue.

    ``keeps_count`` is False if the broker has no number, but ``redelivered`` at most. ``effects`` holds, for
    every happening, what the next delivery tells.
    """

    broker: str
    wire: str
    queue: str
    keeps_count: bool = True
    effects: Mapping[Happening, Effect]

    @property
    def first_is_first(self) -> bool:
        """Whether 1, without the redelivered flag, proves that nothing was delivered before."""
        return self.keeps_count and not {Effect.FORGOTTEN, Effect.UNKNOWN} & set(self.effects.values())


def weighed(
    count: int, *, redelivered: bool, profile: TrustProfile, first_count: FirstCount = FirstCount.WEIGHED
) -> int:
    """Return the delivery count for a message: -1 for a 1 that proves nothing.

    A 1 proves nothing if the broker may have forgotten, or if it comes with the redelivered flag. Counts
    above 1 stay: they prove an earlier delivery. ``AS_TOLD`` leaves everything as it is.
    """
    if count != 1 or first_count is FirstCount.AS_TOLD:
        return count
    return 1 if profile.first_is_first and not redelivered else UNDEFINED_COUNT


def _effects(
    returned: Effect, released: Effect, consumer: Effect, broker: Effect
) -> Mapping[Happening, Effect]:
    return MappingProxyType(dict(zip(Happening, (returned, released, consumer, broker), strict=True)))


_ALL_COUNTED = _effects(Effect.COUNTED, Effect.COUNTED, Effect.COUNTED, Effect.COUNTED)
_ALL_FLAGGED = _effects(Effect.FLAGGED, Effect.FLAGGED, Effect.FLAGGED, Effect.FLAGGED)
_BROKER_FORGETS = _effects(Effect.COUNTED, Effect.COUNTED, Effect.COUNTED, Effect.FORGOTTEN)
_NOT_MEASURED = _effects(Effect.UNKNOWN, Effect.UNKNOWN, Effect.UNKNOWN, Effect.UNKNOWN)

REDIS_STREAMS = TrustProfile(
    broker="Redis 7.0, `appendfsync always`", wire="Redis", queue="stream", effects=_ALL_COUNTED
)
RABBITMQ_QUORUM = TrustProfile(
    broker="RabbitMQ 3.10", wire="AMQP 0-9-1", queue="quorum", effects=_ALL_COUNTED
)
RABBITMQ_CLASSIC = TrustProfile(
    broker="RabbitMQ 3.10", wire="AMQP 0-9-1", queue="classic", keeps_count=False, effects=_ALL_FLAGGED
)
AMQP_QUORUM = TrustProfile(
    broker="RabbitMQ 4.0",
    wire="AMQP 1.0",
    queue="quorum",
    effects=_effects(Effect.COUNTED, Effect.FLAGGED, Effect.COUNTED, Effect.COUNTED),
)
AMQP_CLASSIC = TrustProfile(
    broker="RabbitMQ 4.0", wire="AMQP 1.0", queue="classic", keeps_count=False, effects=_ALL_FLAGGED
)
ACTIVEMQ = TrustProfile(
    broker="ActiveMQ Classic 5.17", wire="JMS (OpenWire)", queue="queue", effects=_BROKER_FORGETS
)
ARTEMIS = TrustProfile(
    broker="Apache Artemis 2.40", wire="JMS (Core)", queue="queue", effects=_BROKER_FORGETS
)
#: Kafka has no number: this consumer, or the text beside the group's offset, remembers the count.
KAFKA = TrustProfile(
    broker="Apache Kafka 4.4",
    wire="Kafka",
    queue="topic, consumer group",
    keeps_count=False,
    effects=_effects(Effect.FLAGGED, Effect.FLAGGED, Effect.FORGOTTEN, Effect.FORGOTTEN),
)
#: The brokers write a count when a delivery is settled, so a killed broker forgets those of unsettled ones.
KAFKA_SHARE = TrustProfile(
    broker="Apache Kafka 4.4", wire="Kafka", queue="topic, share group", effects=_BROKER_FORGETS
)
#: SQS itself calls its count "approximate", so the table is never used: see ``sqs/codec.py``.
SQS = TrustProfile(
    broker="Amazon SQS (moto)",
    wire="SQS",
    queue="standard, FIFO",
    keeps_count=False,
    effects=_effects(Effect.FLAGGED, Effect.FLAGGED, Effect.FLAGGED, Effect.UNKNOWN),
)
#: JetStream writes the state of a consumer after its deliveries, even with ``sync_interval: always``.
NATS = TrustProfile(
    broker="NATS JetStream 2.15", wire="NATS", queue="stream, pull consumer", effects=_BROKER_FORGETS
)
#: A broker that we have not measured: its 1 is not believed.
OTHER_AMQP = TrustProfile(broker="any other", wire="AMQP 1.0", queue="any", effects=_NOT_MEASURED)
OTHER_JMS = TrustProfile(broker="any other", wire="JMS", queue="any", effects=_NOT_MEASURED)

#: All profiles, in the order of the table in the documentation.
PROFILES: Sequence[TrustProfile] = (
    REDIS_STREAMS,
    RABBITMQ_QUORUM,
    RABBITMQ_CLASSIC,
    AMQP_QUORUM,
    AMQP_CLASSIC,
    ACTIVEMQ,
    ARTEMIS,
    KAFKA,
    KAFKA_SHARE,
    NATS,
    SQS,
    OTHER_AMQP,
    OTHER_JMS,
)
