"""Nine faults of a real plant: Overview shows each within ten seconds, and only its alert fires."""

import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.acceptance.plant import Plant, Shown, is_root
from tests.acceptance.rules import Samples, firing
from tests.fixtures.waiting import eventually, patience

pytestmark = pytest.mark.prove

#: Overview must show a fault within so many seconds.
SEEN_WITHIN = 10.0

#: The number of scrapes in a fault, and the pause between them in seconds.
SCRAPES, APART = 4, 1.0

#: The precision of the time of a fault, in seconds.
EXACT = timedelta(seconds=2)


@pytest.fixture
def plant(tmp_path: Path) -> Iterator[Plant]:
    with Plant(tmp_path) as made:
        yield made


def seen(plant: Plant, kind: str, begun: datetime) -> Shown:
    """Wait until Overview shows a problem of this kind, check its time, and return it."""

    def shown() -> list[Shown]:
        return [one for one in plant.problems() if one.kind == kind]

    found = eventually(shown, patience(SEEN_WITHIN))[0]
    assert found.since is not None
    assert begun - EXACT <= found.since <= datetime.now(UTC) + EXACT
    return found


def fired(plant: Plant, healthy: Samples) -> set[tuple[str, str]]:
    """Return the alerts that fire if the fault goes on."""
    begun = time.monotonic()
    scraped = [plant.scrape()]
    for _ in range(SCRAPES - 1):
        time.sleep(APART)  # the time between two scrapes, for the computation of growth
        scraped.append(plant.scrape())
    return firing(plant.folder, healthy, scraped, time.monotonic() - begun)


def kinds(plant: Plant) -> list[tuple[str, str]]:
    return [(one.kind, one.trigger) for one in plant.problems()]


def test_a_plant_that_works_shows_no_problem_and_fires_no_alert(plant: Plant) -> None:
    assert fired(plant, plant.scrape()) == set()
    assert kinds(plant) == []


def test_a_history_that_is_killed_keeps_the_page_as_it_was_and_heals(plant: Plant) -> None:
    healthy, begun = plant.scrape(), datetime.now(UTC)

    plant.history.kill()
    shown = seen(plant, "history away", begun)
    page = plant.overview()

    assert "book" in shown.trigger
    assert "does not answer" in shown.cause
    assert shown.messages.endswith("waiting")
    assert "What is shown of bill, book is from" in page
    assert page.count('href="/trigger?name=') == 3
    assert fired(plant, healthy) == {("DoubtlessHistoryAway", name) for name in ("book", "bill")}
    assert kinds(plant) == [("history away", "bill, book")]

    plant.history.start()
    assert eventually(lambda: not plant.problems())


def test_a_second_history_that_is_killed_is_seen_beside_the_first(plant: Plant) -> None:
    healthy, begun = plant.scrape(), datetime.now(UTC)

    plant.second.kill()
    shown = seen(plant, "history away", begun)

    assert shown.trigger == "ship"
    assert shown.messages.endswith("waiting")
    assert fired(plant, healthy) == {("DoubtlessHistoryAway", "ship")}
    assert kinds(plant) == [("history away", "ship")]

    plant.second.start()
    assert eventually(lambda: not plant.problems())


def test_a_provider_that_is_killed_is_seen_with_what_waited_there(plant: Plant) -> None:
    healthy, begun = plant.scrape(), datetime.now(UTC)

    plant.broker.kill()
    shown = seen(plant, "provider away", begun)

    assert "the Redis server is unavailable" in shown.cause  # "closed" at first, then "refused"
    assert shown.messages.endswith("waiting, as it last said")
    assert fired(plant, healthy) == {("DoubtlessProviderAway", name) for name in ("bill", "book", "ship")}
    assert kinds(plant) == [("provider away", name) for name in ("bill", "book", "ship")]

    plant.broker.start()
    assert eventually(lambda: not plant.problems())


@pytest.mark.parametrize("every", [1, 5], ids=["all", "one in five"])
def test_messages_that_fail_are_seen_with_their_error_and_number(plant: Plant, every: int) -> None:
    healthy, begun = plant.scrape(), datetime.now(UTC)

    plant.says["book"] = lambda number: "fail" if number % every == 0 else "run"
    shown = seen(plant, "messages fail", begun)

    assert "FatalError: no such customer" in shown.cause
    assert shown.messages.endswith("failed")
    assert fired(plant, healthy) == {("DoubtlessMessagesFail", "book")}
    assert kinds(plant) == [("messages fail", "book")]


def test_a_resolver_that_hangs_is_seen_with_the_line_that_it_is_in(plant: Plant) -> None:
    healthy, begun = plant.scrape(), datetime.now(UTC)

    plant.claim("book", "order-1")
    plant.send("orders", {"do": "run"}, "order-1")
    shown = seen(plant, "a call does not end", begun)

    assert shown.cause.startswith("look_up (faulty.py:")
    assert shown.messages == "1 in progress"
    assert fired(plant, healthy) == {("DoubtlessServiceHangs", "book")}
    assert kinds(plant) == [("a call does not end", "book")]


def test_a_service_that_hangs_is_seen_with_the_line_that_it_is_in(plant: Plant) -> None:
    healthy, begun = plant.scrape(), datetime.now(UTC)

    plant.send("orders", {"do": "hang"}, "order-1")
    shown = seen(plant, "a call does not end", begun)

    assert shown.cause.startswith("book (faulty.py:")
    assert shown.messages == "1 in progress"
    assert fired(plant, healthy) == {("DoubtlessServiceHangs", "book")}
    assert kinds(plant) == [("a call does not end", "book")]


def test_workers_that_are_killed_are_seen_with_what_they_held(plant: Plant) -> None:
    plant.send("orders", {"do": "hang"}, "order-1")
    healthy = plant.scrape()
    eventually(lambda: _held(plant))
    begun = datetime.now(UTC)

    plant.consumer.send_signal(signal.SIGKILL)
    shown = seen(plant, "consumer lost", begun)

    assert "reports no more" in shown.cause
    assert fired(plant, healthy) == {("DoubtlessConsumersGone", name) for name in ("bill", "book", "ship")}
    assert kinds(plant) == [("consumer lost", name) for name in ("bill", "book", "ship")]
    assert re.search("^[1-9] or more in its hands$", _of(plant, "book"), re.MULTILINE)


def _of(plant: Plant, trigger: str) -> str:
    return "\n".join(one.messages for one in plant.problems() if one.trigger == trigger)


def _held(plant: Plant) -> bool:
    return plant.scrape().get(("doubtless_oldest_delivery_seconds", ("trigger", "book")), 0) > 2


@pytest.fixture
def small_disk(plant: Plant) -> Iterator[None]:
    """Let the trigger bill park on a disk that can become full."""
    if not is_root():
        pytest.skip("only root may mount a disk")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", plant.disk], check=True)
    yield
    subprocess.run(["umount", "-l", plant.disk], check=True)


def fill(file: Path) -> None:
    """Write until the disk is full."""
    with file.open("wb", buffering=0) as filler, suppress(OSError):
        while True:
            filler.write(bytes(4096))


@pytest.mark.usefixtures("small_disk")
def test_a_disk_for_parking_that_is_full_is_seen_with_its_error(plant: Plant) -> None:
    healthy = plant.scrape()
    fill(plant.disk / "filler")
    begun = datetime.now(UTC)

    plant.says["bill"] = lambda number: "fail" if number % 31 == 0 else "run"
    shown = seen(plant, "cannot park", begun)

    assert "the lot: database or disk is full" in shown.cause
    assert "the local file: database or disk is full" in shown.cause
    assert shown.messages.endswith("given back")
    assert fired(plant, healthy) == {("DoubtlessCannotPark", "bill")}
    assert kinds(plant) == [("cannot park", "bill")]
