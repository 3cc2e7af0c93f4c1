"""The package ``doubtless`` exports the objects of its packages, without importing drivers."""

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from tests import ROOT

FACES = {
    "doubtless.history": "history",
    "doubtless.resolvers": "resolvers",
    "doubtless.providers": "triggers.providers",
    "doubtless.sinks": "triggers.sinks",
    "doubtless.spark": "triggers.spark",
    "doubtless.testing": "triggers.testing",
    "doubtless.configuration": "triggers.configuration",
    "doubtless.patchbay": "triggers.patchbay",
    "doubtless.guards": "triggers.guards",
    **{f"doubtless.guards.{name}": f"triggers.guards.{name}" for name in ("celery", "dramatiq", "http")},
    **{f"doubtless.guards.{name}": f"triggers.guards.{name}" for name in ("faststream", "taskiq")},
}


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run Python in a folder like a user: Python finds the folder's files first."""
    return subprocess.run(
        [sys.executable, *words], cwd=folder, capture_output=True, text=True, check=False, timeout=120
    )


@pytest.mark.parametrize("face", FACES)
def test_a_face_has_the_names_of_its_package(face: str) -> None:
    shown, package = import_module(face), import_module(FACES[face])

    assert [name for name in package.__all__ if getattr(shown, name) is not getattr(package, name)] == []
    assert [name for name in shown.__all__ if not hasattr(shown, name)] == []
    assert set(shown.__all__) >= set(package.__all__)


def test_the_module_runs_the_command_line(tmp_path: Path) -> None:
    ended = run(tmp_path, "-m", "doubtless", "--version")

    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.startswith("doubtless ")


@pytest.mark.parametrize("name", ["history", "resolvers", "triggers"])
@pytest.mark.parametrize("form", ["{}.py", "{}/__init__.py"])
def test_a_file_that_hides_a_package_is_named_with_the_remedy(tmp_path: Path, name: str, form: str) -> None:
    foreign = tmp_path / form.format(name)
    foreign.parent.mkdir(exist_ok=True)
    foreign.touch()

    ended = run(tmp_path, "-c", "import doubtless")

    last = ended.stderr.splitlines()[-1]
    assert last.startswith("ImportError: ")
    assert str(tmp_path / name) in last
    assert f"my_{name}" in last


def test_a_project_with_packages_of_the_same_names_runs_its_pytest(tmp_path: Path) -> None:
    for name in ("history", "resolvers", "triggers"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("OURS = True\n")
    program = (
        "import history, resolvers, triggers\n\ndef test_ours():\n    assert history.OURS and triggers.OURS\n"
    )
    (tmp_path / "test_ours.py").write_text(program)

    ended = run(tmp_path, "-m", "pytest", "-q", "--trace-config", "-p", "no:cacheprovider")

    assert "1 passed" in ended.stdout
    assert "pytest_doubtless" in ended.stdout, "the plugin is installed and loaded"


DRIVERS = (
    *("aiosqlite", "greenlet", "httpx", "jpype", "pandas", "pika", "proton", "psycopg", "pyarrow", "pyspark"),
    *("hypothesis", "pytest", "redis", "rich", "sqlalchemy", "typer"),
)


@pytest.mark.parametrize("package", ["doubtless", "history", "resolvers", "triggers"])
def test_a_package_can_be_imported_where_there_is_no_driver_at_all(package: str) -> None:
    hide = "import sys; sys.modules.update(dict.fromkeys(sys.argv[2:]))"

    ended = subprocess.run(
        [sys.executable, "-W", "error", "-c", f"{hide}; __import__(sys.argv[1])", package, *DRIVERS],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert (ended.returncode, ended.stderr) == (0, "")
