"""Importing the packages loads no driver: not those of extras, and not those that every install brings."""

import subprocess
import sys

import pytest

from tests import ROOT

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
