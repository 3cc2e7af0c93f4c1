"""Shared parts of the tests of ordered triggers: messages of groups, and a diary of runs in their order."""

import random
import threading
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import pairwise

from triggers import Message, TransientError


def numbered(groups: int, length: int, chance: random.Random) -> list[Message]:
    """Return messages 0, 1, 2 ... of each group, the groups interleaved at random."""
    turns = [group for group in range(groups) for _ in range(length)]
    chance.shuffle(turns)
    sent = [0] * groups
    messages: list[Message] = []
    for group in turns:
        name, number = f"g{group}", sent[group]
        messages.append(Message(uuid=f"{name}-{number}", group_id=name, group_sequence=number, body=""))
        sent[group] += 1
    return messages


@dataclass
class Diary:
    """The runs, in order, by group: the number of the message, and whether it succeeded."""

    runs: dict[str, list[tuple[int, bool]]] = field(
        default_factory=lambda: defaultdict[str, list[tuple[int, bool]]](list)
    )
    at_once: int = 0
    overlapping: list[str] = field(default_factory=list[str])
    _running: set[str] = field(default_factory=set[str])
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def write(self, message: Message, *, fails: bool = False) -> None:
        """Run a message: note its beginning and its end, and fail if it should."""
        self.begin(message)
        self.end(message, ok=not fails)
        if fails:
            raise TransientError("for now")

    @property
    def total(self) -> int:
        with self._lock:
            return sum(ok for runs in self.runs.values() for _, ok in runs)

    def begin(self, message: Message) -> None:
        group = message.group_id or ""
        with self._lock:
            if group in self._running:
                self.overlapping.append(group)
            self._running.add(group)
            self.at_once = max(self.at_once, len(self._running))

    def end(self, message: Message, *, ok: bool) -> None:
        group = message.group_id or ""
        with self._lock:
            self._running.discard(group)
            self.runs[group].append((message.group_sequence or 0, ok))

    def check(self, groups: int, length: int) -> None:
        """Assert that every group ran in its order, one by one, and each message succeeded once."""
        assert (self.overlapping, len(self.runs)) == ([], groups)
        for group, runs in self.runs.items():
            assert [number for number, ok in runs if ok] == list(range(length)), (group, runs)
            assert all(after >= before for (before, _), (after, _) in pairwise(runs)), (group, runs)


class Failing:
    """The messages that fail, and in how many of their first runs."""

    def __init__(self, groups: int, length: int, part: float, chance: random.Random) -> None:
        everything = [f"g{group}-{number}" for group in range(groups) for number in range(length)]
        self.left = {uuid: chance.randint(1, 2) for uuid in everything if chance.random() < part}
        self.total = sum(self.left.values())

    def fails(self, message: Message) -> bool:
        left = self.left.get(message.uuid or "", 0)
        self.left[message.uuid or ""] = max(left - 1, 0)
        return left > 0
