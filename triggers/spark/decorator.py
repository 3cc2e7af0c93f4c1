"""``@foreach_batch``: a function over a DataFrame that receives each row once.

A batch goes through these steps. The driver may die between any two of them, and Spark then calls with the
same batch again. The last column says what that run finds:

=====  ======================================================  =============================================
step   done                                                    a run after a crash behind this step finds
=====  ======================================================  =============================================
1      a run of the batch is begun in the ledger               nothing: every row is NEW
2      the executors have claimed and judged the rows          rows that were never handed over: NEW
3      rows are parked as the table orders, events published   the same, parked again under the same ids
4      the ledger says that the user's function is entered     rows that may be processed: ``on_replay``
5      the user's function has run                             the same
6      the batch is completed and the ledger holds its         duplicates
       counts, with one write
7      the report is there, and Spark commits                  no run: Spark does not call again
=====  ======================================================  =============================================

A row without an identity is parked again each time, because nobody can tell that it has come before.

``on_replay="execute"`` is for a sink that is rewritten by batch. So a run hands over all rows of its batch,
including completed ones, or none. It hands over none if an earlier run has completed the batch and no row was
added since. If an earlier run had entered the function and did not complete the batch, the function is
called, if necessary with an empty frame: rows that others have processed since must not stay in the sink.

The verdicts are computed once and kept. If they are lost with an executor, the rows are claimed again under
the same token, with the same result; see :mod:`triggers.spark.batch.owners`. If Spark keeps nothing, a second
read gives the rows that the run owns; see :mod:`triggers.spark.batch.frames`.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Unpack

from pyspark.sql import DataFrame

from history.errors import ConfigurationError
from resolvers.bulk import asking_in_bulk
from triggers.service.checking import check_callable, check_runs, pointing
from triggers.service.options import check_names, showing_options
from triggers.service.settings import DEFAULT_LEASE
from triggers.spark.batch.batch import Batch, BatchObserver, BatchStep, ComesAgainError, RowsInProgressError
from triggers.spark.batch.leases import with_possible_lease
from triggers.spark.batch.ledger import Ledger, QueryIdentity
from triggers.spark.batch.owners import BatchRun
from triggers.spark.batch_info import BatchFunction, BatchReport, given_info
from triggers.spark.connections import FIRST_PAUSE
from triggers.spark.handler import BatchHandler
from triggers.spark.settings import BATCH_DEFAULTS, BatchOptions, BatchSettings

#: The longest pause before a batch begins again after it gave way to another, in seconds.
LONGEST_PAUSE_TO_GIVE_WAY = 8.0


@showing_options(BatchOptions, BATCH_DEFAULTS)
def foreach_batch(
    destination: str, *, uuid: str, history: str, **options: Unpack[BatchOptions]
) -> Callable[[BatchFunction], "ForeachBatch"]:
    """Make a function of ``(new, batch_id)`` receive each row of a stream once.

    A parameter that is annotated as :class:`~triggers.spark.BatchInfo` receives it, in place of the batch id
    or in addition to it.

    Args:
        destination: where the messages come from, for events and parked rows.
        uuid: the column with the identity of the event, never of an entity (a customer, an aggregate's key):
            a second row of one entity would be a duplicate. Text, whole numbers or bytes, see
            :mod:`triggers.spark.rows.columns`; if it is null, ``message_id`` is the identity.
        history: the URL of the document history; the executors also connect to it.
        message_id: the column with the JMSMessageID, if there is one.
        delivery_count: the column with the JMSXDeliveryCount, if there is one; null is undefined.
        body: the column that is the body of a message that is parked or resolved; the whole row by default.
        fingerprint: "body", a column or a list of columns: a row that has the uuid of another row and another
            fingerprint is rejected and parked. It is not handed over, and does not count as a duplicate. A
            column that is null compares nothing. JSON is compared by its meaning, as with ``@trigger``.
        name: the namespace in the history, shared by all that must not process a row twice; by default
            "module.function".
        query: the name of the query in the batch ledger; by default its queryName, else its id.
        reprocess: a label, such as "2026-11 refill", to process rows again that the history knows. They form
            a separate generation under "<name>/<label>", each row once again.
        resolver: asked about rows with a STARTED entry: per row, per sequence or per DataFrame, see
            :mod:`resolvers.bulk`.
        on_replay: for rows that an earlier run of the same batch had handed to the function. "in_doubt"
            follows the decision table (the resolver, else In Doubt). "execute" runs them again, for sinks
            that are rewritten by batch id: such a run gets all rows of its batch or none, and an empty frame
            if an earlier run was cut off and others have processed all of its rows. A resolver is asked only
            about these rows.
        committed: a function of ``(batch: BatchInfo)``, for sinks that know which batches they hold. It is
            called once, on the driver, when a batch comes again after an earlier run had entered the
            function, and when the function fails. True: the batch's rows are completed, and the function is
            not called. False: the function is called again with all rows that it had. With it no row of such
            a batch is In Doubt.
        on_fatal: when the function fails fatally, "raise" fails the query and leaves the batch to its next
            run, where ``on_replay`` decides; "reject" parks the new rows, with an event each, and goes on.
        on_reset: when batch ids go back, "warn" logs this and goes on, "raise" fails the query.
        in_doubt: "park" keeps In Doubt rows for a decision, "execute" runs them, "acknowledge" drops them.
        max_delivery_count: rows above it are rejected.
        history_time_to_live: how long an entry is remembered, from the start of its batch.
        lease: how long a batch is presumed alive, whatever happens to its driver, which renews it while the
            batch runs. Others that meet its rows meanwhile, a service of the same name or another query,
            wait; the next run of the same batch does not. By default 30 seconds, or a third of
            history_time_to_live if that is shorter. With None, as in webMethods, such a copy is In Doubt
            immediately.
        retry: runs of the function after a transient failure, within the call; none by default.
        transient: exception classes that deserve another try, in addition to TransientError and
            UnavailableError, or a function of ``(error)`` that returns True for them; it reads a failure of
            Java with :func:`~triggers.spark.causes_of`. After such a failure, the batch is released and the
            query fails; at its next run the rows are NEW. With ``committed`` the batch keeps its rows, and
            the next run asks the sink.
        redact: removes values, such as card numbers, from the texts of errors and resolvers before they are
            logged, parked or sent, as with ``@trigger``. Spark itself logs the error with which the query
            fails.
        patience: how long driver and executors wait, before the batch fails, for an unavailable history, and
            for rows that another running process has claimed.
        parking: the URL of the history where rows are parked; the URL in ``history`` by default.
        parked_to: also receives the rows that are parked before the function is called, as a DataFrame with
            ``doubtless_status`` and ``doubtless_reason``, and the batch id; again at each run of the batch.
            Rows that ``on_fatal="reject"`` gives up afterwards are only in the parking lot.
        partitions: in how many partitions the function gets its rows, and how many tasks claim them, unless
            ``claims`` is given; one for each core by default.
        claims: how many tasks claim, each with a connection to the history that it closes at its end; by
            default as many as ``partitions``. The new rows are then brought into these.
        storage: where Spark keeps the rows while the batch is processed. "none" keeps none, and each time
            that the function reads the rows, the history is queried for their owners. A session that refuses
            to keep rows works in the same way.
        on_batch: receives the :class:`~triggers.spark.batch_info.BatchReport` of each completed batch, on
            the driver; after a crash in between, it is not called for this batch.

    Raises:
        ConfigurationError: naming what is wrong and the remedy.
    """
    with pointing():
        check_names("foreach_batch", options, BatchOptions.__annotations__)

    @pointing()
    def decorate(function: BatchFunction) -> "ForeachBatch":
        batch_options: BatchOptions = {"lease": DEFAULT_LEASE, **options}
        settings = BatchSettings.of(destination, batch_options, function, uuid=uuid, history=history)
        return ForeachBatch(function, replace(settings, resolver=asking_in_bulk(options.get("resolver"))))

    return decorate


class ForeachBatch(BatchHandler):
    """Made of a function by ``@foreach_batch``; give it to ``writeStream.foreachBatch``.

    ``reports`` holds a :class:`~triggers.spark.batch_info.BatchReport` for each batch that was completed in
    this process, only the last ones; ``counts`` is their sum. :meth:`write_stream` checks the stream's
    columns before anything starts.

    Guarantee: in doubt; atomic, if the function's sink completes the history in its own transaction; exactly
    once with an idempotent sink and ``on_replay="execute"``, or with a sink that knows its commits and
    ``committed``. doubtless never gives the function a row twice without a decision; after a crash the
    resolver or a person decides, and nothing is lost.
    """

    def __init__(self, function: BatchFunction, settings: BatchSettings) -> None:
        _check_function(function)
        super().__init__(settings)
        self.observe: BatchObserver | None = None
        self.function = function
        self._call = given_info(function)
        self._abandoned: dict[QueryIdentity, tuple[BatchRun, ...]] = {}
        self.__doc__, self.__name__ = function.__doc__, getattr(function, "__name__", "foreach_batch")
        self.__module__ = function.__module__

    def reach(self, step: BatchStep) -> None:
        """Call the observer, if there is one."""
        if self.observe is not None:
            self.observe(step)

    @property
    def _rows_before(self) -> int | None:
        """How many rows the last batch had that was completed here."""
        return self.reports[-1].rows if self.reports else None

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Process one micro-batch; Spark calls this.

        Raises:
            ConfigurationError: the stream's columns do not fit.
            HistoryUnavailableError: the history stayed unavailable for longer than ``patience``.
            TransientError: another process kept rows of the batch for that long.
            Exception: the exception of the function, unless ``on_fatal`` is "reject".
        """
        identity = self._checked(batch)
        report = self._process(with_possible_lease(self.settings), identity, batch, batch_id)
        self._count(report)
        self.reach(BatchStep.NOTED)
        self._end(report)

    def _process(
        self, settings: BatchSettings, identity: QueryIdentity, batch: DataFrame, batch_id: int
    ) -> BatchReport:
        """Process a batch; begin it again if another batch has precedence, up to ``patience``."""
        deadline, pause = time.monotonic() + settings.patience.total_seconds(), FIRST_PAUSE
        ledger = Ledger(settings)
        abandoned = self._abandoned.get(identity)
        if abandoned is None:  # two queries may share this object, each in a separate thread
            abandoned = ledger.abandoned(identity)
            self._abandoned = {identity: abandoned}
        while True:
            record, notes = ledger.begin(identity, batch_id)
            self.reach(BatchStep.BEGUN)
            try:
                run = Batch(self._call, settings, ledger, record, notes, batch, self.reach, abandoned)
                run.rows_before = self._rows_before
                return run.process()
            except ComesAgainError:
                continue
            except RowsInProgressError as error:
                if not error.begin_anew or time.monotonic() + pause > deadline:
                    raise
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_TO_GIVE_WAY)


def _check_function(function: Any) -> None:
    check_callable("foreach_batch", function, "decorate a function")
    if isinstance(function, ForeachBatch):
        problem = f"{function.name} is decorated already"
        raise ConfigurationError("foreach_batch", problem, "decorate the function itself, once")
    check_runs("foreach_batch", function, "write a plain function: Spark awaits none")
