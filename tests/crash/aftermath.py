"""One run of the crash matrix over one store: send, kill, finish, and look at what is left."""

import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import redis

from history.bridge import drive
from history.entry import EntryOutcome
from history.opening import open_history
from history.parking import Parked
from history.store import HistoryStore
from tests.crash import deaths
from tests.crash.deaths import DEATHS, DOOMED, UUIDS, Death
from tests.crash.victim import effects_of, events_of
from triggers.providers.opening import open_provider

#: A silent consumer counts as dead soon, so that the tests need not wait.
FAST = "?claim_idle=0.5&reclaim_interval=0.1"

#: How long the dying and the finishing may take, in seconds.
DEADLINE = 60.0


@dataclass(frozen=True, slots=True)
class Left:
    """What is left of one death: effects and events by uuid, parked copies, unacknowledged entries, ..."""

    sent: Sequence[tuple[str, str]]
    effects: Counter[str]
    executed: frozenset[str]
    parked: Sequence[Parked]
    completed: frozenset[str]
    events: Counter[str]
    unanswered: int

    @property
    def unaccounted(self) -> list[str]:
        """The JMSMessageIDs that were neither executed, nor parked, nor duplicates of a completed uuid."""
        kept = self.executed | {one.message.message_id for one in self.parked if one.message is not None}
        return [name for uuid, name in self.sent if name not in kept and uuid not in self.completed]


def run_matrix(folder: Path, redis_url: str, history: str) -> dict[Death, Left]:
    """Let every process die, let another one finish, and return what is left of each death."""
    provider = redis_url + FAST
    sent = {death: _send(provider, death) for death in DEATHS}
    _prepare(history)
    for task in ("kill", "finish"):
        words = [sys.executable, "-m", "tests.crash.victim", str(folder), provider, history, task]
        subprocess.run(words, check=True, timeout=DEADLINE)
    store = open_history(history)
    left = {death: _look(folder, redis_url, store, death, sent[death]) for death in DEATHS}
    drive(store.close())
    return left


def _send(url: str, death: Death) -> Sequence[tuple[str, str]]:
    provider = open_provider(url)
    names = drive(provider.send(death.name, death.messages()))
    drive(provider.close())
    return list(zip(UUIDS, names, strict=True))


def _prepare(history: str) -> None:
    """Have somebody else claim the messages that are to be In Doubt, and complete the duplicates."""
    store = open_history(history)
    for death in DEATHS:
        if death.path in {deaths.Path.IN_DOUBT, deaths.Path.DUPLICATE}:
            claim = drive(store.claim(death.name, [DOOMED], "somebody else"))[0]
            if death.path is deaths.Path.DUPLICATE:
                drive(store.complete(death.name, DOOMED, claim.fence))
    drive(store.close())


def _look(
    folder: Path, redis_url: str, store: HistoryStore, death: Death, sent: Sequence[tuple[str, str]]
) -> Left:
    effects = effects_of(folder, death)
    uuids = sorted(set(UUIDS))
    entries = drive(store.lookup(death.name, uuids))
    return Left(
        sent=sent,
        effects=effects.counts(),
        executed=frozenset(name for _, name in effects.lines()),
        parked=drive(store.parking.list(trigger=death.name)),
        completed=frozenset(
            uuid
            for uuid, entry in zip(uuids, entries, strict=True)
            if entry is not None and entry.outcome in set(EntryOutcome)
        ),
        events=Counter(uuid for name, uuid in events_of(folder).lines() if name == death.name),
        unanswered=_count_unanswered(redis_url, death.name),
    )


def _count_unanswered(redis_url: str, name: str) -> int:
    """Count the entries of a stream that its group has not read, or has not acknowledged."""
    with cast("Any", redis.Redis).from_url(redis_url) as client:
        group = client.xinfo_groups(name)[0]
        unread = client.xrange(name, "(" + group["last-delivered-id"].decode(), "+")
        return int(group["pending"]) + len(unread)
