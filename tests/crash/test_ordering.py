"""An ordered trigger in four processes, whose active one is killed or frozen: every group keeps its order."""

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from subprocess import Popen
from typing import Any, cast

import pytest
import redis

from history.bridge import drive
from history.message import Message
from history.opening import open_history
from history.store.parking import Parked, ParkedKind
from tests.crash.helpers.ordering_fleet import OrderingFleet
from tests.crash.victims.ordering_service import CONCURRENCY, DESTINATION, NAME, begun_in, effects_of
from tests.fixtures.scale import sized
from triggers.providers.opening import open_provider

pytestmark = [pytest.mark.crash, pytest.mark.prove, pytest.mark.timeout(400)]

GROUPS, LENGTH, PROCESSES = 20, sized(40, full=100), 4

#: The provider does not find out by itself that a process is gone: the lease does.
SLOW = "?claim_idle=60&reclaim_interval=0.2"


@dataclass(frozen=True, slots=True)
class Left:
    """What is left: what was begun and what has happened, by group, in order; and what is parked."""

    begun: dict[str, list[int]]
    effects: dict[str, list[int]]
    parked: Sequence[Parked]

    def check(self, most_in_doubt: int, *, but_for_the_doubtful: bool = False) -> None:
        """Say that each group was run in its order, nothing twice, and that nothing is lost.

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


def is_done(client: Any) -> bool:
    """Whether the stream is read and acknowledged."""
    groups = client.xinfo_groups(DESTINATION)
    last = client.xinfo_stream(DESTINATION)["last-generated-id"]
    return bool(groups) and not groups[0]["pending"] and groups[0]["last-delivered-id"] == last


def look(folder: Path, history: str) -> Left:
    store = open_history(history)
    parked = drive(store.parking.list(trigger=NAME, limit=GROUPS * LENGTH))
    drive(store.close())
    by_group: list[dict[str, list[int]]] = []
    for ledger in (begun_in(folder), effects_of(folder)):
        found: dict[str, list[int]] = defaultdict(list)
        for group, number, *_ in ledger.lines():
            found[group].append(int(number))
        by_group.append(found)
    return Left(by_group[0], by_group[1], parked)


def run(
    folder: Path,
    url: str,
    history: str,
    hits: int,
    hit: Callable[[OrderingFleet, Popen[bytes]], None],
) -> Left:
    """Send, and hit the active process so often; return what is left."""
    # pytest-randomly prints what this comes from.
    chance = random.Random(random.randrange(2**32))  # noqa: S311  (no secret)
    send(url, chance)
    due = sorted(chance.sample(range(1, GROUPS * LENGTH * 9 // 10), hits))
    client = cast("Any", redis.Redis).from_url(url)
    fleet = OrderingFleet(
        folder=folder,
        effects=effects_of(folder),
        provider=url + SLOW,
        history=history,
        processes=PROCESSES,
        is_done=lambda: is_done(client),
    )
    with client, fleet:
        fleet.hit_until_done(due, hit)
        fleet.drain()
    assert fleet.hits == hits
    return look(folder, history)


@pytest.mark.parametrize("store", ["redis", "postgres"])
def test_groups_keep_their_order_whenever_the_active_process_is_killed(
    store: str, tmp_path: Path, redis_url: str, request: pytest.FixtureRequest
) -> None:
    history = redis_url if store == "redis" else cast("str", request.getfixturevalue("postgres_url"))
    kills = sized(4, full=10)

    left = run(tmp_path, redis_url, history, kills, OrderingFleet.kill)

    left.check(most_in_doubt=kills * CONCURRENCY)
    assert len(left.begun) == GROUPS


def test_groups_keep_their_order_when_the_active_process_is_frozen_and_comes_back(
    tmp_path: Path, redis_url: str
) -> None:
    freezes = sized(2, full=4)

    left = run(tmp_path, redis_url, redis_url, freezes, OrderingFleet.freeze)

    # What was running at that moment ends after the process has come back.
    left.check(most_in_doubt=freezes * CONCURRENCY, but_for_the_doubtful=True)
