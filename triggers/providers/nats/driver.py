"""The only import of nats-py."""

from typing import Any, cast

from history.errors import MissingExtraError

try:
    import nats
except ImportError as error:
    raise MissingExtraError("the NATS provider", extra="nats", package="nats-py") from error

#: As Any: nats-py has types for only a part.
driver = cast("Any", nats)
