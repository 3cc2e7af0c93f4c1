"""A private RabbitMQ server as a child process: for tests."""

import os
import secrets
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from history.errors import ConfigurationError
from triggers.testing.child import Child
from triggers.testing.redis_server import free_port

#: How long a server may take to answer its first connection, in seconds.
START_TIMEOUT = 60.0

#: Where Debian's package has the program that runs in the foreground and asks for no special user.
PROGRAM = Path("usr/lib/rabbitmq/bin/rabbitmq-server")

#: What a client of AMQP 0-9-1 says first.
_GREETING = b"AMQP\x00\x00\x09\x01"


def is_installed(root: Path = Path("/")) -> bool:
    """Whether there is a server below a root folder, and we may run it: another root than / is for root."""
    return (root / PROGRAM).exists() and (root == Path("/") or os.geteuid() == 0)


class RabbitmqServer:
    """``rabbitmq-server`` on a free port of 127.0.0.1, with its data in a folder that :meth:`close` removes.

    ``root`` is the root folder of the system that the server is installed in: another release of Debian may
    be unpacked beside the running one. ``settings`` are lines of rabbitmq.conf, ``plugins`` names. Quorum
    queues need about three seconds after they are declared before a killed server finds them again.

    Raises:
        ConfigurationError: there is no such server.
    """

    def __init__(
        self,
        folder: Path | None = None,
        *,
        root: Path = Path("/"),
        plugins: tuple[str, ...] = (),
        settings: Mapping[str, str] | None = None,
    ) -> None:
        if not is_installed(root):
            raise ConfigurationError("rabbitmq-server", f"not found in {root}", "see docs/how-to")
        self.root = root
        self.folder = folder or root / "tmp" / f"doubtless-rabbitmq-{secrets.token_hex(6)}"
        self.port, self._dist_port, self._epmd_port = free_port(), free_port(), free_port()
        self.user, self.password = "doubtless", secrets.token_urlsafe(12)
        self.plugins = plugins
        self.settings = dict(settings or {})
        self._processes: list[subprocess.Popen[bytes]] = []

    @property
    def address(self) -> str:
        """User, password, host and port, as they stand in a URL."""
        return f"{self.user}:{self.password}@127.0.0.1:{self.port}"

    @property
    def running(self) -> bool:
        """Whether the server's process lives."""
        return bool(self._processes) and self._processes[-1].poll() is None

    def start(self) -> Self:
        """Start, or start again on the same port and data, and wait until it answers."""
        self._configure()
        # A server that finds no epmd starts one as a daemon, which nobody would end.
        epmd = [*self._inside("epmd"), "-address", "127.0.0.1", "-port", str(self._epmd_port)]
        quiet = subprocess.DEVNULL
        self._processes = [Child(epmd, stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True)]
        _wait_for(self._epmd_port, b"", self._fail)
        with (self.folder / "output").open("ab") as output:
            server = Child(
                self._inside(f"/{PROGRAM}"),
                env=self._environment(),
                stdin=quiet,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self._processes.append(server)
        _wait_for(self.port, _GREETING, self._fail)
        return self

    def _inside(self, program: str) -> list[str]:
        return [program] if self.root == Path("/") else ["chroot", str(self.root), program]

    def _seen(self, path: Path) -> str:
        """Return a path as the server sees it."""
        return f"/{path.absolute().relative_to(self.root.absolute())}"

    def _configure(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        settings = {
            "listeners.tcp.1": f"127.0.0.1:{self.port}",
            "default_user": self.user,
            "default_pass": self.password,
            "loopback_users": "none",
            "disk_free_limit.absolute": "10MB",
            "raft.wal_max_size_bytes": "16777216",
        }
        lines = [f"{name} = {value}\n" for name, value in {**settings, **self.settings}.items()]
        (self.folder / "rabbitmq.conf").write_text("".join(lines))
        (self.folder / "plugins").write_text(f"[{','.join(self.plugins)}].\n")

    def _environment(self) -> dict[str, str]:
        here = self._seen(self.folder)
        return {
            "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
            "LANG": "C.UTF-8",
            "HOME": here,
            "RABBITMQ_NODENAME": f"doubtless{self.port}@localhost",
            "RABBITMQ_MNESIA_BASE": f"{here}/data",
            "RABBITMQ_LOG_BASE": f"{here}/log",
            "RABBITMQ_CONFIG_FILE": f"{here}/rabbitmq",
            "RABBITMQ_CONF_ENV_FILE": "/dev/null",
            "RABBITMQ_ENABLED_PLUGINS_FILE": f"{here}/plugins",
            "RABBITMQ_GENERATED_CONFIG_DIR": f"{here}/generated",
            "RABBITMQ_DIST_PORT": str(self._dist_port),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
            "ERL_EPMD_PORT": str(self._epmd_port),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
        }

    def _fail(self) -> None:
        """Raise when the server cannot come up any more, and at the end of everybody's patience."""
        if all(one.poll() is None for one in self._processes):
            return
        output = self.folder / "output"
        told = output.read_text(errors="replace")[-2000:] if output.exists() else ""
        self.kill()
        raise RuntimeError(f"rabbitmq-server did not start:\n{told}")

    def stop(self) -> None:
        """Ask it to end, and wait; what was confirmed is on disk."""
        if self.running:
            os.killpg(self._processes[-1].pid, signal.SIGTERM)
            self._processes[-1].wait()
        self.kill()

    def kill(self) -> None:
        """End it and all that it started with SIGKILL, as a crash would."""
        for process in self._processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        self._processes = []

    def close(self) -> None:
        """End it and remove its data."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _wait_for(port: int, greeting: bytes, check: Callable[[], None]) -> None:
    """Wait until somebody answers a greeting on a port; an empty one is answered by the connection."""
    deadline = time.monotonic() + START_TIMEOUT
    while not _answers(port, greeting):
        check()
        if time.monotonic() > deadline:
            raise RuntimeError(f"nobody answers on port {port}")
        time.sleep(0.02)


def _answers(port: int, greeting: bytes) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), 1) as connection:
            connection.sendall(greeting)
            return not greeting or bool(connection.recv(1))
    except OSError:
        return False
