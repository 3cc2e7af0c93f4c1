"""No version with a known hole may be installed with the package: the least versions are safe ones."""

import tomllib
from collections.abc import Iterator

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from tests import ROOT

#: The first version of each package without the holes that were known, and which these were.
SAFE = {
    "starlette": ("1.3.1", "one Range header stops the dashboard for seconds; a forged Host"),
    "h11": ("0.16", "request smuggling by chunked bodies (CVE-2025-43859)"),
    "jinja2": ("3.1.6", "a way out of the sandbox (CVE-2025-27516)"),
    "pyspark": ("3.5.2", "the key of an encrypted channel is not checked (CVE-2025-55039)"),
    "cryptography": ("46.0.5", "points of some curves are not checked (CVE-2026-26007)"),
    "redis": ("4.5.4", "answers go to another caller after a cancellation (CVE-2023-28859)"),
}


def requirements() -> Iterator[Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    groups = [project["dependencies"], *project["optional-dependencies"].values()]
    return (Requirement(line) for group in groups for line in group)


@pytest.mark.parametrize("name", SAFE)
def test_the_least_version_has_no_known_hole(name: str) -> None:
    least = [
        Version(bound.version)
        for one in requirements()
        if one.name == name
        for bound in one.specifier
        if bound.operator == ">="
    ]

    assert least, f"{name} is not named, so any version may come"
    assert min(least) >= Version(SAFE[name][0])
