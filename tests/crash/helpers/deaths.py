"""Where a consumer process is killed, and what must have become of its message in the end."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from history.message import Message
from triggers.pipeline.pipeline import Step


class Path(StrEnum):
    """What the message that is killed over goes through."""

    WORKS = "works"
    FAILS = "fails"
    IN_DOUBT = "in doubt"
    DUPLICATE = "duplicate"


class Inside(StrEnum):
    """The points inside the service between which the effect happens."""

    BEFORE_EFFECT = "before the effect"
    AFTER_EFFECT = "after the effect"


Point = Step | Inside

#: The steps that a message does not reach on each path; every other one is a place to die at.
SKIPPED = {
    Path.WORKS: {Step.PARKED, Step.PUBLISHED},
    Path.FAILS: set[Step](),
    Path.IN_DOUBT: {Step.RUN, Step.COMPLETED, Step.PUBLISHED},
    Path.DUPLICATE: {Step.RUN, Step.PARKED, Step.COMPLETED, Step.PUBLISHED},
}

#: The uuid over which the process is killed; its copy, sent again; and what is sent around the two.
DOOMED = "doomed"
UUIDS = ("first", "second", DOOMED, DOOMED, "last")

#: The place of the doomed message in the order in which messages are received, from 1.
DOOMED_PLACE = UUIDS.index(DOOMED) + 1


@dataclass(frozen=True, slots=True)
class Ending:
    """What there is of the doomed uuid at the end: effects, parked copies, and an event if there must be."""

    effects: int
    parked: int
    event: bool = False

    @property
    def verdict(self) -> str:
        """What the journal must say, whenever its process died: of the copy, if of nothing else."""
        return "in doubt" if self.parked > 1 else "duplicate"


@dataclass(frozen=True, slots=True)
class Death:
    """One process, killed once, with a trigger and a stream of its own."""

    path: Path
    point: Point

    @property
    def name(self) -> str:
        """The trigger's and the stream's name."""
        point = self.point.name if isinstance(self.point, Step) else self.point
        return f"{self.path} {point}".replace(" ", "-").lower()

    def messages(self) -> Sequence[Message]:
        """Return what is sent: the doomed message between others, and again."""
        return [Message(uuid=uuid, body=self.path if uuid == DOOMED else Path.WORKS) for uuid in UUIDS]

    @property
    def ending(self) -> Ending:
        """What the table of :mod:`triggers.pipeline.pipeline` promises."""
        match self.path:
            case Path.IN_DOUBT:
                return Ending(effects=0, parked=2)
            case Path.DUPLICATE:
                return Ending(effects=0, parked=0)
            case Path.WORKS:
                return self._after_a_run(Ending(effects=1, parked=0))
            case Path.FAILS:
                return self._after_a_run(Ending(effects=1, parked=1, event=True))

    def _after_a_run(self, whole: Ending) -> Ending:
        """Return ``whole`` where nothing was claimed yet, or all was completed; else both are In Doubt."""
        match self.point:
            case Step.RECEIVED | Step.COMPLETED | Step.ANSWERED:
                return whole
            case Step.CLAIMED | Step.DECIDED | Inside.BEFORE_EFFECT:
                return Ending(effects=0, parked=2)
            case Step.RUN | Inside.AFTER_EFFECT:
                return Ending(effects=1, parked=2)
            case Step.PUBLISHED | Step.PARKED:
                return Ending(effects=1, parked=2, event=True)


DEATHS = [
    *(Death(path, step) for path, step in itertools.product(Path, Step) if step not in SKIPPED[path]),
    *(Death(path, point) for path, point in itertools.product([Path.WORKS, Path.FAILS], Inside)),
]
