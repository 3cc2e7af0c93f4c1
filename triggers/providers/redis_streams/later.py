"""Messages for later delivery: they wait in a sorted set, until a receiver moves them into the stream.

A member is text to sort by, then the fields of the entry, each word after its length as a big-endian 32-bit
number. Its score is the due time, in milliseconds since 1970 by the sender's clock.
``lua/shared/later.lua`` reads it.
"""

import struct
from itertools import count
from math import ceil
from time import time_ns
from uuid import uuid4

from history.errors import ConfigurationError
from history.message import Message
from triggers.providers.redis_streams.codec import encode
from triggers.providers.redis_streams.keys import later_of

#: How many words Lua can pass to one XADD, less some for its other words.
WIDEST = 7000

#: The length of the text that sorts members of one score; ``lua/shared/later.lua`` skips it.
PREFIX = 20

#: Messages of one process with the same due time keep the order in which they were sent.
_sent = count(time_ns())


def named(destination: str, message: Message) -> Message:
    """Give the message an id, if it has none: that of its entry is not known yet."""
    if message.message_id is not None:
        return message
    return message.model_copy(update={"message_id": f"ID:{destination}:later-{uuid4().hex}"})


def adding(destination: str, message: Message) -> tuple[object, ...]:
    """Return the command that keeps a message until its delivery time; a repeated send keeps it only once.

    Raises:
        ConfigurationError: the message has too many properties.
    """
    words = encode(message)
    if len(words) > WIDEST:
        raise ConfigurationError(
            "message",
            f"{len(words) // 2} fields are too many for a delayed message",
            "put them into the body",
        )
    assert message.delivery_time is not None  # noqa: S101  (the caller checked is_later)
    due = ceil(message.delivery_time.timestamp() * 1000)
    packed = b"".join(struct.pack(">I", len(word)) + word for word in words)
    return "ZADD", later_of(destination), due, b"%0*d" % (PREFIX, next(_sent)) + packed
