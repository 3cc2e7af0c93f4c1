"""The only import of confluent-kafka."""

import logging
from typing import Any, cast

from history.errors import MissingExtraError

_log = logging.getLogger(__name__)

try:
    import confluent_kafka
except ImportError as error:
    raise MissingExtraError("the Kafka provider", extra="kafka", package="confluent-kafka") from error


class _QuietLogger:
    """Takes librdkafka's log about each failed connection, for debugging: we report the errors ourselves."""

    def log(self, _level: int, text: str, *values: object) -> None:
        """Log it at level DEBUG, whatever level librdkafka gives."""
        _log.debug(text, *values)


QUIET = _QuietLogger()

#: As Any: confluent-kafka has types for only a part.
driver = cast("Any", confluent_kafka)
