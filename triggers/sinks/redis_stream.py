"""Retrieval failure events as entries of a Redis stream, each a CloudEvents 1.0 JSON document."""

import json

from history.bridge import drive
from history.redis_client import RedisClient
from triggers.events import RetrievalFailureEvent

#: The stream that events go to when nobody says otherwise.
DEFAULT_STREAM = "doubtless:events"

#: About how many events the stream keeps.
DEFAULT_MAXLEN = 100_000


class RedisStreamSink:
    """Appends each event to ``stream``, in the field ``event``; safe between threads.

    Blocking: a handler under asyncio holds the event loop for one round trip. A server that is away makes the
    handler fail, which is logged; the message itself is parked all the same.
    """

    def __init__(self, url: str, *, stream: str = DEFAULT_STREAM, maxlen: int = DEFAULT_MAXLEN) -> None:
        self._redis = RedisClient.from_url(url)
        self._stream = stream
        self._maxlen = maxlen

    def __call__(self, event: RetrievalFailureEvent) -> None:
        """Append one event."""
        fields = {"event": json.dumps(event.to_cloudevent(), ensure_ascii=False)}
        client = self._redis.client
        drive(
            self._redis.call(
                "publishing an event",
                lambda: client.xadd(self._stream, fields, maxlen=self._maxlen, approximate=True),
            )
        )

    def close(self) -> None:
        """Close the connection."""
        drive(self._redis.close())
