"""The steady state of a consumer on a broker: from the first message that is worked on to the last."""

import time
from dataclasses import dataclass, field
from itertools import count

_NUMBERS = count()


@dataclass(slots=True)
class Steady:
    """When the messages of one competitor's destination were worked on."""

    destination: str = field(default_factory=lambda: f"consumed-{next(_NUMBERS)}")
    times: list[float] = field(default_factory=list[float])

    def note(self) -> None:
        """Note that a message is worked on."""
        self.times.append(time.perf_counter())

    @property
    def seconds(self) -> float:
        """What one message took."""
        return (self.times[-1] - self.times[0]) / (len(self.times) - 1)
