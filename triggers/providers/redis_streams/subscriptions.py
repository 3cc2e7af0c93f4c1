"""The subscriptions of a stream: what they keep in it, and their end."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import cast

from history.errors import ConfigurationError
from triggers.providers.backlog import Backlog
from triggers.providers.redis_streams.keys import StreamKeys, later_of
from triggers.providers.redis_streams.link import RedisLink

#: How many entries that were not read are counted at most.
MOST_COUNTED = 10_000


@dataclass(frozen=True, slots=True)
class Subscription:
    """A consumer group of a stream.

    ``pending`` were received and not acknowledged, ``unread`` not received (counted up to ``MOST_COUNTED``),
    ``consumers`` live, ``oldest`` is when the oldest of those came to the stream, by its entry's id.
    """

    name: str
    pending: int
    unread: int
    consumers: int
    oldest: datetime | None


async def subscriptions_of(link: RedisLink, destination: str) -> Sequence[Subscription]:
    """Return all subscriptions of a stream, none where there is no stream; raises as ``link``."""
    words = ("", "", "", 0, MOST_COUNTED)
    found = await link.run("subscriptions", StreamKeys(destination, "", "").scripted, words)
    rows = cast("list[tuple[bytes, int, int, int, bytes]]", found or [])
    return [
        Subscription(name.decode(errors="backslashreplace"), pending, unread, consumers, _instant(oldest))
        for name, pending, unread, consumers, oldest in rows
    ]


async def backlogs_of(link: RedisLink, destination: str) -> Sequence[Backlog]:
    """Return what waits for each subscription of a stream, last for one that begins; raises as ``link``."""
    found = await subscriptions_of(link, destination)
    doing = "counting what waits"
    later = cast("int", await link.call(doing, "ZCARD", later_of(destination)))
    length = cast("int", await link.call(doing, "XLEN", destination))
    counted = [
        Backlog(
            destination=destination,
            subscription=one.name,
            waiting=one.unread,
            held=one.pending,
            later=later,
            consumers=one.consumers,
            oldest=one.oldest,
            is_more=one.unread >= MOST_COUNTED,
        )
        for one in found
    ]
    begins = [] if not length else [Backlog(destination=destination, waiting=length, held=0, later=later)]
    return [*counted, *begins]


async def unsubscribe(link: RedisLink, destination: str, subscription: str, *, force: bool) -> bool:
    """End a subscription; False where there is none. With ``force`` also one that still keeps entries.

    Raises:
        ConfigurationError: it has a living consumer, or keeps entries.
        ProviderUnavailableError: the server did not answer.
    """
    keys = StreamKeys(destination, subscription, "")
    words = (subscription, "", "", 0, "all" if force else "")
    match cast("bytes", await link.run("unsubscribe", keys.scripted, words)):
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
