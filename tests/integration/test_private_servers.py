"""Private servers end with the process that started them, even if it is killed or they cannot start."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fixtures.waiting import eventually
from triggers.testing.redis_server import RedisServer

_STARTED = """
import sys
from pathlib import Path
from triggers.testing.{module} import {server}

with {server}(Path(sys.argv[1])) as server:
    print(server._process.pid, flush=True)
    sys.stdin.read()
"""


#: A worker of a demo. Its server is away, so the worker waits and does not end by itself.
_WORKER = """
import sys
from pathlib import Path
from triggers.demo.ground import Ground
from triggers.demo.job import DemoJob

folder = Path(sys.argv[1])
ground = Ground.redis(folder, "redis://127.0.0.1:1/0")
with DemoJob(folder=folder, ground=ground, orders=folder / "orders.jsonl", say=print)._worker() as worker:
    print(worker.pid, flush=True)
    sys.stdin.read()
"""


def test_a_redis_server_ends_with_the_process_that_was_killed(tmp_path: Path) -> None:
    _check("redis_server", "RedisServer", tmp_path)


def test_a_postgres_server_ends_with_the_process_that_was_killed(postgres_folder: Path) -> None:
    _check("postgres_server", "PostgresServer", postgres_folder)


def test_a_worker_of_the_demo_ends_with_it(tmp_path: Path) -> None:
    _watch([sys.executable, "-c", _WORKER, str(tmp_path)])


def _check(module: str, server: str, folder: Path) -> None:
    _watch([sys.executable, "-c", _STARTED.format(module=module, server=server), str(folder)])


def _watch(command: list[str]) -> None:
    """Start a process that prints the id of its child. Kill it, and wait until the child has ended."""
    parent = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())

        parent.send_signal(signal.SIGKILL)

        eventually(lambda: not _lives(pid))


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # In a container the first process may reap nobody, so the child stays a zombie.
    return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()


def test_a_redis_server_that_cannot_start_leaves_nothing_behind(tmp_path: Path) -> None:
    with socket.socket() as taken:
        server = RedisServer(tmp_path)
        taken.bind(("127.0.0.1", server.port))

        with pytest.raises(RuntimeError, match="did not start"), server:
            pass

    assert not server.running
    with pytest.raises(RuntimeError, match="does not run"):
        assert server.pid
