"""``redis_streams``: a Redis stream, as its provider writes it, as a source of a Spark stream."""

from triggers.spark.sources.options import Options
from triggers.spark.sources.reader import LogSource, ReadOptions
from triggers.spark.sources.redis_log import RedisLog, RedisLogSettings


class RedisStreamSource(LogSource):
    """Reads a stream by offset: the same offsets give the same rows, for every reader, every time.

    Register it once for each session (``spark.dataSource.register(RedisStreamSource)``). Options: ``url`` and
    ``destination``, which are required; ``subscription``; and the options of every log, all in
    docs/how-to/read-streams-in-spark.md. :mod:`triggers.spark.sources.message_rows` lists the columns. Needs
    Redis 7.0 or newer, and Spark 4.2.

    It is not a consumer of the stream: nothing is acknowledged, no other subscription notices it, and a trim
    does not wait for it, unless ``subscription`` gives it a place that trims respect.

    Guarantee: in doubt, or what the sink adds to it (fenced, atomic). By itself: each entry is in one batch,
    and a batch that Spark runs again has the same entries; an entry that was deleted unread is an error.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name for ``format``."""
        return "redis_streams"

    def open_log(self, reading: ReadOptions, options: Options) -> RedisLog:
        """Return a connection to the stream."""
        settings = RedisLogSettings(
            url=options.needed("url", "redis://127.0.0.1:6379/0"),
            stream=options.needed("destination", "orders"),
            subscription=options.text("subscription"),
            from_the_end=reading.from_the_end,
            rows_of_a_span=reading.rows_of_a_span,
            fail_on_loss=reading.fail_on_loss,
            patience=reading.patience,
        )
        return RedisLog(settings)
