"""Private servers of a measurement, in folders that are deleted afterwards."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from triggers.testing.postgres_server import PostgresServer
from triggers.testing.redis_server import RedisServer

#: The usual settings of a Redis that must not lose data, for all rows. Rewriting its log would disturb.
SETTINGS = {"appendfsync": "everysec", "auto-aof-rewrite-percentage": "0"}


@contextmanager
def scratch() -> Generator[Path]:
    """Make a folder that the user of a server can reach."""
    with TemporaryDirectory(prefix="doubtless-bench-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


@contextmanager
def private_redis() -> Generator[RedisServer]:
    """Start a Redis."""
    with scratch() as folder, RedisServer(folder, **SETTINGS) as server:
        yield server


@contextmanager
def private_postgres() -> Generator[PostgresServer]:
    """Start a PostgreSQL."""
    with scratch() as folder, PostgresServer(folder) as server:
        yield server
