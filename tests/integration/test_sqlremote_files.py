"""What may happen to files in a shared folder: lost, copied, cut off, emptied, replaced by garbage."""

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.integration.linked import both, linked
from triggers.providers.sqlremote.carriers.directory import DirectoryCarrier


def lose(file: Path) -> None:
    file.unlink()


def copy(file: Path) -> None:
    shutil.copy(file, file.with_name("00-" + file.name))


def cut_off(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-20])


def empty(file: Path) -> None:
    file.write_bytes(b"")


def replace_by_garbage(file: Path) -> None:
    file.write_bytes(b"\0garbage" * 100)


def make_too_long(file: Path) -> None:
    file.write_bytes(file.read_bytes() + bytes(60_000))


@pytest.mark.parametrize("mishap", [lose, copy, cut_off, empty, replace_by_garbage, make_too_long])
def test_a_mishap_to_a_file_is_made_good(
    link_databases: Sequence[str], tmp_path: Path, mishap: Callable[[Path], None]
) -> None:
    carrier = DirectoryCarrier(tmp_path / "mail", largest=60_000)
    with linked(link_databases, carrier, probe_after=60, compression=0) as (x, y):
        x.run()
        y.run()
        for number in range(3):
            x.commit(number, "x" * 60_000)
        x.clock.pass_by()
        x.run()
        files = sorted((tmp_path / "mail" / "y").glob("*.msg"))
        mishap(files[len(files) // 2])

        both(x, y, rounds=8)

        assert y.got == [one for number in range(3) for one in (str(number), "x" * 60_000)]
        assert x.p[:2] == (3, 3)
        assert not list((tmp_path / "mail" / "y").glob("*.msg")), "nothing is left lying there"
