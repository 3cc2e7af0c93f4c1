"""``@foreach_batch``: a function over a DataFrame that is given each row once.

A batch goes through these steps; the driver may die between any two of them, and Spark then calls with the
same batch again. What that finds:

=====  ======================================================  =============================================
step   done                                                    a run that comes after a death behind it finds
=====  ======================================================  =============================================
1      a run of the batch is begun in the ledger               nothing: every row is NEW
2      the executors have claimed and judged the rows          rows that were never handed over: NEW
3      what the table keeps aside is parked, events published  the same, parked again under the same ids
4      the ledger says that the user's function is entered     rows that may be processed: ``on_replay``
5      the user's function has run                             the same
6      the batch is completed and the ledger holds its         duplicates
       counts, with one write
7      the report is there, and Spark commits                  no run: Spark does not call again
=====  ======================================================  =============================================

A row without an identity is kept aside once more each time, for nobody can tell that it has come before.

With ``on_replay="execute"`` the sink is one that is written anew. So a run hands over all rows of its batch,
those that an earlier run has completed too, or none: none where an earlier run has completed the batch and no
row came to it since. And where an earlier run had entered the function and the batch was not completed, it is
called, with an empty frame if need be: what somebody else has processed since must not stay in the sink.

The verdicts are computed once and kept. What is lost with an executor is claimed again under the same token,
and comes out the same; see :mod:`triggers.spark.batch.owners`. Where Spark keeps nothing, what is read again
is what the run owns; see :mod:`triggers.spark.batch.frames`.
"""

import inspect
import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Unpack

from pyspark.sql import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamWriter

from history.errors import ConfigurationError
from history.store.progress import KEPT_BATCHES
from resolvers.bulk import asking_in_bulk
from triggers.service.checking import pointing
from triggers.service.options import check_names, showing_options
from triggers.service.settings import DEFAULT_LEASE
from triggers.spark.batch.batch import Batch, ComesAgainError, RowsInProgressError
from triggers.spark.batch.determinism import PlanCheck
from triggers.spark.batch.leases import with_possible_lease
from triggers.spark.batch.ledger import Ledger, QueryIdentity, identity_of
from triggers.spark.batch.owners import BatchRun
from triggers.spark.batch.purging import Purging
from triggers.spark.batch.steps import BatchObserver, BatchStep
from triggers.spark.batch_info import BatchFunction, given_info
from triggers.spark.connections import FIRST_PAUSE
from triggers.spark.report import BatchReport, RowCounts, tell
from triggers.spark.rows.columns import check_frame
from triggers.spark.settings import BATCH_DEFAULTS, BatchOptions, BatchSettings

#: The longest pause before a batch is begun anew that gave way to another one, in seconds.
LONGEST_PAUSE_TO_GIVE_WAY = 8.0


@showing_options(BatchOptions, BATCH_DEFAULTS)
def foreach_batch(
    destination: str, *, uuid: str, history: str, **options: Unpack[BatchOptions]
) -> Callable[[BatchFunction], "ForeachBatch"]:
    """Make a function of ``(new, batch_id)`` be given each row of a stream once.

    A parameter that is annotated as :class:`~triggers.spark.BatchInfo` is given it, in the place of the batch
    id or besides.

    Args:
        destination: where the messages come from, for events and parked rows.
        uuid: the column with the identity of the event, never of an entity (a customer, an aggregate's key):
            a second row of one entity would be a duplicate. Text, whole numbers or bytes, see
            :mod:`triggers.spark.rows.columns`; where it is null, ``message_id`` is the identity.
        history: the URL of the document history; the executors connect to it, too.
        message_id: the column with the JMSMessageID, if there is one.
        delivery_count: the column with the JMSXDeliveryCount, if there is one; null is undefined.
        body: the column that is the body of a message that is parked or resolved; the whole row by default.
        fingerprint: "body", a column or a list of columns: a row with the uuid of another one and another
            fingerprint is rejected and parked, neither handed over nor taken for a duplicate. A column that
            is null compares nothing. JSON counts by what it says, as of ``@trigger``.
        name: the namespace in the history, shared by all that must not process a row twice; by default
            "module.function".
        query: the name of the query in the batch ledger; by default its queryName, else its id.
        reprocess: a label, such as "2026-11 refill", when rows are wanted once more that the history knows:
            they are under "<name>/<label>" a generation of their own, each once again.
        resolver: asked about rows whose entry is STARTED: per row, per sequence or per DataFrame, see
            :mod:`resolvers.bulk`.
        on_replay: rows that an earlier run of the same batch had handed to the function: "in_doubt" is as
            the decision table has it (the resolver, else In Doubt), "execute" runs them again, for sinks
            that are written anew by batch id: such a run gets all rows of its batch or none, and an empty
            frame where an earlier run was cut off and others have processed all of its rows; a resolver is
            asked about these rows alone.
        committed: a function of ``(batch: BatchInfo)``, for sinks that know which batches they hold. It is
            asked once, on the driver, when a batch comes again whose function an earlier run had entered, and
            when the function fails. True: the batch's rows are completed, and the function is not called.
            False: it is called again with all rows that it had. With it no row of such a batch is In Doubt.
        on_fatal: when the function fails fatally, "raise" fails the query and leaves the batch to its next
            run, where ``on_replay`` decides; "reject" parks the new rows, with an event each, and goes on.
        on_reset: when batch ids go back, "warn" says so and goes on, "raise" fails the query.
        in_doubt: "park" keeps In Doubt rows for a decision, "execute" runs them, "acknowledge" drops them.
        max_delivery_count: rows above it are rejected.
        history_time_to_live: how long an entry is remembered, from the start of its batch.
        lease: for how long a batch is presumed alive, whatever becomes of its driver, which renews it while
            the batch runs. Whoever meets its rows elsewhere meanwhile, a service of the same name or another
            query, waits; the next run of the same batch does not. 30 seconds by default, a third of
            history_time_to_live where that is shorter. None is the reference system's behaviour: such a copy
            is In Doubt at once.
        retry: runs of the function after a transient failure, within the call; none by default.
        transient: exception classes worth another try, besides TransientError and UnavailableError, or a
            function of ``(error)`` that says so, of a failure of Java by :func:`~triggers.spark.causes_of`.
            After one, the batch is released and the query fails; at its next run the rows are NEW. With
            ``committed`` it keeps its rows, and the sink is asked at the next run.
        redact: what takes values, such as card numbers, out of the texts of errors and resolvers before they
            are logged, parked or sent; as of ``@trigger``. Spark itself logs what the query fails with.
        patience: how long driver and executors wait, before the batch fails, for a history that is away and
            for rows that somebody else who is alive processes.
        parking: the URL of the history where rows are kept aside; that of ``history`` by default.
        parked_to: also given what was kept aside, as a DataFrame with ``doubtless_status`` and
            ``doubtless_reason``, and the batch id; again at each run of the batch.
        partitions: in how many partitions the function gets its rows, and how many tasks claim them, unless
            ``claims`` says so; one for each core by default.
        claims: how many tasks claim, each with a connection to the history that it closes at its end; by
            default as many as ``partitions``. The new rows are then brought into these.
        storage: where Spark keeps the rows while the batch is processed. "none" keeps none, and asks the
            history whose they are each time that the function reads them; so does a session that refuses.
        on_batch: given the :class:`~triggers.spark.report.BatchReport` of each batch that was completed, on
            the driver; a death in between leaves it untold.

    Raises:
        ConfigurationError: naming what is wrong and the remedy.
    """
    with pointing():
        check_names("foreach_batch", options, BatchOptions.__annotations__)

    @pointing()
    def decorate(function: BatchFunction) -> "ForeachBatch":
        given: BatchOptions = {"lease": DEFAULT_LEASE, **options}
        settings = BatchSettings.of(destination, given, function, uuid=uuid, history=history)
        return ForeachBatch(function, replace(settings, resolver=asking_in_bulk(options.get("resolver"))))

    return decorate


class ForeachBatch:
    """What ``@foreach_batch`` makes of a function; give it to ``writeStream.foreachBatch``.

    ``reports`` holds a :class:`~triggers.spark.report.BatchReport` for each batch that was completed in this
    process, the last ones only; ``counts`` adds up what they say. :meth:`write_stream` checks the stream's
    columns before anything starts.

    Guarantee: in doubt; atomic, where the function's sink completes the history in its own transaction;
    exactly once with an idempotent sink and ``on_replay="execute"``, or with one that knows its commits and
    ``committed``. The function is never given a row twice
    by itself; after a crash the resolver or a person decides, nothing is lost.
    """

    def __init__(self, function: BatchFunction, settings: BatchSettings) -> None:
        _check_function(function)
        self.observe: BatchObserver | None = None
        self.function = function
        self._call = given_info(function)
        self.settings = settings
        self.reports: deque[BatchReport] = deque(maxlen=KEPT_BATCHES)
        self.counts = RowCounts()
        self._purging = Purging(settings)
        self._plans = PlanCheck(settings.columns)
        self._abandoned: dict[QueryIdentity, tuple[BatchRun, ...]] = {}
        self.__doc__, self.__name__ = function.__doc__, getattr(function, "__name__", "foreach_batch")
        self.__module__ = function.__module__

    @property
    def name(self) -> str:
        """The namespace in the history."""
        return self.settings.name

    def reach(self, step: BatchStep) -> None:
        """Tell the observer, if there is one."""
        if self.observe is not None:
            self.observe(step)

    @property
    def _rows_before(self) -> int | None:
        """How many rows the last batch had that was completed here."""
        return self.reports[-1].rows if self.reports else None

    def __repr__(self) -> str:
        return f"<ForeachBatch {self.name} on {self.settings.trigger.destination}>"

    def write_stream(self, stream: DataFrame) -> DataStreamWriter:
        """Return ``stream.writeStream.foreachBatch(self)``, once the stream has the columns it needs.

        Raises:
            ConfigurationError: naming a column that it lacks, whose type tells no identity, or that
                differs each time that it is computed, such as one by ``uuid()``.
        """
        check_frame(self.settings.columns, stream)
        self._plans.stream(stream)
        return stream.writeStream.foreachBatch(self)

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Take one micro-batch through all of it; Spark calls this.

        Raises:
            ConfigurationError: the stream's columns do not do.
            HistoryUnavailableError: the history stayed away for longer than ``patience``.
            TransientError: so did somebody else with rows of the batch.
            Exception: what the function raised, unless ``on_fatal`` says to reject.
        """
        check_frame(self.settings.columns, batch)
        settings = with_possible_lease(self.settings)
        identity = identity_of(batch, settings.query)
        self._plans.batch(batch, identity.lineage)
        report = self._process(settings, identity, batch, batch_id)
        self.reports.append(report)
        self.counts.add(report)
        self.reach(BatchStep.NOTED)
        tell(report, self.settings.on_batch, self.name)
        self._purging.after(report)

    def _process(
        self, settings: BatchSettings, identity: QueryIdentity, batch: DataFrame, batch_id: int
    ) -> BatchReport:
        """Process a batch; begin it anew while it has to give way to another batch, up to ``patience``."""
        deadline, pause = time.monotonic() + settings.patience.total_seconds(), FIRST_PAUSE
        ledger = Ledger(settings)
        abandoned = self._abandoned.get(identity)
        if abandoned is None:  # two queries may share this object, each in a thread of its own
            abandoned = ledger.abandoned(identity)
            self._abandoned = {identity: abandoned}
        while True:
            record, notes = ledger.begin(identity, batch_id)
            self.reach(BatchStep.BEGUN)
            try:
                one = Batch(self._call, settings, ledger, record, notes, batch, self.reach, abandoned)
                one.rows_before = self._rows_before
                return one.process()
            except ComesAgainError:
                continue
            except RowsInProgressError as error:
                if not error.begin_anew or time.monotonic() + pause > deadline:
                    raise
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_TO_GIVE_WAY)


def _check_function(function: Any) -> None:
    if not callable(function):
        raise ConfigurationError("foreach_batch", f"{function!r:.60} is not callable", "decorate a function")
    if inspect.iscoroutinefunction(function):
        raise ConfigurationError("foreach_batch", "Spark calls no coroutine function", "write a plain one")
