"""Empty virtual environments with the wheel in them, as a user makes one; `.ci/installs` names the tools."""

import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests import ROOT
from tests.acceptance.docs.pages import in_path
from tests.fixtures.waiting import patience

#: How long an installation may take, in seconds: the client of AMQP 1.0 is compiled, and Spark is 400 MB.
INSTALLING = patience(600.0)

#: The time limit of a program in an environment, in seconds.
RUNNING = patience(180.0)

#: Where uv puts versions of Python that this machine has not.
BROUGHT = ROOT / "build" / "pythons"

#: Every extra for users.
EXTRAS = (
    *("asyncio", "postgres", "http", "spark", "jms", "amqp", "rabbitmq", "kafka", "nats", "sqs"),
    *("celery", "dramatiq", "taskiq", "faststream", "dashboard", "encryption", "metrics", "otel"),
)


@dataclass(frozen=True, slots=True)
class Kind:
    """An installation: an extra, or ``plain``; with the oldest versions that are allowed, or the newest.

    ``pinned`` lists packages with another version, as pip writes them.
    """

    extra: str
    oldest: bool = False
    python: str = f"{sys.version_info.major}.{sys.version_info.minor}"
    pinned: tuple[str, ...] = ()

    def __str__(self) -> str:
        age = "oldest" if self.oldest else "newest"
        return "-".join([self.extra, age, self.python, *self.pinned])

    @property
    def wants(self) -> str:
        """The extra as pip writes it."""
        return "" if self.extra == "plain" else f"[{self.extra}]"


@dataclass(frozen=True, slots=True)
class Environment:
    """A virtual environment with the packages of ``kind``, and nothing else."""

    kind: Kind
    programs: Path

    def run(self, *words: str | Path, folder: Path, code: int = 0) -> subprocess.CompletedProcess[str]:
        """Run one of its programs in ``folder``, where nothing of the checkout can be found."""
        program, *rest = words
        ended = subprocess.run(
            [self.programs / program, *rest],
            cwd=folder,
            env=self.settings(folder),
            capture_output=True,
            text=True,
            check=False,
            timeout=RUNNING,
        )
        assert ended.returncode == code, f"{ended.stdout[-2000:]}\n{ended.stderr[-3000:]}"
        return ended

    def has_distribution(self, name: str) -> bool:
        """Whether a distribution is installed; ``name`` as its folder has it."""
        return any(self.programs.parent.glob(f"lib/python*/site-packages/{name}-*.dist-info"))

    def settings(self, folder: Path) -> dict[str, str]:
        """Return environment variables in which no checkout and no other environment is named."""
        ours = ("DOUBTLESS_", "PYTHON", "PYSPARK_", "PYTEST_", "VIRTUAL_ENV", "CI")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
        return {**kept, "PATH": in_path(self.programs), "XDG_STATE_HOME": str(folder / "state")}


def make(kind: Kind, folder: Path, *, pip: bool = False) -> Environment:
    """Make an environment in an empty folder; with ``pip`` in it, where somebody is to type that."""
    python, base = folder / "bin" / "python", find_python(kind.python)
    assert base is not None, f"Python {kind.python} is not on this machine"
    _uv("venv", "--python", base, *(["--seed"] if pip else []), folder)
    pinned = ("-r", str(_oldest(kind, folder))) if kind.oldest else ()
    wheel = Path(os.environ["DOUBTLESS_WHEEL"]).absolute()
    _uv(
        "pip", "install", "--python", python, *pinned, *kind.pinned, f"doubtless{kind.wants} @ file://{wheel}"
    )
    return Environment(kind, folder / "bin")


def _oldest(kind: Kind, folder: Path) -> Path:
    """Write down the oldest versions of all requirements that pyproject allows."""
    pinned = folder / "oldest.txt"
    extra = [] if kind.extra == "plain" else ["--extra", kind.extra]
    told = ["--resolution", "lowest-direct", "--python-version", kind.python, *extra]
    _uv("pip", "compile", *told, "-o", pinned, ROOT / "pyproject.toml")
    return pinned


def _uv(*words: str | Path) -> None:
    ended = subprocess.run(
        [os.environ["UV"], "--quiet", "--no-config", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=INSTALLING,
    )
    assert ended.returncode == 0, ended.stderr


@cache
def find_python(version: str) -> str | None:
    """Return the program of a version of Python, such as ``3.13``: of this machine, or as uv brings it."""
    found = _first_of(version, _pythons(version))
    if found is None:
        try:
            _uv("python", "install", "--no-bin", "--install-dir", BROUGHT, version)
        except AssertionError:
            return None
        found = _first_of(version, BROUGHT.glob(f"*/bin/python{version}"))
    return found


def _first_of(version: str, programs: Iterable[str | Path]) -> str | None:
    for program in programs:
        asked = [program, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
        try:
            ended = subprocess.run(asked, capture_output=True, text=True, check=False)
        except OSError:
            continue
        if ended.returncode == 0 and ended.stdout.strip() == version:
            return str(program)
    return None


def _pythons(version: str) -> Iterator[str | Path]:
    yield sys.executable
    yield f"python{version}"
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    yield from sorted(pyenv.glob(f"versions/{version}*/bin/python"), reverse=True)
