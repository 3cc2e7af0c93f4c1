"""A private PostgreSQL server as a child process: for tests and benchmarks."""

import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from history.errors import ConfigurationError
from triggers.testing.child import Child, ChildServer
from triggers.testing.redis_server import free_port

#: How long a server may take to answer for the first time, in seconds.
START_TIMEOUT = 30.0

#: Where packages install programs that are not on the PATH, one folder per version.
INSTALLATIONS = Path("/usr/lib/postgresql")

#: The user that runs the server if we are root: PostgreSQL refuses root.
UNPRIVILEGED_USER = "postgres"


def find_programs() -> Path | None:
    """Return the folder of the newest ``initdb`` and ``postgres``, or None if there is none."""
    installed = sorted(INSTALLATIONS.glob("*/bin/initdb"), key=_version, reverse=True)
    on_path = shutil.which("initdb")
    for initdb in [*([Path(on_path)] if on_path else []), *installed]:
        folder = initdb.resolve().parent
        if (folder / "postgres").exists():
            return folder
    return None


def _version(initdb: Path) -> float:
    number = initdb.parent.parent.name
    return float(number) if number.replace(".", "", 1).isdigit() else 0.0


class PostgresServer(ChildServer):
    """``postgres`` on a free TCP port of 127.0.0.1, with its data in ``folder``.

    It writes every commit to disk before it answers; ``settings`` adds other settings, in the words of
    postgresql.conf. ``auth`` is how it checks the password, in the words of pg_hba.conf: for ``md5`` a client
    computes a quarter as long. If we are root, the server runs as the user ``postgres``, who gets ``folder``
    and must be able to reach it.

    Raises:
        ConfigurationError: PostgreSQL is not installed.
    """

    def __init__(self, folder: Path, *, auth: str = "scram-sha-256", **settings: str) -> None:
        self.folder = folder
        self._auth = auth
        self.port = free_port()
        self._settings = settings
        self._password = secrets.token_urlsafe(12)

    @property
    def url(self) -> str:
        """The URL of the database ``postgres``, as its superuser."""
        return f"postgresql://postgres:{self._password}@127.0.0.1:{self.port}/postgres"

    @property
    def _log(self) -> Path:
        return self.folder / "postgres.log"

    def start(self) -> Self:
        """Start, or start again on the same port and data, and wait until it answers.

        Raises:
            ConfigurationError: the server is not installed.
            RuntimeError: it did not start; the text has the end of its log.
        """
        programs = find_programs()
        if programs is None:
            raise ConfigurationError("postgres", "initdb not found", "apt-get install postgresql")
        if not (self.folder / "data").exists():
            self._create(programs)
        deadline = time.monotonic() + START_TIMEOUT
        while not self._answers(programs):
            # Repeatedly: after a kill, backends that have not noticed yet still hold the shared memory.
            if not self.running:
                self._launch(programs)
            if time.monotonic() > deadline:
                self.kill()
                raise RuntimeError(
                    f"postgres did not start:\n{self._log.read_text(errors='replace')[-2000:]}"
                )
            time.sleep(0.01)
        return self

    def _create(self, programs: Path) -> None:
        if os.geteuid() == 0:
            shutil.chown(self.folder, UNPRIVILEGED_USER, UNPRIVILEGED_USER)
        password = self.folder / "password"
        password.touch(mode=0o644)
        password.write_text(self._password)
        arguments = [f"--auth={self._auth}", "--username=postgres", f"--pwfile={password}"]
        arguments += ["--encoding=UTF8", "--locale=C", "--no-sync", "--no-instructions"]
        try:
            self._spawn([programs / "initdb", "-D", self.folder / "data", *arguments]).wait()
        finally:
            password.unlink()

    def _launch(self, programs: Path) -> None:
        settings = {"listen_addresses": "127.0.0.1", "unix_socket_directories": "", "port": str(self.port)}
        arguments = [
            w for name, value in (settings | self._settings).items() for w in ("-c", f"{name}={value}")
        ]
        self._process = self._spawn([programs / "postgres", "-D", self.folder / "data", *arguments])

    def _spawn(self, arguments: Sequence[str | Path]) -> subprocess.Popen[bytes]:
        root = os.geteuid() == 0
        with self._log.open("ab") as log:
            return Child(
                arguments,
                cwd=self.folder,
                stdout=log,
                stderr=log,
                user=UNPRIVILEGED_USER if root else None,
                group=UNPRIVILEGED_USER if root else None,
                extra_groups=[] if root else None,
            )

    def _answers(self, programs: Path) -> bool:
        asked: list[str | Path] = [
            programs / "pg_isready",
            "--quiet",
            "--host=127.0.0.1",
            f"--port={self.port}",
        ]
        return self.running and subprocess.run(asked, check=False).returncode == 0

    def stop(self) -> None:
        """Ask it to end, disconnecting everybody, and wait; committed data are on disk."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """End it and its backends with SIGKILL, as a crash of the machine would."""
        backends = self._backends()
        self._end(signal.SIGKILL)
        for backend in backends:
            with contextlib.suppress(ProcessLookupError):
                os.kill(backend, signal.SIGKILL)

    def _backends(self) -> list[int]:
        # Without this, a backend may answer one more query before it notices that its parent is gone.
        if self._process is None:
            return []
        listed = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        return [int(pid) for pid in listed.read_text().split()] if listed.exists() else []

    def restart(self) -> None:
        """Stop it and start it on the same port and data."""
        self.stop()
        self.start()

    def __exit__(self, *_: object) -> None:
        # Immediate shutdown: no checkpoint, but unlike after a kill nobody writes to the folder any more.
        self._end(signal.SIGQUIT)
