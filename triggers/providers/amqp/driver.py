"""The one import of Qpid Proton."""

from typing import Any, cast

from history.errors import MissingExtraError

try:
    import proton
    from proton import reactor
except ImportError as error:
    raise MissingExtraError("the AMQP 1.0 provider", extra="amqp", package="python-qpid-proton") from error

#: As Any: proton is typed for a part only.
driver = cast("Any", proton)

#: A part of it that is a module of its own, which importing proton alone does not load.
PARTS = (reactor,)
