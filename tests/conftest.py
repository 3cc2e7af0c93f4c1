"""The fixtures of all tests; each file of ``fixtures/`` is one kind of part."""

import pytest

pytest.register_assert_rewrite("history.contract", "triggers.providers.contract")

pytest_plugins = [
    "tests.fixtures.redis",
    "tests.fixtures.postgres",
    "tests.fixtures.network",
    "tests.fixtures.histories",
]
