"""The only import of confluent-kafka."""

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from history.errors import ConfigurationError, MissingExtraError

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


#: As Any: confluent-kafka has types for only a part.
driver = cast("Any", confluent_kafka)


def made(
    make: Callable[[dict[str, Any]], Any], settings: Mapping[str, Any], *, chosen: Iterable[str] = ()
) -> Any:
    """Return a client; ``make`` is its class, and the user has ``chosen`` some of its settings.

    Raises:
        ConfigurationError: it refuses a setting, a value, or a file; or two settings contradict each other.
    """
    try:
        return make({**settings, "logger": _QuietLogger()})
    # A share consumer raises a ValueError, and the wrong type of a value is a TypeError or an AttributeError.
    except (driver.KafkaException, ValueError, TypeError, AttributeError) as error:
        reason = error.args[0]
        problem = reason.str() if isinstance(reason, driver.KafkaError) else str(error)
        named = (name for name in (*chosen, *settings) if name in problem)
        field = next(named, ", ".join(chosen) or "provider")  # the client may use another name
        raise ConfigurationError(
            field,
            f"is refused by Kafka's client: {problem}",
            "correct the provider's URL, see the settings of librdkafka (CONFIGURATION.md)",
        ) from None
