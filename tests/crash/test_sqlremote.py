"""Both ends of a two-way link are killed again and again, and lose, double and reorder nothing.

``DOUBTLESS_FULL=1`` makes it 10,000 transactions each way, and 20 kills of each end.
"""

import random
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from sqlalchemy import text

from history.bridge import drive
from tests.crash.victims.link_site import create_tables, open_engine
from tests.fixtures.scale import sized
from tests.fixtures.waiting import eventually, patience, patiently
from triggers.providers.sqlremote.links import Links

TRANSACTIONS = sized(120, full=10_000)
KILLS = sized(2, full=20)

#: How long everything may take after the last kill, in seconds.
PATIENCE = patience(60 + TRANSACTIONS * 0.2)

SETTINGS = """
database = "{database}"
[links.orders]
carrier = "file://{mail}"
inbox = "{name}"
outbox = "{peer}"
poll = 0.02
repeat_after = 0.2
probe_after = 0.5
"""

pytestmark = [pytest.mark.crash, pytest.mark.prove, pytest.mark.timeout(int(PATIENCE + 60 + KILLS * 5))]


@pytest.fixture
def sites(link_databases: Sequence[str], tmp_path: Path) -> dict[str, Path]:
    """The settings files of two ends, with their databases set up."""
    files: dict[str, Path] = {}
    for name, peer, url in zip("xy", "yx", link_databases, strict=True):
        files[name] = tmp_path / f"{name}.toml"
        files[name].write_text(SETTINGS.format(database=url, mail=tmp_path / "mail", name=name, peer=peer))
        links = Links.from_file(files[name])
        drive(links.setup("orders"))
        drive(links.close())
        engine = open_engine(url)
        create_tables(engine)
        engine.dispose()
    return files


def start(file: Path, shell: str) -> subprocess.Popen[bytes]:
    with (file.with_suffix(".log")).open("ab") as log:
        command = [sys.executable, "-m", "tests.crash.victims.link_site", str(file), str(TRANSACTIONS)]
        command.append(shell)
        return subprocess.Popen(command, stdout=log, stderr=log)


@pytest.mark.parametrize("link_databases", ["sqlite", "postgres"], indirect=True)
@pytest.mark.parametrize("shell", ["blocking", "asyncio"])
def test_both_ends_are_killed_while_transactions_flow_both_ways(sites: dict[str, Path], shell: str) -> None:
    dice = random.Random(TRANSACTIONS)  # noqa: S311  (a test's dice need no secrecy)
    running = {name: start(file, shell) for name, file in sites.items()}
    killed = 0
    try:
        for number in range(KILLS):
            for place, (name, file) in enumerate(sites.items()):
                # While work flows: at about the same share of it as of the kills.
                due = (2 * number + place + dice.random()) / (2 * KILLS) * TRANSACTIONS * 0.9
                eventually(lambda due=due, file=file: applied(file) >= 2 * due, PATIENCE)  # type: ignore[misc]
                killed += running[name].poll() is None
                running[name].kill()
                running[name].wait()
                running[name] = start(file, shell)
        for name, process in running.items():
            code = patiently(process.wait, PATIENCE)
            assert code == 0, sites[name].with_suffix(".log").read_text()[-3000:]
    finally:
        for process in running.values():
            process.kill()
            process.wait()

    assert killed == 2 * KILLS
    for name, peer in zip("xy", "yx", strict=True):
        theirs = rows(sites[name], "SELECT n, size FROM theirs ORDER BY place")
        own = rows(sites[peer], "SELECT n, size FROM own ORDER BY n")
        assert [row for pair in own for row in (pair, (-pair[0], 0))] == theirs
        assert len(own) == TRANSACTIONS


def applied(file: Path) -> int:
    """Return how many operations an end has applied so far."""
    return rows(file, "SELECT COUNT(*), 0 FROM theirs")[0][0]


def rows(file: Path, query: str) -> list[tuple[int, int]]:
    engine = open_engine(Links.from_file(file).settings.database)
    with engine.connect() as connection:
        found = [(int(row[0]), int(row[1])) for row in connection.execute(text(query))]
    engine.dispose()
    return found
