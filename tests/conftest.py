"""The fixtures of all tests; each file of ``fixtures/`` is one kind of part."""

import gc
import logging
import random
import signal
import sys
from collections.abc import Generator, Iterator
from itertools import count
from pathlib import Path
from typing import cast

import pytest
from hypothesis import HealthCheck, settings

from tests import ROOT
from tests.fixtures.everyday import PATHS, is_everyday, path_of
from tests.fixtures.waiting import slowness
from triggers.service.outcome import VERDICT_LOGGER

# A shell that starts the tests in the background lets them ignore Ctrl-C, and every command that they start.
signal.signal(signal.SIGINT, signal.default_int_handler)

pytest_plugins = ["tests.fixtures.closing", "tests.fixtures.hanging", "tests.fixtures.proof"]

#: The fixtures of servers, files and networks. They import drivers, so unit tests start without them.
SERVER_FIXTURES = (
    "tests.fixtures.servers.redis",
    "tests.fixtures.servers.redis_sentinel",
    "tests.fixtures.sqljms",
    "tests.fixtures.servers.postgres",
    "tests.fixtures.servers.postgres_pair",
    "tests.fixtures.servers.pgbouncer",
    "tests.fixtures.servers.rabbitmq",
    "tests.fixtures.servers.sqs",
    "tests.fixtures.network",
    "tests.fixtures.histories",
    "tests.fixtures.patchbay",
    "tests.fixtures.links",
    "tests.fixtures.servers.activemq",
    "tests.fixtures.servers.artemis",
    "tests.fixtures.servers.apache_kafka",
    "tests.fixtures.servers.spark",
    "tests.fixtures.servers.spark_cluster",
)

pytest.register_assert_rewrite("history.contract", "triggers.providers.contract", "tests.crash.helpers.books")
pytest.register_assert_rewrite("tests.contract.beside", "tests.crash.helpers.brokers")
pytest.register_assert_rewrite(*SERVER_FIXTURES)


# How long an example takes says something of the machine, and nothing of what is tested.
settings.register_profile("tests", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tests")

#: The tests of whole programs, and those without servers.
ACCEPTANCE, UNIT = ROOT / "tests" / "acceptance", ROOT / "tests" / "unit"

#: How many times longer tests may take here. A test that hangs must fail before the time of CI is over.
SLOWNESS = min(slowness(), 4.0)

#: The numbers of the folders of tests.
_FOLDERS = count()

#: The groups that last longest, these first: each has one worker to itself, for which all others would wait.
LONG_GROUPS = ("spark", "spark-edges", "activemq", "rabbitmq", "apache-kafka")


@pytest.fixture(scope="session", autouse=True)
def _state_of_the_tests(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep what services and commands put into their user's state directory out of that of whoever tests.

    Processes that tests start inherit it.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(autouse=True)
def _no_reports_after_the_test() -> Iterator[None]:
    """Stop the threads that report counts: a later test may use the same server."""
    yield
    if (reporting := sys.modules.get("triggers.metrics.reporting")) is not None:
        for reports in list(reporting._ALL):  # noqa: SLF001
            reports._is_new = False  # noqa: SLF001  (close() would report them)
            reports.close()


@pytest.fixture
def tmp_path(tmp_path: Path) -> Path:
    """Give each test a folder whose name no test of this process has had.

    The folder of a test that passed is deleted, and pytest gives its name to another. Spark's driver and its
    Python workers would take the files of the one for those of the other: they keep histories open by URL.
    """
    folder = tmp_path / str(next(_FOLDERS))
    folder.mkdir()
    return folder


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> None:
    """Load the fixtures of servers before the first module that may use them."""
    if UNIT not in module_path.parents:
        for name in SERVER_FIXTURES:
            parent.config.pluginmanager.import_plugin(name)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect ten thousand tests, which stay: what looks for garbage need not look at them, then or later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Let each test draw the same numbers again when the run is given the seed that this one prints."""
    random.seed(f"{item.config.getoption('random_order_seed')} {item.nodeid}")


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown() -> None:
    """Forget what a command that ran in this process has set for the rest of it."""
    logging.getLogger(VERDICT_LOGGER).setLevel(logging.NOTSET)


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable() -> Generator[None, object, object]:
    """Let a worker report what cannot be encoded, such as half a character in a log line: it would end it."""
    return _encodable((yield))


def _encodable(part: object) -> object:
    if isinstance(part, str):
        return part if part.isascii() else part.encode(errors="backslashreplace").decode()
    if isinstance(part, dict):
        parts = cast("dict[object, object]", part)
        return {_encodable(key): _encodable(value) for key, value in parts.items()}
    if isinstance(part, list):
        return [_encodable(one) for one in cast("list[object]", part)]
    if isinstance(part, tuple):
        return tuple(_encodable(one) for one in cast("tuple[object, ...]", part))
    return part


@pytest.hookimpl(tryfirst=True, specname="pytest_collection_modifyitems")
def pytest_mark_what_runs_every_day(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests of ``make test``, before ``-m`` chooses among all."""
    found: set[str | None] = set()
    for item in items:
        found.add(path_of(item.nodeid))
        if is_everyday(item.nodeid, slow=item.get_closest_marker("slow") is not None):
            item.add_marker("everyday")
    is_whole = config.args_source is not pytest.Config.ArgsSource.ARGS
    if is_whole and (missing := [name for name in PATHS if name not in found]):
        raise pytest.UsageError(f"tests/fixtures/everyday.py names what is not there: {missing}")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Give each test the time that this machine needs, and begin with what lasts long."""
    usual = float(config.getoption("timeout") or config.getini("timeout"))
    for item in items:
        marker = item.get_closest_marker("timeout")
        seconds = usual if marker is None else float(marker.args[0])
        item.add_marker(pytest.mark.timeout(seconds * SLOWNESS), append=False)
    items.sort(key=_place_in_line)


def _place_in_line(item: pytest.Item) -> int:
    """Return where a test stands: groups first, then whole processes; what is short fills the end."""
    group = item.get_closest_marker("xdist_group")
    if group is not None:
        name = group.args[0]
        return LONG_GROUPS.index(name) if name in LONG_GROUPS else len(LONG_GROUPS)
    whole = item.get_closest_marker("crash") is not None or ACCEPTANCE in item.path.parents
    return len(LONG_GROUPS) + (1 if whole else 2)
