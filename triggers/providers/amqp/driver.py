"""The only import of Qpid Proton."""

import sys
from typing import Any, cast

from history.errors import ConfigurationError, MissingExtraError

if sys.version_info >= (3, 14):
    # Proton 0.40 reads a nested body by recursion, and Python 3.14 does not stop it in time.
    raise ConfigurationError(
        "the AMQP 1.0 provider",
        "does not run on Python 3.14: there one message that is nested deeply ends the process",
        "take Python 3.11 to 3.13; RabbitMQ can be reached by rabbitmq:// on 3.14, too",
    )

try:
    import proton
    from proton import reactor
except ImportError as error:
    raise MissingExtraError("the AMQP 1.0 provider", extra="amqp", package="python-qpid-proton") from error

#: As Any: proton has types for only a part.
driver = cast("Any", proton)

#: A separate module of it, which importing proton does not load.
PARTS = (reactor,)
