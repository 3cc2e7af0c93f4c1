"""Have a consumer answer monitoring at an address, or a process that has none."""

from collections.abc import Generator
from contextlib import contextmanager, nullcontext
from time import monotonic
from typing import TYPE_CHECKING

from triggers.metrics.watched import Watched
from triggers.service.checking import pointing

if TYPE_CHECKING:
    from triggers.metrics.endpoint import Endpoint


def endpoint_of(metrics: str, watched: Watched) -> "Endpoint":
    """Make what answers at an address for a consumer.

    Raises:
        ConfigurationError: it is none, or (MissingExtraError) the extra ``metrics`` is missing.
    """
    from triggers.metrics.endpoint import Endpoint, address_of  # noqa: PLC0415  (an extra)
    from triggers.metrics.exposition import ConsumerCollector  # noqa: PLC0415  (an extra)

    with pointing():
        return Endpoint(address_of(metrics), watched, ConsumerCollector(watched))


@contextmanager
def answering(metrics: str | None) -> Generator[Watched]:
    """Answer at an address, if there is one, for a process without triggers, which only sends.

    Its loop sets ``beat`` of what is yielded, so that it is seen to live.

    Raises:
        ConfigurationError: as of :func:`endpoint_of`.
    """
    watched = Watched([], monotonic())
    with nullcontext() if metrics is None else endpoint_of(metrics, watched):
        yield watched
