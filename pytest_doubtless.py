"""The pytest plugin: the fixture ``simulator``, and what it found shown beside the failure.

pytest loads it wherever this package is installed, so it imports nothing until a test asks for the fixture.
"""

import random
import sys
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from triggers.testing.simulator.simulator import Simulator

_SEED = pytest.StashKey[int]()

#: The seeds that are drawn are below this: short enough to be typed.
SEEDS = 1_000_000


def pytest_addoption(parser: pytest.Parser) -> None:
    """Know ``--doubtless-seed``."""
    parser.getgroup("doubtless").addoption(
        "--doubtless-seed",
        type=int,
        default=None,
        metavar="N",
        help="draw the simulator's random scripts by this seed, as a failure has printed it",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Draw a seed, unless one was given."""
    given = config.getoption("--doubtless-seed")
    config.stash[_SEED] = random.SystemRandom().randrange(SEEDS) if given is None else given


@pytest.fixture
def simulator(request: pytest.FixtureRequest) -> "Simulator":
    """Return what runs a trigger through everything that can go wrong, with this session's seed."""
    from triggers.testing.simulator.simulator import Simulator  # noqa: PLC0415  (loaded when it is asked for)

    return Simulator(seed=request.config.stash[_SEED])


def _loaded(module: str) -> Any:
    """Return a module of the simulator, if a test has loaded it."""
    return sys.modules.get(f"triggers.testing.simulator.{module}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Let simulations of the test draw by the session's seed; fail a test that ignores a finding."""
    if (loaded := _loaded("exactly_once")) is not None:
        loaded.default_seed = item.config.stash[_SEED]
    if (reports := _loaded("report")) is not None:
        reports.losses.clear()
        reports.unread.clear()
    ended = yield
    if (reports := _loaded("report")) is not None and reports.unread:
        pytest.fail("exactly_once found a fault, and the test does not check it: add .check()", pytrace=False)
    return ended


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    call: pytest.CallInfo[None],
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the scripts that were found beside the failure of their test."""
    report = yield
    if (reports := _loaded("report")) is not None and call.when == "call" and report.failed:
        for one in reports.losses:
            again = f"--doubtless-seed={one.seed} draws the same scripts again"
            report.sections.append(("doubtless: what the simulator found", f"{one}\n\n{again}"))
        reports.losses.clear()  # its test may have more reports: one for each subtest
    return report
