"""Four processes join three streams, and some processes die: each activation runs once, or is reported."""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest

from history import EntryOutcome, Message, Parked, ParkedKind, Uuid, open_history
from history.bridge import drive
from tests.crash.helpers.joining_fleet import JoiningFleet
from tests.crash.victims.joining_service import DESTINATIONS, NAME, effects_of
from tests.fixtures.histories import with_store
from tests.fixtures.scale import sized
from tests.fixtures.servers.redis import connected
from triggers import Joined, open_provider
from triggers.pipeline.parking.sweep import close_settled

pytestmark = [pytest.mark.crash, pytest.mark.prove, pytest.mark.timeout(400)]

ACTIVATIONS, PROCESSES, KILLS = sized(300, full=1000), 4, sized(4, full=10)

#: One message in so many is sent twice.
SENT_TWICE_ONE_IN = 20

#: A silent process counts as dead after a second and a half.
FAST = "?claim_idle=1.5&reclaim_interval=0.2"


@dataclass(frozen=True, slots=True)
class Left:
    """The result: effects, parked messages, parts without a completed entry, and parts that still wait."""

    effects: Sequence[tuple[str, ...]]
    parked: Sequence[Parked]
    incomplete: Sequence[str]
    waiting: int


def uuid_of(activation: int, destination: str) -> str:
    return f"{destination}-{activation}"


def send(url: str, chance: random.Random) -> None:
    """Send each destination its messages, each in another order, some of them twice."""
    provider = open_provider(url)
    for destination in DESTINATIONS:
        order = list(range(ACTIVATIONS))
        order += chance.sample(order, ACTIVATIONS // SENT_TWICE_ONE_IN)
        chance.shuffle(order)
        messages = [
            Message(body="{}", uuid=Uuid(uuid_of(n, destination)), properties={"activation": f"a{n}"})
            for n in order
        ]
        drive(provider.send(destination, messages))
    drive(provider.close())


def is_done(client: Any, history: str) -> bool:
    """Whether every stream is read and acknowledged, and no join waits."""
    for stream in DESTINATIONS:
        groups = client.xinfo_groups(stream)
        last = client.xinfo_stream(stream)["last-generated-id"]
        if not groups or groups[0]["pending"] or groups[0]["last-delivered-id"] != last:
            return False
    waiting = with_store(history, lambda store: store.joining.waiting(NAME, limit=1))
    return not waiting


def look(folder: Path, history: str) -> Left:
    store = open_history(history)
    drive(close_settled(NAME, store, store.parking))
    uuids = [uuid_of(n, destination) for n in range(ACTIVATIONS) for destination in DESTINATIONS]
    entries = drive(store.lookup(NAME, uuids))
    left = Left(
        effects=effects_of(folder).lines(),
        parked=drive(store.parking.list(trigger=NAME, limit=ACTIVATIONS)),
        incomplete=[
            uuid
            for uuid, entry in zip(uuids, entries, strict=True)
            if entry is None or entry.outcome is not EntryOutcome.OK
        ],
        waiting=len(drive(store.joining.waiting(NAME))),
    )
    drive(store.close())
    return left


@pytest.mark.parametrize("store", ["redis", "postgres"])
def test_every_activation_runs_once_or_is_in_doubt_whoever_is_killed(
    store: str, tmp_path: Path, redis_url: str, request: pytest.FixtureRequest
) -> None:
    history = redis_url if store == "redis" else cast("str", request.getfixturevalue("postgres_url"))
    # from the seed that pytest prints
    chance = random.Random(random.randrange(2**32))  # noqa: S311  (no secret)
    send(redis_url, chance)
    due = sorted(chance.sample(range(1, ACTIVATIONS * 9 // 10), KILLS))

    fleet = JoiningFleet(
        folder=tmp_path,
        effects=effects_of(tmp_path),
        provider=redis_url + FAST,
        history=history,
        processes=PROCESSES,
    )
    with fleet, connected(redis_url) as client:
        fleet.kill_until(lambda: is_done(client, history), due, chance)
        fleet.drain()
    left = look(tmp_path, history)

    runs = Counter(activation for activation, *_ in left.effects)
    doubtful = {
        Joined.of(one.message).activation
        for one in left.parked
        if one.kind is ParkedKind.IN_DOUBT and one.message is not None
    }
    assert fleet.kills == KILLS
    assert [activation for activation, times in runs.items() if times > 1] == []
    assert {f"a{n}" for n in range(ACTIVATIONS)} - runs.keys() - doubtful == set()
    assert [one.reason for one in left.parked if one.kind is not ParkedKind.IN_DOUBT] == []
    assert len(doubtful) == len(left.parked) <= KILLS
    assert (left.incomplete, left.waiting) == ([], 0)
    for activation, uuids, *_ in left.effects:
        assert uuids.split(",") == [uuid_of(int(activation[1:]), destination) for destination in DESTINATIONS]
