"""Build a pipeline from a trigger's settings, its service and a history."""

import asyncio
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from history.beside.kept import beside_of, needed_beside
from history.errors import ConfigurationError
from history.memory.history import MemoryHistory
from history.opening import open_history
from history.shell import Shell, TaskShell, ThreadShell
from history.store import HistoryStore
from resolvers.resolution import AskedResolver
from triggers.pipeline.atomic import transactions_of
from triggers.pipeline.bodies import Bodies, keeper_of
from triggers.pipeline.completion import EntryCompletion
from triggers.pipeline.execution import ServiceExecution
from triggers.pipeline.joining.joins import with_join
from triggers.pipeline.judge import Judge
from triggers.pipeline.leases import LeaseKeeper
from triggers.pipeline.parking.lot import ParkingLot
from triggers.pipeline.pipeline import MessagePipeline, Observer
from triggers.pipeline.protocol import Pipeline
from triggers.pipeline.routing import Routing
from triggers.pipeline.undecided import UndecidedClaims
from triggers.service.binding import Binding
from triggers.service.fingerprints import read_fingerprint
from triggers.service.identity import read_identity
from triggers.service.settings import Settings

if TYPE_CHECKING:
    from triggers.declaration.journal import JournalKeeper
    from triggers.declaration.results import ResultKeeper
    from triggers.service.tracing import Spans


@dataclass(frozen=True, slots=True)
class Parts:
    """The common parts of all pipelines of a trigger."""

    settings: Settings
    binding: Binding
    resolver: AskedResolver | None
    routing: Routing
    undecided: UndecidedClaims = field(default_factory=UndecidedClaims)

    def assemble(
        self,
        opened: HistoryStore | None,
        observe: Observer | None = None,
        loop: asyncio.AbstractEventLoop | None = None,
        *,
        owned: bool = False,
    ) -> Pipeline:
        """Return a pipeline over a history; with a ``loop``, in its asyncio form.

        ``owned`` means that the history was opened for this pipeline, which must close it.

        Raises:
            ConfigurationError: the service asks for something that this history does not have.
        """
        shell: Shell = ThreadShell() if loop is None else TaskShell()
        store = opened if opened is None or shell.blocking else opened.for_asyncio()
        service = ServiceExecution(settings=self.settings, binding=self.binding, shell=shell)
        leases = self._keeper(opened, store, loop)
        identity = self.settings.uuid
        keeper = self._result_keeper(store)
        journal = self._journal_keeper(store, shell)
        pipeline = MessagePipeline(
            settings=self.settings,
            execution=service,
            judge=Judge(
                settings=self.settings,
                store=store,
                resolver=self.resolver,
                leases=leases,
                undecided=self.undecided,
                bodies=self._bodies(store),
            ),
            completion=_completion(self.settings, store, shell, keeper),
            lot=_open_lot(self.settings, store, shell),
            shell=shell,
            transactions=transactions_of(self.settings, self.binding, store, shell),
            routing=self.routing,
            identify=None if identity is None else read_identity(identity, self.settings.max_body_size),
            observe=observe,
            recall=None if keeper is None else keeper.recall,
            witness=None if journal is None else journal.keep,
            spans=self._spans(),
            owned=[
                *_owned(opened, store, leases, owned=owned),
                *([] if journal is None or journal.owned is None else [journal.owned]),
            ],
        )
        return with_join(_in_shadow(pipeline) if self.settings.shadow else pipeline, service)

    def _result_keeper(self, store: HistoryStore | None) -> "ResultKeeper | None":
        """Return the object that keeps results; None if they are not kept.

        Raises:
            ConfigurationError: the history is missing, or it cannot keep results.
        """
        keep = self.settings.keep
        if keep is None:
            return None
        from triggers.declaration.results import ResultKeeper  # noqa: PLC0415  (few want it)

        results = needed_beside(store, "keep_result", "results").results
        return ResultKeeper(settings=self.settings, keep=keep, results=results, binding=self.binding)

    def _journal_keeper(self, store: HistoryStore | None, shell: Shell) -> "JournalKeeper | None":
        """Return the object that writes the journal; None without a journal.

        Raises:
            ConfigurationError: the history is missing, it has no journal, or its URL cannot be used.
        """
        if self.settings.journal is False:
            return None
        from triggers.declaration.journal import journal_keeper  # noqa: PLC0415  (few want it)

        return journal_keeper(self.settings, store, shell)

    def _spans(self) -> "Spans | None":
        """Return the object that traces messages; None if they are not traced.

        Raises:
            MissingExtraError: OpenTelemetry is not installed.
        """
        if not self.settings.tracing:
            return None
        from triggers.service.tracing import Spans  # noqa: PLC0415  (loads OpenTelemetry)

        return Spans(self.settings.name, self.settings.destination, self.settings.redaction)

    def _bodies(self, store: HistoryStore | None) -> Bodies | None:
        """Return the object that compares the bodies of one uuid; None if they are not compared.

        Raises:
            ConfigurationError: the history is missing, or it stores no fingerprints.
        """
        read = read_fingerprint(self.settings.fingerprint)
        if read is None:
            return None
        return Bodies(settings=self.settings, kept=keeper_of(store), read=read)

    def _keeper(
        self, opened: HistoryStore | None, used: HistoryStore | None, loop: asyncio.AbstractEventLoop | None
    ) -> LeaseKeeper | None:
        """Return the keeper of the leases. An atomic trigger has none: its claims are visible to nobody."""
        lease = self.settings.lease
        detects = self.settings.policy.detect_duplicates
        if lease is None or opened is None or self.binding.resources or not detects:
            return None
        blocks = loop is None or opened is not used or isinstance(opened, MemoryHistory)
        return LeaseKeeper(self.settings.name, lease, opened, None if blocks else loop)


def _owned(
    opened: HistoryStore | None, used: HistoryStore | None, leases: LeaseKeeper | None, *, owned: bool
) -> list[HistoryStore]:
    """Return the histories that the pipeline closes; it made the asyncio form of a given history itself."""
    stores: list[HistoryStore] = []
    if owned and leases is not None and leases.store is not used:
        stores.append(leases.store)
    if used is not None and (owned or used is not opened):
        stores.append(used)
    return stores


def _open_lot(settings: Settings, store: HistoryStore | None, shell: Shell) -> ParkingLot:
    option, file, owned = settings.parking, settings.local_parking_file, None
    if isinstance(option, str):
        opened = _opened_for_parking(option)
        owned = store = opened if shell.blocking else opened.for_asyncio()
        option = None
    if option is None and (kept := beside_of(store)) is not None:
        option = kept.parking
    return ParkingLot(option, file, owned=owned)


def _opened_for_parking(url: str) -> HistoryStore:
    try:
        return open_history(url)
    except ConfigurationError as error:
        if error.setting != "history":
            raise
        raise ConfigurationError("parking", error.problem, error.remedy) from error


def _completion(
    settings: Settings, store: HistoryStore | None, shell: Shell, keeper: "ResultKeeper | None"
) -> EntryCompletion:
    if keeper is None:
        return EntryCompletion(settings=settings, store=store, sleep=shell.sleep)
    from triggers.declaration.results import KeepingCompletion  # noqa: PLC0415  (as above)

    return KeepingCompletion(settings=settings, store=store, sleep=shell.sleep, keeper=keeper)


def _in_shadow(pipeline: MessagePipeline) -> MessagePipeline:
    """Return a pipeline with the same parts that judges messages, and stops none."""
    from triggers.declaration import shadow  # noqa: PLC0415  (few want it)

    parts: dict[str, Any] = {field.name: getattr(pipeline, field.name) for field in fields(pipeline)}
    completion = shadow.ShadowCompletion(
        settings=pipeline.settings, store=pipeline.store, sleep=pipeline.shell.sleep
    )
    parts |= {"judge": shadow.ShadowJudge(**pipeline.judge.parts), "completion": completion}
    return shadow.ShadowPipeline(**parts, tally=shadow.ShadowTally(pipeline.settings.name))
