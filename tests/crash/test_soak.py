"""Processes killed at random moments; ``benchmarks.soak`` is the same with more of everything."""

import random
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from benchmarks.soak import Fate, Soak
from benchmarks.soak_service import NAME, work
from tests.fixtures.proof import Proved
from tests.integration.dashboard.browser import Browser
from triggers.dashboard import Access, Role, Token, create_app

pytestmark = pytest.mark.crash

MESSAGES, KILLS = 1000, 6

#: Of atomic triggers: they promise the most, so they are tried with the most.
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
    # pytest-randomly prints what this seed comes from.
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
def test_metrics_add_up_with_what_the_soak_counts(tmp_path: Path, redis_url: str) -> None:
    report = Soak(folder=tmp_path, redis_url=redis_url, messages=MESSAGES, kills=0).run()

    assert report.mistakes == (), report
    told = scraped(redis_url)
    assert told["doubtless_history_messages_total", f"{NAME} new"] == report.fates[Fate.EXECUTED]
    assert told["doubtless_history_messages_total", f"{NAME} duplicate"] == report.fates[Fate.DUPLICATE]
    assert told["doubtless_parked_messages", NAME] == 0
    waiting = [value for (name, at), value in told.items() if "waiting" in at and "backlog" in name]
    assert waiting == [0]


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
def test_processes_with_atomic_triggers_killed_at_random_execute_everything_once(
    tmp_path: Path, redis_url: str, postgres_url: str, proved: Proved
) -> None:
    seed = random.randrange(2**32)  # noqa: S311  (no secret)
    soak = Soak(
        folder=tmp_path,
        redis_url=redis_url,
        history=postgres_url,
        atomic=True,
        messages=ATOMIC_MESSAGES,
        kills=ATOMIC_KILLS,
        seed=seed,
    )

    report = soak.run()

    assert report.mistakes == (), report
    assert report.kills == ATOMIC_KILLS
    copies = report.fates[Fate.DUPLICATE]
    assert report.fates == {Fate.EXECUTED: ATOMIC_MESSAGES - copies, Fate.DUPLICATE: copies}
    proved(messages=ATOMIC_MESSAGES, processes_killed=ATOMIC_KILLS)
