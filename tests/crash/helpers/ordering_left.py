"""The result of an ordered trigger in a crash test: whether each group ran in its order."""

import random
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from history import Message, Parked, ParkedKind
from history.bridge import drive
from tests.crash.victims.ordering_service import DESTINATION, NAME, begun_in, effects_of
from tests.fixtures.histories import with_store
from tests.fixtures.scale import sized
from triggers import open_provider

GROUPS, LENGTH = 20, sized(40, full=100)


@dataclass(frozen=True, slots=True)
class Left:
    """The result: begun messages and effects, by group, in order; and the parked messages."""

    begun: dict[str, list[int]]
    effects: dict[str, list[int]]
    parked: Sequence[Parked]

    def check(self, most_in_doubt: int, *, but_for_the_doubtful: bool = False) -> None:
        """Assert that each group ran in its order, nothing twice, and that nothing is lost.

        ``but_for_the_doubtful`` allows a message that is In Doubt to have happened late.
        """
        assert [one.reason for one in self.parked if one.kind is not ParkedKind.IN_DOUBT] == []
        doubtful = {one.uuid for one in self.parked}
        assert len(doubtful) == len(self.parked) <= most_in_doubt
        for group in map(name_of, range(GROUPS)):
            effects = self.effects[group]
            assert [n for n, times in Counter(effects).items() if times > 1] == [], group
            assert {f"{group}-{n}" for n in set(range(LENGTH)) - set(effects)} <= doubtful, group
            late = doubtful if but_for_the_doubtful else ()
            for order in (effects, self.begun[group]):
                certain = [n for n in order if f"{group}-{n}" not in late]
                assert all(after >= before for before, after in pairwise(certain)), group


def name_of(group: int) -> str:
    return f"g{group}"


def send(url: str, chance: random.Random) -> None:
    """Send messages 0, 1, 2 ... of each group, the groups interleaved at random."""
    turns = [name_of(group) for group in range(GROUPS) for _ in range(LENGTH)]
    chance.shuffle(turns)
    sent: Counter[str] = Counter()
    messages: list[Message] = []
    for group in turns:
        messages.append(
            Message(uuid=f"{group}-{sent[group]}", group_id=group, group_sequence=sent[group], body="")
        )
        sent[group] += 1
    provider = open_provider(url)
    drive(provider.send(DESTINATION, messages))
    drive(provider.close())


def look(folder: Path, history: str) -> Left:
    parked = with_store(history, lambda store: store.parking.list(trigger=NAME, limit=GROUPS * LENGTH))
    by_group: list[dict[str, list[int]]] = []
    for ledger in (begun_in(folder), effects_of(folder)):
        found: dict[str, list[int]] = defaultdict(list)
        for group, number, *_ in ledger.lines():
            found[group].append(int(number))
        by_group.append(found)
    return Left(by_group[0], by_group[1], parked)
