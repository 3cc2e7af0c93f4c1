"""The subscriptions of a stream: what they keep in it, and their end."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import cast

from history.errors import ConfigurationError
from triggers.providers.backlog import Backlog
from triggers.providers.redis_streams.link import RedisLink
from triggers.providers.redis_streams.settings import StreamKeys, later_of

#: How many unread entries to count at most, and in how many bytes of them, if the server does not know:
#: before Redis 7.0, and if entries were deleted out of the middle.
MOST_COUNTED, MOST_BYTES = 10_000, 2**20

#: How many of them to read at a time at most. The first page is one entry, because entries may be large.
PAGE = 256


@dataclass(frozen=True, slots=True)
class StreamSubscription:
    """A consumer group of a stream.

    The ``pending`` entries were received and not acknowledged, the ``unread`` ones were not received.
    ``consumers`` is the number of running ones. ``oldest`` is when the oldest of these entries came to the
    stream, by its id. ``is_more`` says that at least so many are unread, because counting stopped there.
    """

    name: str
    pending: int
    unread: int
    consumers: int
    oldest: datetime | None
    is_more: bool = False


async def subscriptions_of(link: RedisLink, destination: str) -> Sequence[StreamSubscription]:
    """Return all subscriptions of a stream, none if the stream does not exist; raises as ``link``."""
    reply = await link.run("subscriptions", StreamKeys(destination, "", "").scripted, ("", "", "", 0))
    rows = cast("list[tuple[bytes, int, int, int, bytes, bytes]]", reply or [])
    return [await _subscription(link, destination, row) for row in rows]


async def _subscription(
    link: RedisLink, destination: str, row: tuple[bytes, int, int, int, bytes, bytes]
) -> StreamSubscription:
    name, pending, unread, consumers, oldest, last = row
    is_more = False
    if unread < 0:
        unread, is_more = await _count(link, destination, last)
    text = name.decode(errors="backslashreplace")
    return StreamSubscription(text, pending, unread, consumers, _instant(oldest), is_more)


async def _count(link: RedisLink, destination: str, last: bytes) -> tuple[int, bool]:
    """Count the entries after one, page by page, and say whether there are more.

    Not in a script: Redis cannot count them without reading them, and others get their turn between pages.
    """
    counted = size = 0
    page = 1
    while counted < MOST_COUNTED and size < MOST_BYTES:
        command = ("XRANGE", destination, b"(" + last, "+", "COUNT", page)
        entries = cast("list[tuple[bytes, dict[bytes, bytes]]]", await link.call("counting", *command))
        counted += len(entries)
        if len(entries) < page:
            return counted, False
        last, page = entries[-1][0], min(2 * page, PAGE, max(1, MOST_COUNTED - counted))
        size += sum(len(value) for _, fields in entries for value in fields.values())
    return counted, True


async def backlogs_of(link: RedisLink, destination: str) -> Sequence[Backlog]:
    """Return the backlog of each subscription of a stream, and last that of a new one; raises as ``link``."""
    subscriptions = await subscriptions_of(link, destination)
    doing = "counting what waits"
    later = cast("int", await link.call(doing, "ZCARD", later_of(destination)))
    length = cast("int", await link.call(doing, "XLEN", destination))
    counted = [
        Backlog(
            destination=destination,
            subscription=subscription.name,
            waiting=subscription.unread,
            held=subscription.pending,
            later=later,
            consumers=subscription.consumers,
            oldest=subscription.oldest,
            is_more=subscription.is_more,
        )
        for subscription in subscriptions
    ]
    begins = [] if not length else [Backlog(destination=destination, waiting=length, held=0, later=later)]
    return [*counted, *begins]


async def unsubscribe(link: RedisLink, destination: str, subscription: str, *, force: bool) -> bool:
    """End a subscription; False if it does not exist. ``force`` also ends one that still keeps entries.

    Raises:
        ConfigurationError: it has a running consumer, or keeps entries.
        ProviderUnavailableError: the server did not answer.
    """
    keys = StreamKeys(destination, subscription, "")
    arguments = (subscription, "", "", 0, "all" if force else "")
    match cast("bytes", await link.run("unsubscribe", keys.scripted, arguments)):
        case b"done":
            return True
        case b"absent":
            return False
        case b"consumed":
            problem, remedy = (
                "has a living consumer",
                "stop its consumers first; one that was killed counts for claim_idle",
            )
        case _:
            problem = "has not acknowledged or not read all of the stream"
            remedy = "let a consumer of it run, or force it: it gives up what is left"
    raise ConfigurationError("subscription", f"{subscription!r} of {destination!r} {problem}", remedy)


def _instant(entry_id: bytes) -> datetime | None:
    try:
        return datetime.fromtimestamp(int(entry_id.partition(b"-")[0]) / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return None  # nothing is kept, or somebody else has numbered it
