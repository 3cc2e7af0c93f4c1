"""The points at which a consumer process is killed, and the necessary state of its message at the end."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from history.message import Message
from triggers.pipeline.pipeline import Step


class Path(StrEnum):
    """The path of the message during which the process is killed."""

    WORKS = "works"
    FAILS = "fails"
    IN_DOUBT = "in doubt"
    DUPLICATE = "duplicate"


class Inside(StrEnum):
    """The points inside the service between which the effect happens."""

    BEFORE_EFFECT = "before the effect"
    AFTER_EFFECT = "after the effect"


Point = Step | Inside

#: The steps that a message does not reach on each path; a process can die at every other step.
SKIPPED = {
    Path.WORKS: {Step.PARKED, Step.PUBLISHED},
    Path.FAILS: set[Step](),
    Path.IN_DOUBT: {Step.RUN, Step.COMPLETED, Step.PUBLISHED},
    Path.DUPLICATE: {Step.RUN, Step.PARKED, Step.COMPLETED, Step.PUBLISHED},
}

#: The uuid during which the process is killed; its copy, sent again; and the messages around the two.
DOOMED = "doomed"
UUIDS = ("first", "second", DOOMED, DOOMED, "last")

#: The place of the doomed message in the order of receipt, from 1.
DOOMED_PLACE = UUIDS.index(DOOMED) + 1


@dataclass(frozen=True, slots=True)
class Ending:
    """The state of the doomed uuid at the end: effects, parked copies, and an event if one is necessary."""

    effects: int
    parked: int
    event: bool = False

    @property
    def verdict(self) -> str:
        """The verdict that the journal must have, whenever its process died: at least on the copy."""
        return "in doubt" if self.parked > 1 else "duplicate"


@dataclass(frozen=True, slots=True)
class Death:
    """One process, killed once, with its own trigger and stream."""

    path: Path
    point: Point

    @property
    def name(self) -> str:
        point = self.point.name if isinstance(self.point, Step) else self.point
        return f"{self.path} {point}".replace(" ", "-").lower()

    def messages(self) -> Sequence[Message]:
        """Return the messages to send: the doomed message between others, and its copy."""
        return [Message(uuid=uuid, body=self.path if uuid == DOOMED else Path.WORKS) for uuid in UUIDS]

    @property
    def ending(self) -> Ending:
        """The ending that the table of :mod:`triggers.pipeline.pipeline` promises."""
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
        """Return ``whole`` if nothing was claimed yet, or all was completed; else both are In Doubt."""
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
