"""Files of users that have the name of one of our packages: one hides the other.

Python takes the first ``history``, ``resolvers`` or ``triggers`` that it finds, and a script's own folder
comes first. Python's own error then only says that a module is missing.
"""

import sys
from importlib.util import find_spec
from pathlib import Path

#: Our packages.
OURS = ("doubtless", "history", "resolvers", "triggers")

_HOME = Path(__file__).resolve().parents[2]


def hiding() -> str | None:
    """Return which module that is not ours Python imports instead of one of our packages; None if none."""
    for name in OURS:
        file = _file_of(name)
        if file is not None and not _is_ours(Path(file)):
            return remedy(Path(file), name)
    return None


def hidden_in(folder: Path) -> str | None:
    """Return which file of a folder cannot be imported because a package of ours has its name, or None."""
    for name in OURS:
        for file in (folder / f"{name}.py", folder / name / "__init__.py"):
            if file.is_file() and not _is_ours(file):
                return remedy(file, name)
    return None


def remedy(file: Path, name: str) -> str:
    """Return what to rename."""
    culprit = file.parent if file.name == "__init__.py" else file
    suffix = "" if culprit is not file else ".py"
    return (
        f"{culprit} has the name of a package of doubtless, so that only one of them can be imported: "
        f"rename it, such as to my_{name}{suffix}"
    )


def _file_of(name: str) -> str | None:
    if (module := sys.modules.get(name)) is not None:
        return getattr(module, "__file__", None)
    spec = find_spec(name)
    return spec.origin if spec is not None else None


def _is_ours(file: Path) -> bool:
    return file.resolve().is_relative_to(_HOME) and file.resolve().parent.parent == _HOME
