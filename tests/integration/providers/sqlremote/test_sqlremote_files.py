"""Files in a shared folder may be lost, copied, cut off, emptied, or replaced by garbage."""

import os
import shutil
import socket
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from history.bridge import drive
from tests.integration.providers.sqlremote.link_ends import both, linked
from triggers.providers.sqlremote.carriers.directory import DirectoryCarrier
from triggers.providers.sqlremote.carriers.table import TableCarrier


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


def be_a_pipe(file: Path) -> None:
    os.mkfifo(file)


def be_a_socket(file: Path) -> None:
    with socket.socket(socket.AF_UNIX) as line:
        line.bind(str(file))


def lead_nowhere(file: Path) -> None:
    file.symlink_to(file.parent / "nothing")


def lead_to_itself(file: Path) -> None:
    file.symlink_to(file)


def lead_to_a_secret(file: Path) -> None:
    secret = file.parents[2] / "secret"
    secret.write_text("a password")
    file.symlink_to(secret)


@pytest.mark.parametrize("odd", [be_a_pipe, be_a_socket, lead_nowhere, lead_to_itself, lead_to_a_secret])
@pytest.mark.parametrize("keys", [[], ["key"]], ids=["open", "signed"])
def test_what_cannot_be_read_is_set_aside_and_holds_nothing_up(
    link_databases: Sequence[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    odd: Callable[[Path], None],
    keys: list[str],
) -> None:
    monkeypatch.chdir(tmp_path)  # a socket's name is short
    (tmp_path / "key").write_bytes(b"a key of the link's own")
    carrier = DirectoryCarrier(Path("mail"), largest=60_000)
    with linked(link_databases, carrier, keys=[str(tmp_path / key) for key in keys]) as (x, y):
        both(x, y)
        inbox = tmp_path / "mail" / "y"
        for name in ("0000-first.msg", "9999-last.msg"):
            odd(Path("mail") / "y" / name if odd is be_a_socket else inbox / name)
        for number in range(3):
            x.commit(number)

        both(x, y, rounds=3)

        assert (y.got, x.p[:2]) == (["0", "1", "2"], (3, 3))
        assert not list(inbox.glob("*.msg"))
        assert len(list((inbox / "unreadable").iterdir())) == 2
        parked = drive(y.links.history.parking.list())
        assert len(parked) == 2
        assert "a password" not in str(parked)


def test_the_same_message_from_nobody_is_kept_each_time(
    link_databases: Sequence[str], tmp_path: Path
) -> None:
    (tmp_path / "key").write_bytes(b"a key of the link's own")
    carrier = DirectoryCarrier(tmp_path / "mail", largest=60_000)
    with linked(link_databases, carrier, keys=[str(tmp_path / "key")]) as (x, y):
        for _ in range(3):
            carrier.put("y", b"pay me")

        both(x, y, rounds=2)

        assert len(drive(y.links.history.parking.list())) == 3


def test_an_odd_row_in_the_log_is_parked_at_the_other_end_and_holds_nothing_up(tmp_path: Path) -> None:
    urls = [f"sqlite:///{tmp_path}/{name}.db" for name in "xy"]
    odd = ["CAST(x'c328' AS TEXT)", "x'00ff'", "'no JSON'", "''"]
    with linked(urls) as (x, y):
        for value in odd:
            offset = x.commit("spoilt")
            x.execute(f"UPDATE doubtless_link_log SET operation = {value} WHERE commit_offset = {offset}")  # noqa: S608
            x.commit("good")

        both(x, y, rounds=3)

        assert y.got == ["good"] * len(odd)
        assert x.row().stopped is None
        parked = drive(y.links.history.parking.list())
        assert len(parked) == 3, "an empty one is a transaction without operations"
        assert all(entry.raw for entry in parked)


def test_a_table_with_odd_rows_holds_nothing_up(tmp_path: Path) -> None:
    urls = [f"sqlite:///{tmp_path}/{name}.db" for name in "xy"]
    carrier = TableCarrier.from_url(f"sqlite:///{tmp_path}/mail.db")
    drive(carrier.put("y", b"..."))
    with sqlite3.connect(tmp_path / "mail.db") as connection:
        for value in ("'text'", "CAST(x'c328' AS TEXT)", "1000000", "x''"):
            row = f"('y', {value})"
            connection.execute(f"INSERT INTO doubtless_link_mail (address, data) VALUES {row}")  # noqa: S608
    connection.close()
    with linked(urls, carrier) as (x, y):
        x.commit("a")

        both(x, y, rounds=3)

        assert y.got == ["a"]
    drive(carrier.close())
