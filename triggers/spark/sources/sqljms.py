"""``sqljms``: a queue or topic of SQL-JMS as a source of a Spark stream."""

from typing import NoReturn

from pyspark.sql.types import StructType

from history.errors import ConfigurationError
from triggers.providers.sqljms.destinations import Destination
from triggers.spark.sources.options import Options
from triggers.spark.sources.reader import LogSource, ReadOptions
from triggers.spark.sources.sqljms_log import SqlJmsLog, SqlJmsLogSettings


class SqlJmsSource(LogSource):
    """Consumes a queue, or a topic through its own durable subscription, in lots that stay.

    Register it once for each session (``spark.dataSource.register(SqlJmsSource)``). Options: ``url``,
    ``destination`` and ``subscription``, which are required, and the options of every log, all in
    docs/how-to/read-streams-in-spark.md. :mod:`triggers.spark.sources.message_rows` lists the columns.

    The messages of a batch are claimed under the number of a lot when the batch is planned, and stay until
    Spark reports that the batch is done: a batch that runs again has the same entries. Then they are removed.

    Guarantee: in doubt, or what the sink adds to it (fenced, atomic). By itself: each entry is delivered at
    least once; a batch that Spark runs again has the same entries, and an entry that was removed by others is
    an error.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name for ``format``."""
        return "sqljms"

    def open_log(self, reading: ReadOptions, options: Options) -> SqlJmsLog:
        """Return a connection to the queue or topic.

        Raises:
            ConfigurationError: nothing can be kept there for a query, or it is to begin at the end.
        """
        if reading.from_the_end:
            raise ConfigurationError(
                "startingOffsets", "a queue has no latest", "leave it out: the query gets what waits"
            )
        given = options.needed("destination", "queue://orders")
        destination = Destination.parse(given)
        if destination.is_temporary or not destination.durable:
            raise ConfigurationError(
                "destination", f"{given!r} keeps nothing for a query that is stopped", "use a durable one"
            )
        settings = SqlJmsLogSettings(
            url=options.needed("url", "postgresql://user@host/database"),
            destination=destination,
            subscription=options.needed("subscription", "pipeline"),
            rows_of_a_span=reading.rows_of_a_span,
            fail_on_loss=reading.fail_on_loss,
            patience=reading.patience,
        )
        return SqlJmsLog(settings)

    def reader(self, schema: StructType) -> NoReturn:  # noqa: ARG002
        """Refuse: a read would consume.

        Raises:
            ConfigurationError: always.
        """
        raise ConfigurationError(
            self.name(), "is read by streams alone", "use spark.readStream, or doubtless sqljms show"
        )
