"""Where messages wait: queues, topics and their subscriptions, and how a destination names them.

=====================  ==============================================================================
``queue://orders``     the queue ``orders``: its consumers share the messages, whatever their trigger
``topic://orders``     the topic ``orders``: each subscription gets every message. Without a subscription
                       messages are dropped, as in JMS
``orders``             the same topic, but messages sent before its first subscription wait for it
=====================  ==============================================================================

A subscription is durable unless the destination ends with ``?durable=no``: then it exists while one of its
consumers does. A topic without subscriptions keeps messages in a durable subscription without a name. The
first subscriber to ``orders`` takes this subscription over. A subscriber to ``topic://orders`` does not: what
was kept stays there, and nothing is added to it while there are other subscriptions.
"""

import logging
from dataclasses import dataclass
from enum import StrEnum

from history.errors import ConfigurationError
from history.sql.database.engine import AnyConnection, execute, fetch
from history.sql.statements.dialects import statement
from triggers.providers.sqljms.link import OTHERS, reserve
from triggers.providers.sqljms.properties import LONGEST_NAME, is_name

#: The prefix of temporary destinations; sending to one does not create it again.
TEMPORARY = "temporary:"

#: The name of the subscription that keeps messages for the first subscriber.
NOBODY = ""

#: What operators write for that subscription.
NOBODY_SHOWN = "-"

#: The log of a new subscription that gets nothing of earlier messages: otherwise its user would wonder why.
NEW_AMONG_OTHERS = (
    "%s is a new subscription beside others: it gets what is sent from now on, and nothing that was sent "
    "before; a renamed trigger begins again"
)

_log = logging.getLogger(__name__)


class DestinationKind(StrEnum):
    """The kind of a destination."""

    QUEUE = "queue"
    TOPIC = "topic"


@dataclass(frozen=True, slots=True)
class Destination:
    """A destination, by name."""

    kind: DestinationKind
    name: str
    retains: bool = False
    durable: bool = True

    @property
    def is_temporary(self) -> bool:
        """Whether it ends with its only consumer."""
        return self.name.startswith(TEMPORARY)

    @classmethod
    def parse(cls, text: str) -> "Destination":
        """Read the name that a trigger or a sender gives to a destination.

        Raises:
            ConfigurationError: it has no name, an unknown option, or a name that PostgreSQL cannot store.
        """
        scheme, separator, rest = text.partition("://")
        if not separator or scheme not in {DestinationKind.QUEUE, DestinationKind.TOPIC}:
            scheme, rest = "", text
        name, mark, option = rest.partition("?") if scheme == DestinationKind.TOPIC else (rest, "", "")
        is_wrong = mark and option not in {"durable=yes", "durable=no"}
        if not is_name(name):
            problem = f"the database cannot store the name {name[:60]!r}"
            raise ConfigurationError("destination", problem, f"use {LONGEST_NAME} bytes or less, without NUL")
        if not name or is_wrong or "?durable=" in name:
            raise ConfigurationError(
                "destination",
                f"{text!r} is not a destination",
                "use orders, queue://orders, topic://orders or topic://orders?durable=no",
            )
        destination_kind = DestinationKind.QUEUE if scheme == DestinationKind.QUEUE else DestinationKind.TOPIC
        return cls(destination_kind, name, retains=not scheme, durable=option != "durable=no")


@dataclass(frozen=True, slots=True)
class Words:
    """The names of one kind's tables and columns, to be put into a statement."""

    entry: str
    place: str
    parent: str


#: For each kind: the table of entries, its column for their place, and the table of places.
WORDS = {
    DestinationKind.QUEUE: Words("dms_queue_entry", "queue_id", "dms_queue"),
    DestinationKind.TOPIC: Words("dms_topic_entry", "subscriber_id", "dms_topic_sub"),
}

# The id of a queue or topic.
FIND = {
    DestinationKind.QUEUE: statement("SELECT queue_id FROM dms_queue WHERE queue_name = :name"),
    DestinationKind.TOPIC: statement("SELECT topic_id FROM dms_topic WHERE topic_name = :name"),
}

# Make a queue or topic, unless somebody else has just done so.
MAKE = {
    DestinationKind.QUEUE: statement(
        "INSERT INTO dms_queue (queue_name, queue_id, temp_id) VALUES (:name, :id, :owner)"
        " ON CONFLICT DO NOTHING"
    ),
    DestinationKind.TOPIC: statement(
        "INSERT INTO dms_topic (topic_name, topic_id, temp_id) VALUES (:name, :id, :owner)"
        " ON CONFLICT DO NOTHING"
    ),
}

# Only one at a time may look at a topic's subscriptions and make one. SQLite has one writer.
LOCK_TOPIC = statement(
    sqlite="SELECT topic_id FROM dms_topic WHERE topic_id = :topic",
    postgresql="SELECT topic_id FROM dms_topic WHERE topic_id = :topic FOR UPDATE",
)

# The subscriptions that get messages now.
ELIGIBLE = statement(
    "SELECT subscriber_id FROM dms_topic_sub WHERE topic_id = :topic AND (durable = 1 OR active = 1)"
)

# A subscription by its name; that of nobody comes last.
FIND_SUBSCRIPTION = statement(
    "SELECT subscriber_id, subscriber_name, durable FROM dms_topic_sub"
    " WHERE topic_id = :topic AND subscriber_name IN (:name, '') ORDER BY subscriber_name DESC"
)

# Take over the subscription that kept messages for the first subscriber; or come back.
ATTACH = statement(
    "UPDATE dms_topic_sub SET subscriber_name = :name, client_id = :client, durable = :durable, active = 1"
    " WHERE subscriber_id = :subscriber"
)

# Subscribe.
SUBSCRIBE = statement(
    "INSERT INTO dms_topic_sub (client_id, subscriber_name, subscriber_id, topic_id, durable, active)"
    " VALUES (:client, :name, :subscriber, :topic, :durable, :active)"
)


async def find_or_make(connection: AnyConnection, destination: Destination, owner: int = 0) -> int:
    """Return the id of a queue or topic, which is made if need be; in a transaction."""
    named = {"name": destination.name}
    for _ in range(2):
        for (place_id,) in await fetch(connection, FIND[destination.kind], **named):
            return int(place_id)
        number = await reserve(connection, OTHERS)
        await execute(connection, MAKE[destination.kind], **named, id=number, owner=owner)
    ((place_id,),) = await fetch(connection, FIND[destination.kind], **named)
    return int(place_id)


async def keep_for_nobody(connection: AnyConnection, topic: int) -> None:
    """Make sure that messages for a topic wait for somebody; in a transaction."""
    await fetch(connection, LOCK_TOPIC, topic=topic)
    if not await fetch(connection, ELIGIBLE, topic=topic):
        number = await reserve(connection, OTHERS)
        values = {"client": 0, "name": NOBODY, "durable": 1, "active": 0}
        await execute(connection, SUBSCRIBE, subscriber=number, topic=topic, **values)


async def subscribe(
    connection: AnyConnection, topic: int, name: str, *, client: int, durable: bool, retains: bool
) -> int:
    """Attach to a subscription, which is made if need be, and return its id; in a transaction.

    Raises:
        ConfigurationError: a subscription of this name exists, and is durable but this is not, or the
            reverse.
    """
    await fetch(connection, LOCK_TOPIC, topic=topic)
    values = {"client": client, "name": name, "durable": int(durable)}
    for subscriber in await fetch(connection, FIND_SUBSCRIPTION, topic=topic, name=name):
        own = subscriber.subscriber_name == name
        if own and subscriber.durable != int(durable):
            raise ConfigurationError(
                "destination",
                f"the subscription {name!r} is {_DURABLE[subscriber.durable]}",
                "unsubscribe first",
            )
        if own or (retains and durable):
            await execute(connection, ATTACH, subscriber=subscriber.subscriber_id, **values)
            return int(subscriber.subscriber_id)
    if durable and await fetch(connection, ELIGIBLE, topic=topic):
        _log.info(NEW_AMONG_OTHERS, name)
    number = await reserve(connection, OTHERS)
    await execute(connection, SUBSCRIBE, subscriber=number, topic=topic, active=1, **values)
    return number


_DURABLE = {0: "not durable", 1: "durable"}
