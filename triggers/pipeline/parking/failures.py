"""Keep why a transacted service failed for good, until its message comes again and is given up.

Another process may get that delivery. So the failure is stored beside the entry, apart from results, where
the guard of HTTP stores its answers. Both steps help the person who looks at the parked message. An error in
one of them is logged, and changes nothing else.
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


async def keep_failures(
    runs: Sequence[Run], settings: Settings, store: HistoryStore | None, *, committed: bool = False
) -> None:
    """Store the failure of each of these runs whose message will be given up at its next delivery.

    ``committed`` means that their entries are already completed. Then the fence is read from the entry: a
    history that settles most messages without an entry has claimed under another one.
    """
    for run in runs:
        after, fence, uuid = run.aftermath, run.fence, run.message.uuid
        if after is None or after.entry is not EntryOutcome.FAILED or after.answer is not Answer.RECOVER:
            continue
        failures, failure = _failures_in(store), run.failure
        if store is None or failures is None or failure is None or uuid is None or fence is None:
            continue
        try:
            if committed and (entry := (await store.lookup(settings.name, [uuid]))[0]) is not None:
                fence = entry.fence
            kept = KeptResult(fence, encode_failure(failure))
            await failures.put(settings.name, uuid, kept, settings.history_time_to_live)
        except Exception as error:  # noqa: BLE001  (any error of a store)
            _warn(run, error, settings.name)


async def recall_failures(runs: Sequence[Run], settings: Settings, store: HistoryStore | None) -> None:
    """Give the failure to each of these runs that is given up because an earlier delivery failed."""
    for run in runs:
        decision, entry, uuid = run.decision, run.found, run.message.uuid
        if decision is None or decision.cause is not Cause.FAILED_BEFORE or entry is None or uuid is None:
            continue
        if (failures := _failures_in(store)) is None:
            continue
        try:
            kept = await failures.get(settings.name, uuid)
            if kept is not None and entry.is_of(kept.fence):
                run.failed_before = decode_failure(kept.data)
        except Exception as error:  # noqa: BLE001  (as above)
            _warn(run, error, settings.name)


def _failures_in(store: HistoryStore | None) -> Results | None:
    beside = beside_of(store)
    return None if beside is None else beside.failures


def _warn(run: Run, error: Exception, trigger: str) -> None:
    extra = {"trigger": trigger, "uuid": run.message.uuid}
    text = run.text_of(error)
    _log.warning("%s: its parked copy will not name its failure: %s", run.named, text, extra=extra)
