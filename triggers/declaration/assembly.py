"""Putting a pipeline together from a trigger's settings, its service and a history."""

import asyncio
import time
from dataclasses import dataclass

from history.memory.history import MemoryHistory
from history.opening import open_history
from history.store import HistoryStore
from resolvers.resolution import AskedResolver
from triggers.pipeline.atomic import transactions_of
from triggers.pipeline.completion import Completion
from triggers.pipeline.execution import Execution
from triggers.pipeline.joining.joins import with_join
from triggers.pipeline.judge import Judge
from triggers.pipeline.leases import LeaseKeeper
from triggers.pipeline.parking_lot import ParkingLot
from triggers.pipeline.pipeline import Observer, Pipeline
from triggers.pipeline.routing import Routing
from triggers.service.binding import Binding
from triggers.service.settings import Settings


@dataclass(frozen=True, slots=True)
class Parts:
    """What all pipelines of a trigger have in common."""

    settings: Settings
    binding: Binding
    resolver: AskedResolver | None
    routing: Routing

    def assemble(
        self,
        opened: HistoryStore | None,
        observe: Observer | None = None,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> Pipeline:
        """Return a pipeline over a history, in its asyncio form where there is a ``loop``.

        Raises:
            ConfigurationError: the service asks for what this history does not have.
        """
        blocking = loop is None
        store = opened if opened is None or blocking else opened.for_asyncio()
        sleep = time.sleep if blocking else asyncio.sleep
        pipeline = Pipeline(
            settings=self.settings,
            execution=Execution(
                settings=self.settings,
                binding=self.binding,
                sleep=sleep,
                blocking=blocking,
            ),
            judge=Judge(
                settings=self.settings,
                store=store,
                resolver=self.resolver,
                blocking=blocking,
                leases=self._keeper(opened, store, loop),
            ),
            completion=Completion(settings=self.settings, store=store, sleep=sleep),
            lot=_open_lot(self.settings, store, blocking=blocking),
            blocking=blocking,
            transactions=transactions_of(self.settings, self.binding, store, blocking=blocking),
            routing=self.routing,
            observe=observe,
        )
        return with_join(pipeline)

    def _keeper(
        self,
        opened: HistoryStore | None,
        used: HistoryStore | None,
        loop: asyncio.AbstractEventLoop | None,
    ) -> LeaseKeeper | None:
        """Return the keeper of the leases; an atomic trigger has none: nobody sees what it has claimed."""
        lease = self.settings.lease
        detects = self.settings.policy.detect_duplicates
        if lease is None or opened is None or self.binding.resources or not detects:
            return None
        blocks = loop is None or opened is not used or isinstance(opened, MemoryHistory)
        return LeaseKeeper(self.settings.name, lease, opened, None if blocks else loop)


def _open_lot(settings: Settings, store: HistoryStore | None, *, blocking: bool) -> ParkingLot:
    given, file = settings.parking, settings.local_parking_file
    if isinstance(given, str):
        opened = open_history(given) if blocking else open_history(given).for_asyncio()
        return ParkingLot(opened.parking, file, owned=opened)
    beside = None if store is None else store.parking
    return ParkingLot(beside if given is None else given, file)
