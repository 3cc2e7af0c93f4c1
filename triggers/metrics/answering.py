"""Opens an address for monitoring, for a consumer or for a process without one."""

from collections.abc import Generator
from contextlib import contextmanager, nullcontext
from time import monotonic
from typing import TYPE_CHECKING

from triggers.metrics.watched import Watched
from triggers.service.checking import pointing

if TYPE_CHECKING:
    from triggers.metrics.endpoint import Endpoint


def endpoint_of(metrics: str, watched: Watched) -> "Endpoint":
    """Make the endpoint at an address for a consumer.

    Raises:
        ConfigurationError: the address is not valid, or (MissingExtraError) the extra ``metrics`` is missing.
    """
    from triggers.metrics.endpoint import Endpoint, address_of  # noqa: PLC0415  (an extra)
    from triggers.metrics.exposition import ConsumerCollector  # noqa: PLC0415  (an extra)

    with pointing():
        return Endpoint(address_of(metrics), watched, ConsumerCollector(watched))


@contextmanager
def answering(metrics: str | None) -> Generator[Watched]:
    """Answer at an address, if one is given, for a process without triggers, which only sends.

    Its loop sets ``beat`` of the yielded object, to show that it is alive.

    Raises:
        ConfigurationError: as :func:`endpoint_of`.
    """
    watched = Watched([], monotonic())
    with nullcontext() if metrics is None else endpoint_of(metrics, watched):
        yield watched
