"""Compare what pyproject.toml allows, what is installed and resolutions with the list of known holes.

``audit.py [RESOLUTION.txt ...] [ANSWER.json ...]``: ``uv pip compile`` wrote each ``.txt``, pip-audit each
``.json``. It prints each hole, and exits with 1 if there is one that ``advisories.toml`` does not accept.
"""

import json
import sys
import tomllib
from collections.abc import Iterable, Iterator
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.specifiers import Specifier
from packaging.utils import canonicalize_name
from packaging.version import Version

HERE = Path(__file__).parent
Advisory = dict[str, Any]


def declared(project: dict[str, Any]) -> Iterator[Requirement]:
    """Return the requirements of the package and of its extras for users; our tools are installed."""
    extras = project["optional-dependencies"]
    groups = [
        project["dependencies"],
        *(extras[name] for name in extras if name not in {"bench", "test", "dev"}),
    ]
    return (Requirement(line) for group in groups for line in group)


def of_declared(requirements: Iterable[Requirement], advisories: Iterable[Advisory]) -> Iterator[str]:
    """Return the holes that some allowed version has.

    Two ranges share a version where one of them begins, so it is enough to look at the first versions of
    both, and at the first after each that is left out.
    """
    asked = list(requirements)
    for advisory in advisories:
        for one in asked:
            if canonicalize_name(one.name) != advisory["package"]:
                continue
            begin = [Version(advisory.get("since", "0")), *map(first, one.specifier)]
            if any(is_affected(version, advisory) and version in one.specifier for version in begin):
                yield f"pyproject.toml allows {one}: {words(advisory)}"


def first(bound: Specifier) -> Version:
    """Return the first version that a bound may let in: of ``!=2.12.*`` that is 2.13."""
    version = Version(bound.version.removesuffix(".*"))
    if bound.operator != "!=":
        return version
    return Version(".".join(map(str, (*version.release[:-1], version.release[-1] + 1))))


def of_versions(
    where: str, versions: Iterable[tuple[str, str]], advisories: Iterable[Advisory]
) -> Iterator[str]:
    """Return the holes of exact versions, which are pairs of a name and a version."""
    known = list(advisories)
    for name, version in versions:
        for advisory in known:
            if canonicalize_name(name) == advisory["package"] and is_affected(Version(version), advisory):
                yield f"{where} has {name} {version}: {words(advisory)}"


def of_answer(where: str, answer: dict[str, Any], accepted: Iterable[str]) -> Iterator[str]:
    """Return the holes that pip-audit reports, without the accepted ones."""
    known = set(accepted)
    for package in answer["dependencies"]:
        for hole in package.get("vulns", ()):
            if known.isdisjoint([hole["id"], *hole["aliases"]]):
                yield f"{where} has {package['name']} {package['version']}: {hole['id']}, says pip-audit"


def is_affected(version: Version, advisory: Advisory) -> bool:
    """Tell whether a version has the hole."""
    return Version(advisory.get("since", "0")) <= version < Version(advisory["unaffected"])


def words(advisory: Advisory) -> str:
    """Say what the hole is, and which version has it no more."""
    return f"{advisory['ids'][0]}, {advisory['why']}; take {advisory['unaffected']} or newer"


def pinned(file: Path) -> Iterator[tuple[str, str]]:
    """Return the versions that a resolution holds: lines such as ``name==1.2 ; marker``."""
    lines = (line.partition(";")[0].strip() for line in file.read_text(encoding="utf-8").splitlines())
    pairs = (line.partition("==") for line in lines if "==" in line)
    return ((name, version) for name, _, version in pairs)


def main(names: list[str]) -> int:
    """Print all holes; return 1 if there is one."""
    kept = tomllib.loads((HERE / "advisories.toml").read_text(encoding="utf-8"))
    project = tomllib.loads((HERE.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    advisories = [one for one in kept["advisory"] if "accepted" not in one]
    accepted = [name for one in kept["advisory"] if "accepted" in one for name in one["ids"]]
    here = ((one.name, one.version) for one in distributions())
    holes = [*of_declared(declared(project), advisories), *of_versions("this environment", here, advisories)]
    answered = 0
    for file in map(Path, names):
        if file.suffix == ".txt":
            holes += of_versions(file.stem, pinned(file), advisories)
        else:
            answer = json.loads(file.read_text(encoding="utf-8") or '{"dependencies": []}')
            answered += sum("vulns" in one for one in answer["dependencies"])
            holes += of_answer(file.stem, answer, accepted)
    sys.stdout.writelines(f"{hole}\n" for hole in dict.fromkeys(holes))
    service = f"pip-audit's service knew {answered}" if answered else "pip-audit's service was not reached"
    sys.stdout.write(
        f"{len(holes)} holes; {len(kept['advisory'])} advisories of {kept['looked_up']}; {service}\n"
    )
    return 1 if holes else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
