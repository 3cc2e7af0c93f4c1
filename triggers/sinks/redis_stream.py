"""Retrieval failure events as entries of a Redis stream, each a CloudEvents 1.0 JSON document."""

from collections.abc import Sequence

from history.bridge import drive
from history.errors import HistoryUnavailableError
from history.redis.connection.client import RedisClient
from history.redis.connection.permissions import Use, refusals_of
from history.store.inspection import Refusal
from triggers.events import RetrievalFailureEvent
from triggers.service.checking import check_whole
from triggers.sinks.sink import unavailable

#: The default stream for events.
DEFAULT_STREAM = "doubtless:events"

#: About how many events the stream keeps.
DEFAULT_MAXLEN = 100_000


class RedisStreamSink:
    """Appends each event to ``stream``, in the field ``event``; safe between threads.

    About ``maxlen`` events are kept, the youngest. If a reply was lost, an event may be there twice, under
    the same CloudEvents id. Blocking: a handler under asyncio holds the event loop for one round trip. While
    the server does not answer, it fails immediately instead of delaying every message.

    Raises:
        ConfigurationError: the URL is not valid, or ``maxlen`` is less than 1.
    """

    def __init__(self, url: str, *, stream: str = DEFAULT_STREAM, maxlen: int = DEFAULT_MAXLEN) -> None:
        check_whole("maxlen", maxlen, 1)
        self._redis = RedisClient.from_url(url)
        self._stream = stream
        self._maxlen = maxlen

    def __call__(self, event: RetrievalFailureEvent) -> None:
        """Append one event.

        Raises:
            SinkUnavailableError: the server does not answer.
        """
        fields = {"event": event.to_cloudevent_json()}
        client = self._redis.client
        try:
            drive(
                self._redis.call(
                    "publishing an event",
                    lambda: client.xadd(self._stream, fields, maxlen=self._maxlen, approximate=True),
                )
            )
        except HistoryUnavailableError as error:
            raise unavailable(f"the Redis stream {self._stream}", error) from None

    async def refusals(self) -> Sequence[Refusal]:
        """Return what the account may not do there; nothing is written.

        Raises:
            HistoryUnavailableError: the server does not answer.
        """
        use = Use(f"add events to {self._stream}", ["XADD"], [self._stream], [f"~{self._stream}"])
        redis = self._redis
        return await redis.call("asking what its account may do", lambda: refusals_of(redis.client, [use]))

    def close(self) -> None:
        """Close the connection."""
        drive(self._redis.close())
