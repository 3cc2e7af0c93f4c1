"""One run of the crash matrix over one store: send, kill, finish, and check the result."""

import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from history import EntryOutcome, Parked, open_history
from history.beside.kept import KeepsBeside
from history.bridge import drive
from tests.crash.helpers import deaths
from tests.crash.helpers.deaths import DEATHS, DOOMED, UUIDS, Death
from tests.crash.victims.victim import effects_of, events_of
from tests.fixtures.beside import kept_in
from tests.fixtures.databases import asked
from tests.fixtures.servers.redis import connected
from tests.fixtures.waiting import PATIENCE, patiently, too_long
from triggers import open_provider

#: A silent consumer counts as dead soon, so that the tests need not wait.
FAST = "?claim_idle=0.5&reclaim_interval=0.1"

#: How long the deaths and the finish may take, in seconds.
DEADLINE = PATIENCE

#: How long the finisher works between two checks of the rest, in seconds.
PAUSE = 0.1


@dataclass(frozen=True, slots=True)
class Left:
    """The result of one death: effects and events by uuid, parked copies, unacknowledged entries, ...

    ``journal`` has the verdicts on the doomed uuid from the journal.
    """

    sent: Sequence[tuple[str, str]]
    effects: Counter[str]
    executed: frozenset[str]
    parked: Sequence[Parked]
    completed: frozenset[str]
    events: Counter[str]
    unanswered: int
    journal: frozenset[str]

    def check(self, death: Death) -> None:
        """Assert that the result is as the pipeline's table promises, and nothing twice, lost or waiting."""
        others = set(UUIDS) - {DOOMED}
        assert max(self.effects.values()) == 1
        assert death.ending.verdict in self.journal
        assert self.effects[DOOMED] == death.ending.effects
        assert [one.uuid for one in self.parked] == [DOOMED] * min(1, death.ending.parked)
        assert sum(one.copies for one in self.parked) >= death.ending.parked
        assert self.events[DOOMED] >= death.ending.event
        assert {uuid: self.effects[uuid] for uuid in others} == dict.fromkeys(others, 1)
        assert self.completed >= others
        assert (self.unanswered, self.unaccounted) == (0, [])

    @property
    def is_settled(self) -> bool:
        return self.completed >= set(UUIDS) - {DOOMED} and (self.unanswered, self.unaccounted) == (0, [])

    @property
    def unaccounted(self) -> list[str]:
        """The JMSMessageIDs that were neither executed, nor parked, nor duplicates of a completed uuid.

        Copies of one document share one parked record, which counts them.
        """
        places = Counter({one.uuid: one.copies for one in self.parked})
        left = [
            (uuid, name)
            for uuid, name in self.sent
            if name not in self.executed and uuid not in self.completed
        ]
        places.subtract(uuid for uuid, _ in left)
        return [name for uuid, name in left if places[uuid] < 0]


#: The same for SQL-JMS.
FAST_SQLJMS = "lease=0.5&poll_interval=0.1"


def run_matrix(
    folder: Path, server: str, history: str, count: Callable[[str], int] | None = None
) -> dict[Death, Left]:
    """Let every process die, let another process finish, and return the result of each death.

    ``server`` is the URL of the provider: a Redis, or a database. For another provider, ``count`` counts the
    remaining messages of a destination.
    """
    provider = impatient(server)
    sent = {death: _send(provider, death) for death in DEATHS}
    _prepare(history)
    store = open_history(history)
    look = partial(_look, folder, count or partial(count_unanswered, server), store)
    die_and_finish(
        "tests.crash.victims.victim",
        [str(folder), provider, history],
        lambda: all(look(death, sent[death]).is_settled for death in DEATHS),
    )
    left = {death: look(death, sent[death]) for death in DEATHS}
    drive(store.close())
    return left


def die_and_finish(victim: str, words: Sequence[str], settled: Callable[[], bool]) -> None:
    """Let the processes of a module die, and another process finish their work, until it is ``settled``.

    If something is not settled at the end, this does not fail: the test of that death does.
    """
    command = [sys.executable, "-m", victim]
    with subprocess.Popen([*command, "kill", *words]) as killer:
        try:
            assert patiently(killer.wait) == 0
        finally:
            killer.kill()
    with subprocess.Popen([*command, "finish", *words]) as finisher:
        begun = time.monotonic()
        try:
            while not settled() and not too_long(time.monotonic() - begun, DEADLINE):
                assert finisher.poll() is None, "the finisher has ended by itself"
                time.sleep(PAUSE)
        finally:
            finisher.terminate()
    assert finisher.returncode == 0


def impatient(server: str) -> str:
    """Return a provider's URL with which a silent consumer soon counts as dead."""
    if server.startswith("redis"):
        return server + FAST
    if server.startswith(("jms", "kafka", "nats", "sqs", "rabbitmq", "amqp")):
        return server  # the broker notices a lost consumer immediately
    return f"{server}{'&' if '?' in server else '?'}{FAST_SQLJMS}"


def _send(url: str, death: Death) -> Sequence[tuple[str, str]]:
    provider = open_provider(url)
    names = drive(provider.send(death.name, death.messages()))
    drive(provider.close())
    return list(zip(UUIDS, names, strict=True))


def _prepare(history: str) -> None:
    """Let another owner claim the messages that shall be In Doubt, and complete the duplicates."""
    store = open_history(history)
    for death in DEATHS:
        if death.path in {deaths.Path.IN_DOUBT, deaths.Path.DUPLICATE}:
            claim = drive(store.claim(death.name, [DOOMED], "somebody else"))[0]
            if death.path is deaths.Path.DUPLICATE:
                drive(store.complete(death.name, DOOMED, claim.fence))
    drive(store.close())


def _look(
    folder: Path,
    count: Callable[[str], int],
    store: KeepsBeside,
    death: Death,
    sent: Sequence[tuple[str, str]],
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
        unanswered=count(death.name),
        journal=_journal(store, death),
    )


def _journal(store: KeepsBeside, death: Death) -> frozenset[str]:
    journal = kept_in(store).journal
    return frozenset(line.verdict for line in drive(journal.read(death.name, DOOMED)))


def count_unanswered(server: str, name: str) -> int:
    """Count the messages that a subscription of Redis Streams or SQL-JMS has not read or acknowledged."""
    if not server.startswith("redis"):
        return count_rows(server, WAITING, name=name)
    with connected(server) as client:
        group = client.xinfo_groups(name)[0]
        unread = client.xrange(name, "(" + group["last-delivered-id"].decode(), "+")
        return int(group["pending"]) + len(unread)


#: The messages of SQL-JMS that wait for a subscription, or are held.
WAITING = """SELECT COUNT(*) FROM dms_topic_entry JOIN dms_topic_sub USING (subscriber_id)
    WHERE subscriber_name = :name"""


def count_rows(url: str, query: str, **values: str) -> int:
    ((number,),) = asked(url, query, **values)
    return int(number)
