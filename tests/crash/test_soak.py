"""Processes killed at random moments; ``benchmarks.soak`` is the same with more of everything."""

import random
from collections import Counter
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from benchmarks.soak import RESENT_ONE_IN, Fate, Soak
from benchmarks.soak_service import NAME, work
from history.bridge import drive
from history.opening import open_history
from history.store.control import FORGOTTEN_AFTER, Beat
from tests.fixtures.ledger import Ledger
from tests.fixtures.proof import Proved
from tests.fixtures.scale import sized
from tests.integration.dashboard.browser import Browser
from triggers.dashboard import Access, Role, Token, create_app
from triggers.metrics.exposition import VERDICTS

pytestmark = pytest.mark.crash

MESSAGES, KILLS = 1000, 6

#: The numbers for atomic triggers: they promise the most, so they get the hardest test.
ATOMIC_MESSAGES, ATOMIC_KILLS = 100_000, 50

#: Processes with many tasks that share a receiver and their calls.
TASKS = "benchmarks.soak_tasks"


@pytest.mark.parametrize(
    ("messages", "kills", "service"),
    [
        pytest.param(300, 2, None, id="few"),
        pytest.param(MESSAGES, KILLS, None, id="threads", marks=pytest.mark.prove),
        pytest.param(20 * MESSAGES, 2 * KILLS, TASKS, id="tasks", marks=pytest.mark.prove),
    ],
)
def test_processes_killed_at_random_lose_nothing_and_repeat_nothing(
    tmp_path: Path, redis_url: str, messages: int, kills: int, service: str | None, proved: Proved
) -> None:
    # It comes from the seed that pytest prints.
    seed = random.randrange(2**32)  # noqa: S311  (no secret)
    soak = Soak(
        folder=tmp_path, redis_url=redis_url, messages=messages, kills=kills, seed=seed, service=service
    )

    report = soak.run()

    assert report.mistakes == (), report
    assert report.kills == kills
    assert report.fates.total() == messages
    assert report.fates[Fate.DUPLICATE] > 0
    proved(messages=messages, processes_killed=kills)


@pytest.mark.prove
@pytest.mark.parametrize(("messages", "kills"), [(MESSAGES, 0), (6 * MESSAGES, KILLS)], ids=["none", "some"])
def test_metrics_add_up_with_what_the_soak_counts(
    tmp_path: Path, redis_url: str, messages: int, kills: int, proved: Proved
) -> None:
    looks = Looks(tmp_path / "effects", redis_url)
    soak = Soak(folder=tmp_path, redis_url=redis_url, messages=messages, kills=kills)

    report = soak.run(looks.look)

    assert report.mistakes == (), report
    looks.look()
    metrics = scraped(redis_url)
    counted = {
        verdict: metrics["doubtless_history_messages_total", f"{NAME} {verdict}"] for verdict in VERDICTS
    }
    effects, killed = looks.effects, looks.killed
    lost = effects.total() - counted["new"]
    at_work = work.settings.concurrency
    # A killed process has reported its counts up to its last heartbeat; the other processes, all of them.
    assert len(killed) <= kills
    assert counted["new"] == effects.total() + sum(n - effects[pid] for pid, n in killed.items())
    for pid, reported in killed.items():
        assert looks.surely_reported(pid) - at_work <= reported <= effects[pid]
    # No message is counted twice, or before it is answered.
    assert sum(counted.values()) <= messages
    assert counted["duplicate"] <= report.fates[Fate.DUPLICATE] + kills * at_work
    assert counted["rejected"] == 0
    # The lot itself counts the parked messages, so kills do not change the number.
    in_doubt = report.fates[Fate.PARKED_WITH_EFFECT] + report.fates[Fate.PARKED_WITHOUT_EFFECT]
    parked = metrics["doubtless_parked_messages", NAME]
    assert (parked > 0, parked <= in_doubt) == (in_doubt > 0, True)
    assert metrics["doubtless_history_entries", NAME] == messages - messages // RESENT_ONE_IN
    waiting = [value for (name, at), value in metrics.items() if "waiting" in at and "backlog" in name]
    assert waiting == [0]
    if not kills:
        assert (lost, sum(counted.values()), parked) == (0, messages, 0)
        assert counted["duplicate"] == report.fates[Fate.DUPLICATE]
    proved(messages=messages, processes_killed=kills)


class Looks:
    """The observations of each process: its effects, and when its last heartbeat arrived."""

    def __init__(self, ledger: Path, url: str) -> None:
        self._ledger, self._url = Ledger(ledger), url
        self._seen: list[tuple[Counter[str], dict[str, Beat]]] = []

    def look(self, *_: int) -> None:
        """Look once: at the effects first, so that every later heartbeat came after them."""
        effects = Counter(pid for _, _, pid in self._ledger.lines())
        store = open_history(self._url)
        # A consumer that ended by itself has no last heartbeat; a killed one has it for ten minutes.
        beats = drive(store.control.overview(silence=FORGOTTEN_AFTER)).beats
        drive(store.close())
        self._seen.append((effects, {beat.report.consumer.split("-")[-2]: beat for beat in beats}))

    @property
    def effects(self) -> Counter[str]:
        return self._seen[-1][0]

    @property
    def killed(self) -> dict[str, int]:
        """Return the reported new messages of each process that was killed after its first heartbeat."""
        return {pid: beat.report.counts.new for pid, beat in self._seen[-1][1].items()}

    def surely_reported(self, pid: str) -> int:
        """Return how many effects a process had when its second-last report arrived.

        The process made its last report after that. So this report counts all these effects, except those of
        messages that were not answered yet.
        """
        beats = [(effects[pid], beats[pid].beat_at) for effects, beats in self._seen if pid in beats]
        arrived = sorted({at for _, at in beats})
        return max((count for count, at in beats if at < arrived[-2]), default=0) if arrived[1:] else 0


def scraped(url: str) -> dict[tuple[str, str], float]:
    """Return what the dashboard's metrics say, by the name and the values of the labels."""
    token = Token.drawn("prometheus", Role.VIEWER)
    app = create_app(url, access=Access(tokens=[token]), triggers=[work], providers=[url], background=False)
    browser = Browser(app)
    text = browser.get("/metrics", Authorization=f"Bearer {token.secret}").text
    browser.close()
    app.state.operations.close()
    return {
        (sample.name, " ".join(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


@pytest.mark.prove
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("sqljms", "messages", "kills"),
    [
        pytest.param(False, ATOMIC_MESSAGES, ATOMIC_KILLS, id="redis"),
        pytest.param(True, sized(400, full=52_631), sized(3, full=20), id="sqljms"),
    ],
)
def test_processes_with_atomic_triggers_killed_at_random_execute_everything_once(
    tmp_path: Path,
    redis_url: str,
    postgres_url: str,
    proved: Proved,
    messages: int,
    kills: int,
    *,
    sqljms: bool,
) -> None:
    """On SQL-JMS no row of a message is left, or it is one of the mistakes."""
    seed = random.randrange(2**32)  # noqa: S311  (no secret)
    soak = Soak(
        folder=tmp_path,
        redis_url=redis_url,
        history=postgres_url,
        atomic=True,
        sqljms=sqljms,
        messages=messages,
        kills=kills,
        seed=seed,
    )

    report = soak.run()

    assert report.mistakes == (), report
    assert report.kills == kills
    copies = report.fates[Fate.DUPLICATE]
    assert report.fates == {Fate.EXECUTED: messages - copies, Fate.DUPLICATE: copies}
    proved(messages=messages, processes_killed=kills)
