"""``.ci/audit.py``: no version with a known hole may be installed with the package."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests import ROOT

ADVISORIES = """\
looked_up = 2026-11-27

[[advisory]]
package = "some-parser"
ids = ["CVE-1", "GHSA-1"]
since = "2.0"
unaffected = "2.4.1"
why = "it runs what it reads"
source = "a test"

[[advisory]]
package = "old-one"
ids = ["CVE-2", "GHSA-2"]
unaffected = "1.1"
why = "it forgets"
source = "a test"
accepted = "we never ask it"
"""


def audit(*files: Path, folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, str(folder / ".ci" / "audit.py"), *map(str, files)]
    return subprocess.run(words, capture_output=True, text=True, check=False)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with a list of two advisories, and with a pyproject.toml that :func:`allow` writes."""
    (tmp_path / ".ci").mkdir()
    (tmp_path / ".ci" / "audit.py").write_text((ROOT / ".ci" / "audit.py").read_text())
    (tmp_path / ".ci" / "advisories.toml").write_text(ADVISORIES)
    return tmp_path


def allow(project: Path, *requirements: str, extra: str = "parsing") -> None:
    groups = f"{extra} = {json.dumps(requirements)}"
    text = f"[project]\ndependencies = []\n[project.optional-dependencies]\n{groups}\n"
    (project / "pyproject.toml").write_text(text)


def test_nothing_that_we_allow_and_nothing_that_is_installed_has_a_known_hole() -> None:
    done = audit()

    assert done.returncode == 0, done.stdout


def test_each_advisory_says_where_it_was_read() -> None:
    kept = tomllib.loads((ROOT / ".ci" / "advisories.toml").read_text())

    assert kept["advisory"]
    for one in kept["advisory"]:
        assert one["ids"], one
        assert one["why"], one
        assert one["source"], one


@pytest.mark.parametrize(
    "asked",
    [
        "some-parser>=2.3",
        "Some_Parser>=1.5",
        "some-parser",
        "some-parser>=2.3,<3; python_version < '3.12'",
        "some-parser[fast]>=2.3,!=2.4.*",
        "some-parser>=1.5,!=2.0.*",
        "some-parser==2.4.0",
    ],
)
def test_an_extra_that_allows_an_affected_version_is_refused(project: Path, asked: str) -> None:
    allow(project, asked)

    done = audit(folder=project)

    assert done.returncode == 1
    assert "CVE-1" in done.stdout


@pytest.mark.parametrize(
    "asked",
    ["some-parser>=2.4.1", "some-parser>=1.5,<2", "some-parser>=2.3,!=2.3.*,!=2.4.0", "old-one", "another"],
)
def test_an_extra_that_allows_no_affected_version_is_not(project: Path, asked: str) -> None:
    allow(project, asked)

    assert audit(folder=project).returncode == 0


def test_tools_and_tests_of_our_own_are_looked_at_as_they_are_installed(project: Path) -> None:
    allow(project, "some-parser>=2.3", extra="dev")

    assert audit(folder=project).returncode == 0


@pytest.mark.parametrize(("line", "code"), [("some-parser==2.4.0 ; marker", 1), ("some-parser==2.4.1", 0)])
def test_each_version_of_a_resolution_is_looked_at(project: Path, line: str, code: int) -> None:
    allow(project)
    resolution = project / "lowest.txt"
    resolution.write_text(f"another==1.0\n{line}\n")

    done = audit(resolution, folder=project)

    assert done.returncode == code
    assert ("lowest has some-parser 2.4.0" in done.stdout) is bool(code)


@pytest.mark.parametrize(("aliases", "code"), [(["CVE-9"], 1), (["CVE-2"], 0)])
def test_what_pip_audit_has_found_is_refused_unless_it_is_accepted(
    project: Path, aliases: list[str], code: int
) -> None:
    allow(project)
    hole = {"id": "PYSEC-9", "aliases": aliases, "fix_versions": ["3"]}
    answer = project / "lowest.json"
    answer.write_text(
        json.dumps({"dependencies": [{"name": "one", "version": "1", "vulns": [hole]}], "fixes": []})
    )

    assert audit(answer, folder=project).returncode == code


@pytest.mark.parametrize(
    "text", ["", '{"dependencies": [{"name": "one", "skip_reason": "not found"}], "fixes": []}']
)
def test_it_is_said_that_the_service_of_pip_audit_was_not_reached(project: Path, text: str) -> None:
    allow(project)
    answer = project / "lowest.json"
    answer.write_text(text)

    done = audit(answer, folder=project)

    assert done.returncode == 0
    assert "was not reached" in done.stdout
