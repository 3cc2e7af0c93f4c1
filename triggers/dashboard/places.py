"""Waiting messages at the providers: read beside the pages, so that no unavailable provider delays them."""

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any

from history.bridge import drive
from history.support.rendering import first_line
from history.support.urls import origin
from triggers.configuration.hiding import hidden
from triggers.consumer.options import AnyTrigger, places_of
from triggers.providers.backlog import Backlog, Place
from triggers.providers.opening import open_provider
from triggers.providers.provider import Provider, capabilities_of

#: How old a shown answer may be before the next request to the provider, in seconds.
FRESH = 2.0

#: How long a page waits for a first answer, in seconds.
PATIENCE = 0.15

#: How long the end waits for the last answers, in seconds.
ENDING = 15.0


@dataclass(frozen=True, slots=True)
class ProviderAnswer:
    """The last answer of one provider.

    ``links`` are the rows of SQL Remote's links. ``problem`` is the reason of a missing answer, after which
    the rest is from the last answer; ``is_silent`` means that it never reports waiting messages. ``at`` is
    the time of the answer, by the monotonic clock; None before the first.
    """

    address: str
    backlogs: Sequence[Backlog] = ()
    links: Sequence[Mapping[str, Any]] = ()
    problem: str | None = None
    is_silent: bool = False
    at: float | None = None


@dataclass(frozen=True, slots=True)
class Waiting:
    """How many messages wait for a trigger, at all its providers; ``is_more``: at least that many."""

    count: int
    is_more: bool = False

    def __str__(self) -> str:
        return f"{self.count:,}{'+' if self.is_more else ''}"


@dataclass(slots=True)
class _Desk:
    """One provider, and the thread that asks it now."""

    url: str
    latest: ProviderAnswer
    provider: Provider | None = None
    asking: "Future[None] | None" = None


class Places:
    """Where triggers receive from, at some providers; safe to share between threads.

    With ``background=False`` each look waits until all providers have answered, for tests.
    """

    def __init__(
        self,
        urls: Sequence[str],
        triggers: Sequence[AnyTrigger],
        *,
        background: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._triggers, self._background, self._clock = triggers, background, clock
        self._places = places_of(triggers)
        self._desks = [
            _Desk(url, ProviderAnswer(address)) for url, address in zip(urls, addresses_of(urls), strict=True)
        ]
        self._lock = Lock()
        self._threads = ThreadPoolExecutor(max(1, len(urls)), thread_name_prefix="places")

    def latest(self) -> Sequence[ProviderAnswer]:
        """Return each provider's last answer, and ask providers again if their answer is old."""
        asking: list[Future[None]] = []
        for desk in self._desks:
            future = self._ask(desk)
            if future is not None and (desk.latest.at is None or not self._background):
                asking.append(future)
        wait(asking, PATIENCE if self._background else None)
        return [desk.latest for desk in self._desks]

    def url_of(self, address: str | None) -> str | None:
        """Return the URL of the provider that is shown with an address."""
        return next((desk.url for desk in self._desks if desk.latest.address == address), None)

    def waiting(self) -> Mapping[str, Waiting]:
        """Return how many messages wait for each trigger, as far as that is known."""
        sums: dict[str, Waiting] = {}
        for backlog in (backlog for answer in self.latest() for backlog in answer.backlogs):
            for name in self.names_of(backlog) if backlog.waiting is not None else ():
                before = sums.get(name, Waiting(0))
                count = before.count + (backlog.waiting or 0)
                sums[name] = Waiting(count, before.is_more or backlog.is_more)
        return sums

    def names_of(self, backlog: Backlog) -> Sequence[str]:
        """Return the names of the triggers that receive from a place."""
        return [
            trigger.name
            for trigger in self._triggers
            if backlog.destination in trigger.destinations and backlog.subscription in {None, trigger.name}
        ]

    def close(self) -> None:
        """Wait for the outstanding answers, and close the connections."""
        wait([desk.asking for desk in self._desks if desk.asking is not None], ENDING)
        self._threads.shutdown(wait=False, cancel_futures=True)
        for desk in self._desks:
            if desk.provider is not None:
                drive(desk.provider.close())

    def _ask(self, desk: _Desk) -> "Future[None] | None":
        with self._lock:
            at = desk.latest.at
            is_fresh = self._background and at is not None and self._clock() - at < FRESH
            if desk.asking is None and not is_fresh:
                desk.asking = self._threads.submit(self._answer, desk)
            return desk.asking

    def _answer(self, desk: _Desk) -> None:
        try:
            if desk.provider is None:
                desk.provider = open_provider(desk.url)
            answer = _asked(desk.latest.address, desk.provider, self._places)
        except Exception as error:  # noqa: BLE001  (any error of a provider is shown, and it is asked again)
            cause = "" if error.__cause__ is None else f": {first_line(error.__cause__)}"
            # What waited when it last answered stays known.
            answer = replace(desk.latest, problem=f"{first_line(error)}{cause}")
        with self._lock:
            desk.latest, desk.asking = replace(answer, at=self._clock()), None


def addresses_of(urls: Sequence[str]) -> Sequence[str]:
    """Return for each URL an address that may be shown, and that no other of the URLs has.

    It is the scheme and the host. If several URLs share these, it is the URL without its secrets, and a
    number if that is shared as well.
    """
    addresses = [origin(url) for url in urls]
    addresses = [
        hidden(url) if addresses.count(address) > 1 else address
        for url, address in zip(urls, addresses, strict=True)
    ]
    return [
        f"{address} ({number})" if addresses.count(address) > 1 else address
        for number, address in enumerate(addresses, 1)
    ]


def _asked(address: str, provider: Provider, places: Sequence[Place]) -> ProviderAnswer:
    from triggers.providers.sqlremote.inspection import status  # noqa: PLC0415  (loads SQLAlchemy)
    from triggers.providers.sqlremote.links import Links  # noqa: PLC0415  (as above)

    if isinstance(provider, Links):
        return ProviderAnswer(address, links=drive(status(provider)))
    telling = capabilities_of(provider).telling_backlog
    if telling is None:
        return ProviderAnswer(address, is_silent=True)
    return ProviderAnswer(address, drive(telling.backlogs(places)))
