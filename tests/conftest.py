"""The fixtures of all tests; each file of ``fixtures/`` is one kind of part."""

import signal

import pytest

from tests.fixtures.waiting import slowness

# A shell that starts the tests in the background lets them ignore Ctrl-C, and every command that they start.
signal.signal(signal.SIGINT, signal.default_int_handler)

pytest.register_assert_rewrite("history.contract", "triggers.providers.contract", "tests.crash.helpers.books")

pytest_plugins = [
    "tests.fixtures.servers.redis",
    "tests.fixtures.servers.redis_sentinel",
    "tests.fixtures.sqljms",
    "tests.fixtures.servers.postgres",
    "tests.fixtures.servers.rabbitmq",
    "tests.fixtures.network",
    "tests.fixtures.histories",
    "tests.fixtures.patchbay",
    "tests.fixtures.links",
    "tests.fixtures.servers.activemq",
    "tests.fixtures.servers.spark",
    "tests.fixtures.servers.spark_cluster",
]


#: Every process of the run takes over what its first one has measured.
SLOWNESS = slowness()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Give each test the time that this machine needs, and begin with the groups.

    Each group has one worker to itself, else all wait for it in the end.
    """
    usual = float(config.getoption("timeout") or config.getini("timeout"))
    for item in items:
        marker = item.get_closest_marker("timeout")
        seconds = usual if marker is None else float(marker.args[0])
        item.add_marker(pytest.mark.timeout(seconds * SLOWNESS), append=False)
    items.sort(key=lambda item: item.get_closest_marker("xdist_group") is None)
