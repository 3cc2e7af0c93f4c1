"""The fixtures of all tests; each file of ``fixtures/`` is one kind of part."""

pytest_plugins = ["tests.fixtures.redis"]
