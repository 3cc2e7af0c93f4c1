"""The end of each message of a chaos soak, and the mistakes that the servers' losses do not excuse."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from benchmarks.chaos.ground import Rules
from benchmarks.chaos.remembering import Losses


class Fate(StrEnum):
    """The end of one message."""

    EXECUTED = "executed once"
    DUPLICATE = "duplicates"
    PARKED_WITH_EFFECT = "In Doubt, executed"
    PARKED_WITHOUT_EFFECT = "In Doubt, not executed"
    TWICE_AFTER_LOSS = "executed again: the server lost that it ran"
    LOST_WITH_SERVER = "parked, and lost by the server"
    TWICE = "executed twice, with no excuse"
    LOST = "lost, with no excuse"


#: Mistakes that no loss excuses, and one more mistake if everything is in one transaction.
MISTAKES = (Fate.TWICE, Fate.LOST)
NOT_ATOMIC = (Fate.PARKED_WITH_EFFECT, Fate.PARKED_WITHOUT_EFFECT)


@dataclass(frozen=True, slots=True)
class Account:
    """The effects by uuid and by message, the uuids of what is parked and done, and what the servers lost."""

    effects: Counter[str]
    executed: Collection[str]
    parked: Collection[str]
    completed: Collection[str]
    lost: Losses

    def fates(self, sent: Mapping[str, str]) -> Counter[Fate]:
        """Account for each message sent: its message id and its uuid."""
        return Counter(self._fate(message_id, uuid) for message_id, uuid in sent.items())

    def _fate(self, message_id: str, uuid: str) -> Fate:
        if self.effects[uuid] > 1:
            return Fate.TWICE_AFTER_LOSS if uuid in self.lost.uuids else Fate.TWICE
        executed = message_id in self.executed
        if uuid in self.completed:
            return Fate.EXECUTED if executed else Fate.DUPLICATE
        if uuid in self.parked:
            return Fate.PARKED_WITH_EFFECT if executed else Fate.PARKED_WITHOUT_EFFECT
        if self.effects[uuid]:
            return Fate.EXECUTED if executed else Fate.DUPLICATE
        return Fate.LOST_WITH_SERVER if uuid in self.lost.parked else Fate.LOST


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The events, the end of each message, and the servers' losses."""

    ground: str
    rules: Rules
    seed: int
    seconds: float
    troubles: Counter[str]
    fates: Counter[Fate]
    lost: Losses
    announced: int
    failed: Sequence[str]

    @property
    def mistakes(self) -> Sequence[str]:
        """The mistakes; empty if the promise was kept."""
        return tuple(self._mistakes())

    def _mistakes(self) -> Iterator[str]:
        for fate in (*MISTAKES, *(NOT_ATOMIC if self.rules.atomic else ())):
            if self.fates[fate]:
                yield f"{self.fates[fate]} messages: {fate}"
        if self.announced and not self.lost.uuids and not self.rules.announces_all:
            yield f"a loss was announced {self.announced} times, and no server lost anything"
        yield from self.failed
