"""Keep the result of the first run before its entry is completed, and give it to its duplicates.

The result is what the service returned. If the service failed for good, it is the class and text of the
exception.

It is kept first because a process may die in between. Then nobody reads the result, because its fence is not
the fence of a completed entry. So every completed entry has its result, or the reason was logged.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field

from history.beside.results import KeptResult, Results
from history.entry import EntryOutcome
from triggers.pipeline.completion import EntryCompletion
from triggers.pipeline.duplicates import is_duplicate
from triggers.pipeline.run import Run
from triggers.service.binding import Binding
from triggers.service.keeping import (
    Keep,
    NotKeptError,
    decode_failure,
    decode_result,
    encode_failure,
    encode_result,
)
from triggers.service.settings import Settings

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultKeeper:
    """Keeps the results of a trigger's runs; ``binding`` is the binding of the trigger's own service."""

    settings: Settings
    keep: Keep
    results: Results
    binding: Binding
    _said: set[str] = field(default_factory=set[str])

    async def keep_results(self, runs: Sequence[Run]) -> None:
        """Keep the results of these runs; a failure is logged, and changes nothing else."""
        for run in runs:
            end = run.end
            entry_kind = None if end is None else end.aftermath.entry
            if end is not None and entry_kind is not None and run.fence is not None and run.message.uuid:
                try:
                    failure = run.failure
                    data = (
                        encode_result(end.result, self.keep.limit)
                        if failure is None
                        else encode_failure(failure)
                    )
                    lasting = self.keep.for_ or self.settings.history_time_to_live
                    kept = KeptResult(run.fence, data)
                    await self.results.put(self.settings.name, run.message.uuid, kept, lasting)
                except NotKeptError as error:
                    self._say_once(run, run.text_of(error))
                except Exception as error:  # noqa: BLE001  (the service has run: it must be completed)
                    self._warn(run, run.text_of(error))

    async def recall(self, runs: Sequence[Run]) -> None:
        """Give duplicates the result of the run that completed their entry, and of no other run."""
        for run in runs:
            if is_duplicate(run) and run.found is not None and run.message.uuid:
                try:
                    kept = await self.results.get(self.settings.name, run.message.uuid)
                    if kept is None or not run.found.is_of(kept.fence):
                        continue
                    if run.found.outcome is EntryOutcome.FAILED:
                        run.failed_before = decode_failure(kept.data)
                        continue
                    binding = run.binding or self.binding
                    run.kept = (decode_result(kept.data, binding.result_adapter),)
                except NotKeptError as error:
                    self._warn(run, f"what was kept cannot be read: {run.text_of(error)}")
                except Exception as error:  # noqa: BLE001  (a duplicate without its result is a duplicate)
                    self._warn(run, f"what was kept cannot be had: {run.text_of(error)}")

    def _say_once(self, run: Run, problem: str) -> None:
        """Log a problem once, because every message of a trigger may have it."""
        problem_kind = problem.partition("(")[0]
        if problem_kind not in self._said:
            self._said.add(problem_kind)
            self._warn(run, f"{problem}; logged once")

    def _warn(self, run: Run, problem: str) -> None:
        extra = {"trigger": self.settings.name, "uuid": run.message.uuid}
        _log.warning("%s: its result is not kept: %s", run.named, problem, extra=extra)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepingCompletion(EntryCompletion):
    """Keeps the results of runs, then completes their entries."""

    keeper: ResultKeeper

    async def settle(self, runs: Sequence[Run]) -> Sequence[Run]:
        """Keep results, and record how the claimed runs ended."""
        await self.keeper.keep_results(runs)
        return await EntryCompletion.settle(self, runs)
