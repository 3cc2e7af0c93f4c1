"""``.ci/setup``: uv installs with pip's own indexes, and pip where uv cannot; the docs name its versions."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import ROOT

pytestmark = pytest.mark.slow

#: Programs of a virtual environment that record their arguments; ``pip config`` is real.
PYTHON = """#!/bin/sh
case "$*" in
  *uv_settings.py|*"config list"|-c*) exec {python} "$@" ;;
esac
echo "python $*" >>{log}
"""
UV = """#!/bin/sh
echo "uv $* from $UV_DEFAULT_INDEX $UV_INDEX $UV_FIND_LINKS" >>{log}
exit {code}
"""

PIP_CONFIG = """[global]
index-url = https://packages.example/simple
extra-index-url = file:///one/simple
  file:///two/simple
find-links = /wheels
"""

PIP = "python -m pip install -q --disable-pip-version-check"


@pytest.fixture
def venv(tmp_path: Path) -> Path:
    """A folder that looks like a virtual environment."""
    programs = tmp_path / "venv" / "bin"
    programs.mkdir(parents=True)
    (tmp_path / "pip.conf").write_text(PIP_CONFIG)
    return tmp_path / "venv"


def put(venv: Path, name: str, text: str) -> None:
    (venv / "bin" / name).write_text(text)
    (venv / "bin" / name).chmod(0o755)


def set_up(venv: Path, what: str, *, pip_config: str = "pip.conf") -> list[str]:
    log = venv.parent / "called"
    put(venv, "python", PYTHON.format(python=sys.executable, log=log))
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "UV_"))}
    environment = {
        **kept,
        "VENV": str(venv),
        "PYTHON": sys.executable,
        "PIP_CONFIG_FILE": str(venv.parent / pip_config),
    }
    subprocess.run([ROOT / ".ci" / "setup", what], env=environment, check=True, capture_output=True)
    return log.read_text().splitlines()


def uv_that_ends_with(code: int, venv: Path) -> None:
    put(venv, "uv", UV.format(log=venv.parent / "called", code=code))


def test_uv_installs_from_the_indexes_that_pip_has(venv: Path) -> None:
    uv_that_ends_with(0, venv)

    called = set_up(venv, "run")

    indexes = "https://packages.example/simple file:///one/simple file:///two/simple /wheels"
    assert called == [f"uv pip install -q --python {venv}/bin/python -e .[spark,dashboard] from {indexes}"]


@pytest.mark.parametrize(("what", "extra"), [("run", "spark,dashboard"), ("dev", "dev")])
def test_where_uv_fails_pip_installs_the_same(venv: Path, what: str, extra: str) -> None:
    uv_that_ends_with(1, venv)

    tried, installed, *peer = set_up(venv, what)

    assert tried.startswith(f"uv pip install -q --python {venv}/bin/python -e .[{extra}] ")
    assert installed == f"{PIP} -e .[{extra}]"
    assert [called.split()[0] for called in peer] == ([] if what == "run" else ["uv", PIP.partition(" ")[0]])


def test_where_uv_cannot_be_had_pip_installs(venv: Path) -> None:
    assert set_up(venv, "run") == [f"{PIP} uv", f"{PIP} -e .[spark,dashboard]"]


def test_where_pip_is_to_use_no_index_uv_is_not_asked(venv: Path) -> None:
    uv_that_ends_with(0, venv)
    (venv.parent / "offline.conf").write_text("[install]\nno-index = true\nfind-links = /wheels\n")

    assert set_up(venv, "run", pip_config="offline.conf") == [f"{PIP} -e .[spark,dashboard]"]


def version_of(artifact: str, jars: str) -> str:
    """Return the first two numbers of a version that ``.ci/jars`` names."""
    found = re.search(rf"{artifact}</artifactId>\s*<version>(\d+\.\d+)", jars)
    assert found is not None
    return found[1]


@pytest.mark.parametrize(
    ("name", "shown", "artifact"),
    [
        ("delta", "delta-spark", r"delta-spark_[\d.]+"),
        ("iceberg", "Iceberg", r"iceberg-spark-runtime-[\d._]+"),
    ],
)
def test_the_page_names_the_versions_that_a_lake_is_tested_with(name: str, shown: str, artifact: str) -> None:
    jars, setup = (ROOT / ".ci" / "jars" / f"{name}.xml").read_text(), (ROOT / ".ci" / "setup").read_text()
    spark = re.search(rf"setup_lake {name} pyspark==(\d+\.\d+)", setup)
    page = (ROOT / "docs" / "how-to" / "write-from-spark-exactly-once.md").read_text()
    tested, _, _ = page.partition("tested with |\n")[2].partition("\n\n")

    assert spark is not None
    assert f"{shown} {version_of(artifact, jars)} on PySpark {spark[1]}" in tested
