"""Keep why a transacted service failed for good, until its message comes again and is given up.

Another process may get that delivery. So the failure is stored beside the entry, like a kept result. Both
steps help the person who looks at the parked message. An error in one of them is logged, and changes nothing
else.
"""

import logging
from collections.abc import Sequence

from history.beside.kept import beside_of
from history.beside.results import KeptResult, Results
from history.entry import EntryOutcome
from history.store import HistoryStore
from triggers.detection.causes import Cause
from triggers.detection.table import Answer
from triggers.pipeline.run import Run
from triggers.service.keeping import decode_failure, encode_failure
from triggers.service.settings import Settings

_log = logging.getLogger(__name__)


async def keep_failures(runs: Sequence[Run], settings: Settings, store: HistoryStore | None) -> None:
    """Store the failure of each of these runs whose message will be given up at its next delivery."""
    for run in runs:
        after, failure, uuid = run.aftermath, run.failure, run.message.uuid
        if after is None or after.entry is not EntryOutcome.FAILED or after.answer is not Answer.RECOVER:
            continue
        results = _results_in(store)
        if results is None or failure is None or uuid is None or run.fence is None:
            continue
        kept = KeptResult(run.fence, encode_failure(failure))
        try:
            await results.put(settings.name, uuid, kept, settings.history_time_to_live)
        except Exception as error:  # noqa: BLE001  (any error of a store)
            _warn(run, error, settings.name)


async def recall_failures(runs: Sequence[Run], settings: Settings, store: HistoryStore | None) -> None:
    """Give the failure to each of these runs that is given up because an earlier delivery failed."""
    for run in runs:
        decision, entry, uuid = run.decision, run.found, run.message.uuid
        if decision is None or decision.cause is not Cause.FAILED_BEFORE or entry is None or uuid is None:
            continue
        if (results := _results_in(store)) is None:
            continue
        try:
            kept = await results.get(settings.name, uuid)
            if kept is not None and entry.is_of(kept.fence):
                run.failed_before = decode_failure(kept.data)
        except Exception as error:  # noqa: BLE001  (as above)
            _warn(run, error, settings.name)


def _results_in(store: HistoryStore | None) -> Results | None:
    beside = None if store is None else beside_of(store)
    return None if beside is None else beside.results


def _warn(run: Run, error: Exception, trigger: str) -> None:
    extra = {"trigger": trigger, "uuid": run.message.uuid}
    text = run.text_of(error)
    _log.warning("%s: its parked copy will not name its failure: %s", run.named, text, extra=extra)
