"""The one import of confluent-kafka."""

import logging
from typing import Any, cast

from history.errors import MissingExtraError

_log = logging.getLogger(__name__)

try:
    import confluent_kafka
except ImportError as error:
    raise MissingExtraError("the Kafka provider", extra="kafka", package="confluent-kafka") from error


class _QuietLogger:
    """What librdkafka writes about each connection that fails, for who debugs: errors are told by us."""

    def log(self, _level: int, text: str, *words: object) -> None:
        """Write it down at level DEBUG, whatever librdkafka says."""
        _log.debug(text, *words)


QUIET = _QuietLogger()

#: As Any: confluent-kafka is typed for a part only.
driver = cast("Any", confluent_kafka)
