"""Runs pytest with a bug planted in one file: ``python -m tests.mutants.planting FILE BEFORE AFTER TEST``.

Nothing is written to the disk: the text is replaced when the file is loaded. This needs a separate process,
because a cache from an earlier test would hide the planted bug.
"""

import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path

import pytest

from tests import ROOT

#: The exit code if the text is not in the file exactly once.
NOT_PLANTED = 90


def plant(file: Path, before: str, after: str) -> None:
    """Replace a text in a Python module, or in a script, when it is loaded."""
    whole = file.read_text(encoding="utf-8")
    if whole.count(before) != 1:
        sys.exit(NOT_PLANTED)
    planted = whole.replace(before, after)
    get_code, read_text = SourceFileLoader.get_code, Path.read_text

    def code_of(loader: SourceFileLoader, name: str) -> object:
        if loader.path and Path(loader.path) == file:
            return compile(planted, loader.path, "exec", dont_inherit=True)
        return get_code(loader, name)

    def text_of(path: Path, encoding: str | None = None, errors: str | None = None) -> str:
        return planted if path == file else read_text(path, encoding, errors)

    # A loader has no other place in which its text could be replaced.
    SourceFileLoader.get_code = code_of  # type: ignore[method-assign, assignment]
    Path.read_text = text_of  # type: ignore[method-assign, assignment]


if __name__ == "__main__":
    planted_file, text_before, text_after, test = sys.argv[1:]
    plant(ROOT / planted_file, text_before, text_after)
    sys.exit(pytest.main(["-x", "-q", test]))
