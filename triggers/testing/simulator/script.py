"""A script of one run: numbered points, and the faults at these points.

A run is deterministic: it reaches the same points in the same order until the first fault, so the numbers of
a script mean the same the next time.
"""

import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from types import FrameType
from typing import TYPE_CHECKING, Any, Literal

from history.errors import ConfigurationError, MissingExtraError
from triggers.service.checking import check_whole

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy


#: The kind of the provider's delivery counts: exact, or -1 with every delivery.
Counts = Literal["exact", "undefined"]

#: The fate of plain containers of the service's module when the process dies. With "rests", no process runs
#: for more than a day after each death.
Memory = Literal["dies", "stays", "rests"]

_COUNTS: Mapping[str, Counts] = {"exact": "exact", "undefined": "undefined"}
_MEMORIES: Mapping[str, Memory] = {"dies": "dies", "stays": "stays", "rests": "rests"}

#: How many lines of one call are points; a loop would have far too many.
MOST_LINES = 40


class Fault(StrEnum):
    """The faults that may happen at a point."""

    DIE = "die"
    DIE_AFTER = "die-after"
    AWAY = "away"
    REPLY_LOST = "reply-lost"
    FAIL = "fail"
    COPY = "copy"
    PAUSE = "pause"
    ACKNOWLEDGEMENT_LOST = "ack-lost"
    LATE = "late"
    OVERTAKEN = "overtaken"
    INTERRUPT = "interrupt"
    CANCEL = "cancel"
    AGAIN = "again"

    @property
    def sentence(self) -> str:
        """Say what happens, with the point's name in place of ``{}``."""
        return _SENTENCES[self]


_SENTENCES = {
    Fault.DIE: "the process dies before {}",
    Fault.DIE_AFTER: "the process dies after {}",
    Fault.AWAY: "the history does not answer: {} is not carried out",
    Fault.REPLY_LOST: "the reply to {} is lost; it was carried out",
    Fault.FAIL: "{} fails, and does not happen",
    Fault.COPY: "a copy is delivered to another worker at {}",
    Fault.PAUSE: "the process is paused at {} until its lease is over, and a copy is delivered elsewhere",
    Fault.ACKNOWLEDGEMENT_LOST: "{} is lost: the message is delivered again",
    Fault.LATE: "{} is lost: the message is delivered again much later",
    Fault.OVERTAKEN: "the next message overtakes it",
    Fault.INTERRUPT: "the process receives a KeyboardInterrupt before {}",
    Fault.CANCEL: "the task is cancelled before {}",
    Fault.AGAIN: "the source gives the rows of {} once more, with the next batch",
}


@dataclass(frozen=True, slots=True)
class Point:
    """A point that a run reached: its number, its name, and the faults that may happen there."""

    number: int
    place: str
    faults: tuple[Fault, ...]


@dataclass(frozen=True, slots=True)
class FaultScript:
    """One run: the provider's counts, the memory that outlives a death, and the faults by their points."""

    counts: Counts = "exact"
    memory: Memory = "dies"
    faults: tuple[tuple[int, Fault], ...] = ()

    def at(self, number: int) -> Fault | None:
        """Return what goes wrong at a point."""
        return dict(self.faults).get(number)

    def extended(self, number: int, fault: Fault) -> "FaultScript":
        """Return the same with one more fault, after all others."""
        return FaultScript(self.counts, self.memory, (*self.faults, (number, fault)))

    def __str__(self) -> str:
        return "; ".join([self.counts, self.memory, *(f"{fault}@{number}" for number, fault in self.faults)])

    @classmethod
    def parse(cls, text: str) -> "FaultScript":
        """Read the output of ``str``.

        Raises:
            ConfigurationError: it is not a script.
        """
        try:
            counts, memory, *faults = (part.strip() for part in text.split(";"))
            provider, process = _COUNTS[counts], _MEMORIES[memory]
            read = tuple(
                (int(number), Fault(name)) for name, number in (fault.split("@") for fault in faults)
            )
        except (ValueError, KeyError):
            raise ConfigurationError(
                "script", f"{text!r:.80} is none", "give the text that a report shows: 'exact; dies; die@7'"
            ) from None
        return cls(provider, process, read)


def check_counts(counts: object) -> None:
    """Refuse a value that does not describe delivery counts; None means both.

    Raises:
        ConfigurationError: it does not.
    """
    if counts not in {None, *_COUNTS}:
        raise ConfigurationError(
            "counts", f"{counts!r:.40} is none", 'use "exact", "undefined" or None for both'
        )


def extensions(script: FaultScript, points: Sequence[Point]) -> Sequence[FaultScript]:
    """Return a script with each fault that may follow its last one, on the points that its run reached."""
    last = script.faults[-1][0] if script.faults else -1
    return [
        script.extended(point.number, fault)
        for point in points
        if point.number > last
        for fault in point.faults
    ]


#: The faults to draw; an interrupt is only for handlers that noticed a death, and rows come again only in
#: batches.
_DRAWN = tuple(fault for fault in Fault if fault not in {Fault.INTERRUPT, Fault.AGAIN})


def scripts(*, crashes: int = 2, points: int = 60, counts: Counts | None = None) -> "SearchStrategy[str]":
    """Return a Hypothesis strategy for the ``script=`` of :func:`triggers.testing.exactly_once`.

    Each fault is drawn with a number: it happens at the first possible point from this number on. If there is
    none, the fault does not happen. So every drawn script can run, and Hypothesis finds a small script after
    a large one.

    Args:
        crashes: how many faults a script has at most.
        points: the numbers are drawn below this. A message that is processed immediately has some twenty.
        counts: the provider's delivery counts: "exact", "undefined" (-1), or both.

    Raises:
        ConfigurationError: an argument makes no sense.
        MissingExtraError: ``pip install 'doubtless[contract]'``.
    """
    check_whole("crashes", crashes, 0)
    check_whole("points", points, 1)
    check_counts(counts)
    try:
        from hypothesis import strategies as st  # noqa: PLC0415  (with the extra)
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            "doubtless.testing.scripts", extra="contract", package="hypothesis"
        ) from error
    fault = st.tuples(st.integers(0, points - 1), st.sampled_from(_DRAWN))
    faults = st.lists(fault, max_size=crashes).map(lambda drawn: tuple(sorted(drawn)))
    counted = st.sampled_from(("exact", "undefined")) if counts is None else st.just(counts)
    return st.builds(FaultScript, counted, st.sampled_from(("dies", "stays")), faults).map(str)


@contextmanager
def traced(file: str, come_by: Callable[[str], None]) -> Generator[None]:
    """Call ``come_by`` before each line that runs in functions of a file, while this is entered."""
    left = MOST_LINES

    def trace_line(frame: FrameType, event: str, arg: Any) -> Any:
        nonlocal left
        del arg
        if event == "line" and left > 0:
            left -= 1
            come_by(f"line {frame.f_lineno} of {frame.f_code.co_name}")
        return trace_line

    def trace_call(frame: FrameType, event: str, arg: Any) -> Any:
        del event, arg
        return trace_line if frame.f_code.co_filename == file else None

    before = sys.gettrace()
    sys.settrace(trace_call)
    try:
        yield
    finally:
        sys.settrace(before)
