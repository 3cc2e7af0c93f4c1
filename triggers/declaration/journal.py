"""The journal of a trigger: a line for each message with an unusual verdict.

===================  ===================================================================================
verdict              of a message
===================  ===================================================================================
duplicate            that has run, or that has an effect which the resolver found
in doubt             that may or may not have run; it was parked, or runs nevertheless
rejected             that must not run
given up             that failed for good in its service
late completion      that ran while another owner took its entry over: its end is not recorded
not completed        that ran, but its end could not be recorded
taken over           that ran in place of an earlier run that had begun
resolved             that ran because the resolver said NEW, with a reason
would have been ...  that ran in shadow
===================  ===================================================================================

A line is written when everything is known, and before the message is acknowledged. If a process dies in
between, the next delivery writes another line. Two kinds of messages have no line: those that run as usual,
and those that are recovered and decided later.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field

from history.beside.journal import Journal, JournalLine
from history.beside.kept import needed_beside
from history.opening import open_history
from history.shell import Shell
from history.store import HistoryStore, process_token
from history.support.rendering import text_of
from triggers.declaration.shadow import ShadowDecision
from triggers.detection.table import Decision, Status
from triggers.pipeline.run import RESOLVER_SAYS, Run
from triggers.service.settings import Settings

_log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class JournalKeeper:
    """Writes the lines of a trigger; ``owned`` is the history that was opened for them.

    A failure to write is logged once until a write succeeds again, and changes nothing else.
    """

    trigger: str
    journal: Journal
    owned: HistoryStore | None = None
    _lost: int = field(default=0, init=False)

    async def keep(self, runs: Sequence[Run]) -> None:
        """Write the lines of the runs with an unusual verdict, in one call; most have none."""
        lines = [line for run in runs if (line := line_of(run)) is not None]
        if not lines:
            return
        try:
            await self.journal.append(self.trigger, lines)
        except Exception as error:  # noqa: BLE001  (any error of a store: the verdict stands)
            self._note_loss(len(lines), error)
            return
        if self._lost:
            lost, self._lost = self._lost, 0
            extra = {"trigger": self.trigger}
            _log.warning(
                "the journal of %s is written again; it lacks %d lines", self.trigger, lost, extra=extra
            )

    def _note_loss(self, lines: int, error: Exception) -> None:
        first, self._lost = not self._lost, self._lost + lines
        if first:
            _log.warning(
                "the journal of %s cannot be written, and its messages go on without: %s",
                self.trigger,
                text_of(error),
                extra={"trigger": self.trigger},
            )


def journal_keeper(settings: Settings, store: HistoryStore | None, shell: Shell) -> JournalKeeper:
    """Return the journal's writer, in the trigger's own history or in the history that ``journal=`` names.

    Raises:
        ConfigurationError: the history is missing, it has no journal, or its URL cannot be used.
    """
    owned = None
    if isinstance(settings.journal, str):
        opened = open_history(settings.journal)
        store = owned = opened if shell.blocking else opened.for_asyncio()
    journal = needed_beside(store, "journal", "journal").journal
    return JournalKeeper(trigger=settings.name, journal=journal, owned=owned)


def line_of(run: Run) -> JournalLine | None:
    """Return the line about a message; None if its verdict is usual."""
    verdict, decision = _verdict(run), run.decision
    if verdict is None or decision is None:
        return None
    reason = run.reason
    if isinstance(decision, ShadowDecision):
        reason = "; ".join([decision.verdict, *run.notes])
    return JournalLine(
        verdict=verdict,
        reason=reason,
        uuid=run.message.uuid,
        row=decision.row,
        fence=run.fence,
        delivery_count=run.message.delivery_count,
        by=process_token(),
    )


def _verdict(run: Run) -> str | None:
    decision, end = run.decision, run.end
    if decision is None:
        return None
    if isinstance(decision, ShadowDecision):
        return f"would have been {decision.would_have}"
    if decision.rejected:
        return "rejected"
    if decision.status is Status.DUPLICATE:
        return "duplicate"
    if end is None and run.attempts == 0 and not decision.runs:
        return "in doubt" if decision.status is Status.IN_DOUBT else None
    return _verdict_on_end(run, decision)


def _verdict_on_end(run: Run, decision: Decision) -> str | None:
    """Return the unusual verdict on the end of a message that was to run; None if it is usual."""
    if run.taken_by is not None:
        return "late completion"
    if run.end is not None and run.parks:
        return "given up"
    if run.parked:
        return "not completed"
    if decision.status is Status.IN_DOUBT:
        return "in doubt"
    if run.found is not None:
        return "taken over"
    return "resolved" if any(note.startswith(RESOLVER_SAYS) for note in run.notes) else None
