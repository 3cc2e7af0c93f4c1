"""A private Redis server as a child process: for tests, the demo and the benchmarks."""

import os
import shutil
import socket
import time
from contextlib import suppress
from itertools import chain, count
from pathlib import Path
from random import SystemRandom
from typing import Any, Self, cast

import redis

from history.errors import ConfigurationError
from triggers.testing.child import Child, ChildServer

#: How long a server may take to answer its first PING, in seconds.
START_TIMEOUT = 60.0


#: Ports below the range that systems choose for outgoing connections, which could take a server's port.
PORTS = range(10_000, 32_000)

#: How many ports a process uses in turn before others. So a port is not given out again soon, by this process
#: or another, even while a server is stopped that will start again on its port.
OWN = 200

_given_out = count()


def free_port() -> int:
    """Return a TCP port on loopback that was free a moment ago, and that nobody gets by chance.

    Raises:
        RuntimeError: none was free among many.
    """
    own = PORTS.start + os.getpid() * OWN % len(PORTS)
    in_turn = (own + next(_given_out) % OWN for _ in range(OWN))
    for port in chain(in_turn, SystemRandom().sample(PORTS, 1000)):
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise RuntimeError(f"of {len(PORTS)} ports from {PORTS.start} on, 1,200 were tried, and none is free")


class RedisServer(ChildServer):
    """``redis-server`` on a free port of 127.0.0.1, with its data in ``folder``.

    By default it writes every change to disk before it answers, as a document history needs it; ``settings``
    adds other settings, in the words of redis.conf. ``environment`` is added to the environment of this
    process at its start.

    Raises:
        ConfigurationError: there is no ``redis-server`` on the PATH.
    """

    def __init__(self, folder: Path, **settings: str) -> None:
        self.folder = folder
        self.port = free_port()
        self.environment: dict[str, str] = {}
        self.settings = {"appendonly": "yes", "appendfsync": "always", "save": "", **settings}

    @property
    def url(self) -> str:
        """The URL of database 0."""
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> Self:
        """Start, or start again on the same port and data, and wait until it answers.

        Raises:
            ConfigurationError: the server is not installed.
            RuntimeError: it did not start; the text has the end of its log.
        """
        program = shutil.which("redis-server")
        if program is None:
            raise ConfigurationError("redis-server", "not found on the PATH", "apt-get install redis-server")
        arguments = [word for name, value in self.settings.items() for word in (f"--{name}", value)]
        base = ["--bind", "127.0.0.1", "--port", str(self.port), "--dir", str(self.folder)]
        with (self.folder / "redis.log").open("ab") as log:
            environment = {**os.environ, **self.environment}
            self._process = Child([program, *base, *arguments], stdout=log, stderr=log, env=environment)
        self._wait_until_it_answers()
        return self

    def _wait_until_it_answers(self) -> None:
        deadline = time.monotonic() + START_TIMEOUT
        # As Any: redis-py types its answers as blocking or not.
        with cast("Any", redis.Redis)(port=self.port) as client:
            while True:
                try:
                    client.ping()
                except redis.ConnectionError:
                    if not self.running or time.monotonic() > deadline:
                        log = (self.folder / "redis.log").read_text(errors="replace")
                        raise RuntimeError(f"redis-server did not start:\n{log[-2000:]}") from None
                    time.sleep(0.01)
                else:
                    return
