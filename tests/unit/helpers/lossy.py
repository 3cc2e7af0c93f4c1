"""A carrier in memory that loses, doubles, reorders and garbles, for tests and first steps.

The caller chooses each message's fate, so that a test can write it down, and a failure can shrink.
"""

from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from itertools import count
from random import Random


class Fate(Enum):
    ARRIVES = "arrives"
    IS_LOST = "is lost"
    IS_DOUBLED = "arrives twice"
    IS_LATE = "arrives some polls later"
    IS_DOUBLED_LATE = "arrives, and once more some polls later"
    OVERTAKES = "arrives before what is there already"
    IS_GARBLED = "arrives with a bit turned"
    IS_CUT_OFF = "arrives with its end missing"


def always_arrives() -> Fate:
    """Return the fate of every message on a carrier without faults."""
    return Fate.ARRIVES


def seeded_fates(seed: int, *, fault_rate: float) -> Callable[[], Fate]:
    """Return fates that are the same for the same seed; about ``fault_rate`` (0 to 1) of them are faults."""
    random = Random(seed)  # noqa: S311 - a test's dice need no secrecy
    faults = [fate for fate in Fate if fate is not Fate.ARRIVES]
    return lambda: random.choice(faults) if random.random() < fault_rate else Fate.ARRIVES


class LossyCarrier:
    """Inboxes by address, in memory; not safe between threads.

    ``fate`` is called once for each message that is put, and may be replaced at any time. A late message
    arrives after ``delay`` readings of its inbox.

    Guarantee: none, on purpose. With :func:`always_arrives`, each message is listed, in order, until deleted.
    """

    def __init__(self, fate: Callable[[], Fate] = always_arrives, *, delay: int = 2) -> None:
        self.fate = fate
        self._delay = delay
        self._names = count()
        self._inboxes: dict[str, dict[str, bytes]] = {}
        self._late: dict[str, list[tuple[int, bytes]]] = {}

    def put(self, address: str, data: bytes) -> None:
        inbox = self._inboxes.setdefault(address, {})
        match self.fate():
            case Fate.ARRIVES:
                self._add(inbox, data)
            case Fate.IS_LOST:
                pass
            case Fate.IS_DOUBLED:
                self._add(inbox, data)
                self._add(inbox, data)
            case Fate.IS_LATE:
                self._late.setdefault(address, []).append((self._delay, data))
            case Fate.IS_DOUBLED_LATE:
                self._add(inbox, data)
                self._late.setdefault(address, []).append((self._delay, data))
            case Fate.OVERTAKES:
                others = dict(inbox)
                inbox.clear()
                self._add(inbox, data)
                inbox.update(others)
            case Fate.IS_GARBLED:
                middle = len(data) // 2
                self._add(inbox, data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :])
            case Fate.IS_CUT_OFF:
                self._add(inbox, data[: len(data) * 2 // 3])

    @property
    def under_way(self) -> int:
        """How many messages wait in the inboxes, or are late."""
        return sum(map(len, self._inboxes.values())) + sum(map(len, self._late.values()))

    def list(self, address: str) -> Sequence[str]:
        """Begin a reading of an inbox: return the names of its messages, in the order of arrival."""
        inbox = self._inboxes.setdefault(address, {})
        waiting = [(polls - 1, data) for polls, data in self._late.pop(address, [])]
        for polls, data in waiting:
            if polls <= 0:
                self._add(inbox, data)
        self._late[address] = [item for item in waiting if item[0] > 0]
        return list(inbox)

    def get(self, address: str, name: str) -> bytes:
        return self._inboxes[address][name]

    def delete(self, address: str, names: Iterable[str]) -> None:
        for name in names:
            self._inboxes.get(address, {}).pop(name, None)

    def close(self) -> None:
        """Do nothing: messages on their way stay, as on a real carrier."""

    def _add(self, inbox: dict[str, bytes], data: bytes) -> None:
        inbox[f"m{next(self._names)}"] = data
