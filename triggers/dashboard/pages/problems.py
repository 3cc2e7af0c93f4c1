"""What goes wrong now: each problem with its cause, since when, and how many messages it concerns."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from operator import attrgetter

from history.errors import ConfigurationError
from history.store.control import Beat, TriggerState, Trouble, TroubleKind
from triggers.dashboard.places import Waiting
from triggers.dashboard.pulse import Pulse, PulseReading, Source

#: The remedy for each kind of problem, the most urgent first.
REMEDIES: Mapping[str, str] = {
    "history away": "Start it, or restore its network. Nothing is lost, and all goes on without help.",
    "provider away": "Start it, or restore its network. Nothing is lost, and all goes on without help.",
    TroubleKind.NOT_PARKED: "Make room, or restore the place. Until then the messages come again.",
    "suspended": "Remove the cause. If it needs a person: doubtless resume.",
    TroubleKind.FAILING: "Look at the log. Run the parked messages when the cause is gone.",
    TroubleKind.HANGING: "If it never ends: restart the process. Its messages are In Doubt then.",
    "consumer lost": "Look at its service manager. What it held is In Doubt when it comes again.",
    TroubleKind.PARKED_LOCALLY: "On that machine: doubtless parked list --local.",
}

#: The remedy if a history will not answer before somebody corrects it.
CORRECT = "Correct that. The dashboard opens it again each second."


@dataclass(frozen=True, slots=True)
class PageProblem:
    """Something that goes wrong now.

    ``cause`` is for users who see errors, if ``quotes``: it may quote a message. ``open_cause`` is for all.
    ``messages`` says how many it concerns, as far as that is known. ``to_do`` is given if the usual remedy of
    its kind does not help.
    """

    kind: str
    name: str
    cause: str
    since: datetime | None
    messages: str
    quotes: bool = False
    open_cause: str = ""
    to_do: str = ""

    @property
    def remedy(self) -> str:
        """The remedy."""
        return self.to_do or REMEDIES[self.kind]


def problems_of(
    pulse: Pulse, reading: PulseReading | None, waiting: Mapping[str, Waiting]
) -> list[PageProblem]:
    """Return what goes wrong now, the most urgent first.

    Nothing is reported of the consumers of a history that is away: what they said last may be over.
    """
    problems, silent = [_away(source, waiting) for source in pulse.away], pulse.silent
    if reading is not None:
        for name in sorted({beat.report.trigger for beat in reading.overview.beats} - silent):
            problems += _of_trigger(name, reading.overview.running(name), waiting.get(name))
        problems += [_lost(beat) for beat in reading.overview.lost if beat.report.trigger not in silent]
    urgency = list(REMEDIES)
    return sorted(problems, key=lambda problem: (urgency.index(problem.kind), problem.name))


def _away(source: Source, waiting: Mapping[str, Waiting]) -> PageProblem:
    names = source.triggers
    counts = [waiting[name] for name in names if name in waiting]
    return PageProblem(
        "history away",
        ", ".join(names) or "all",
        f"{source.address}: {source.problem}",
        source.away_since,
        _waiting(Waiting(sum(each.count for each in counts), any(each.is_more for each in counts)))
        if counts
        else "not known",
        to_do=CORRECT if isinstance(source.error, ConfigurationError) else "",
    )


def _waiting(waiting: Waiting | None) -> str:
    return "not known" if waiting is None else f"{waiting} waiting"


def _of_trigger(name: str, beats: Sequence[Beat], waiting: Waiting | None) -> Iterator[PageProblem]:
    away = [beat for beat in beats if beat.report.away is not None]
    if away:
        first = min(away, key=lambda beat: beat.away_since or beat.beat_at)
        cause = str(first.report.away)
        waited = _waiting(waiting) if waiting is None else f"{_waiting(waiting)}, as it last said"
        yield PageProblem("provider away", name, cause, first.away_since, waited)
    suspended = [beat for beat in beats if beat.report.state is TriggerState.SUSPENDED]
    if suspended:
        first = min(suspended, key=attrgetter("since"))
        cause = first.report.reason or "no reason is known"
        yield PageProblem("suspended", name, cause, first.since, _waiting(waiting), quotes=True)
    for kind in TroubleKind:
        troubles = ((beat, trouble) for beat in beats for trouble in beat.report.troubles)
        reported = [pair for pair in troubles if pair[1].kind is kind]
        if reported:
            yield _of_consumers(name, kind, reported)


def _of_consumers(name: str, kind: TroubleKind, reported: Sequence[tuple[Beat, Trouble]]) -> PageProblem:
    """Return one problem for the reports of several consumers on one trouble."""
    since = min(beat.beat_at - timedelta(seconds=trouble.elapsed) for beat, trouble in reported)
    count = sum(trouble.count for _, trouble in reported)
    cause = max(reported, key=lambda pair: pair[0].beat_at)[1].cause
    quotes = kind is not TroubleKind.HANGING
    word = cause.partition(": ")[0] if kind is TroubleKind.FAILING else ""
    said = {
        TroubleKind.FAILING: f"{count:,} failed",
        TroubleKind.HANGING: f"{count:,} in progress",
        TroubleKind.NOT_PARKED: f"{count:,} given back",
        TroubleKind.PARKED_LOCALLY: f"{count:,} parked",
    }
    return PageProblem(str(kind), name, cause, since, said[kind], quotes=quotes, open_cause=word)


def _lost(beat: Beat) -> PageProblem:
    busy = beat.report.busy
    cause = f"{beat.report.consumer} reports no more, and has said no goodbye"
    in_hands = f"{busy:,} or more in its hands" if busy else "none is known"
    return PageProblem("consumer lost", beat.report.trigger, cause, beat.beat_at, in_hands)
