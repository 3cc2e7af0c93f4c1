"""The fixtures of all tests; each file of ``fixtures/`` is one kind of part."""

import signal

import pytest

# A shell that starts the tests in the background lets them ignore Ctrl-C, and every command that they start.
signal.signal(signal.SIGINT, signal.default_int_handler)

pytest.register_assert_rewrite("history.contract", "triggers.providers.contract", "tests.crash.books")

pytest_plugins = [
    "tests.fixtures.redis",
    "tests.fixtures.sqljms",
    "tests.fixtures.postgres",
    "tests.fixtures.rabbitmq",
    "tests.fixtures.network",
    "tests.fixtures.histories",
    "tests.fixtures.patchbay",
    "tests.fixtures.links",
    "tests.fixtures.activemq",
    "tests.fixtures.spark",
    "tests.fixtures.spark_cluster",
]


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the groups: each has one worker to itself, else all wait for it in the end."""
    items.sort(key=lambda item: item.get_closest_marker("xdist_group") is None)
