"""The tables of a client-side queue's file, and the checks of the file before it is used."""

import sqlite3
from pathlib import Path

from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_fixed

from history.errors import ConfigurationError

#: How long a step waits for another writer of the same file.
BUSY_TIMEOUT_SECONDS = 10.0

#: "dbtq": distinguishes such a file from any other of SQLite.
APPLICATION_ID = 0x64627471

#: The version of the tables below.
VERSION = 1

#: Unreadable rows are moved out of the way, as they are; files of earlier versions also get this table.
UNREADABLE = """
CREATE TABLE IF NOT EXISTS unreadable (
    number INTEGER PRIMARY KEY, destination TEXT NOT NULL, message NOT NULL, problem TEXT NOT NULL
);
"""

#: ``queued`` wait, ``failed`` were given up, and ``about`` has the alias and the number of waiting messages,
#: because counting rows would read all of them. No number is ever used twice (AUTOINCREMENT), so a failed
#: message keeps its number.
SCHEMA = """
CREATE TABLE queued (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    destination TEXT NOT NULL,
    message TEXT NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX queued_by_destination ON queued (destination, number);
CREATE TABLE failed (number INTEGER PRIMARY KEY, event TEXT NOT NULL, told INTEGER NOT NULL);
CREATE TABLE about (name TEXT PRIMARY KEY, value NOT NULL) WITHOUT ROWID;
INSERT INTO about VALUES ('queued', 0);
CREATE TRIGGER counted_in AFTER INSERT ON queued BEGIN
    UPDATE about SET value = value + 1 WHERE name = 'queued';
END;
CREATE TRIGGER counted_out AFTER DELETE ON queued BEGIN
    UPDATE about SET value = value - 1 WHERE name = 'queued';
END;
"""


def prepare(connection: sqlite3.Connection, file: Path, alias: str) -> None:
    """Set a new connection up, and create the tables in a new file.

    Raises:
        ConfigurationError: the file is not a queue, is newer than this version, or belongs to another alias.
    """
    try:
        _write_ahead(connection)
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("BEGIN IMMEDIATE")
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorcode == sqlite3.SQLITE_NOTADB:
            raise _unusable(file, "is not an SQLite file") from error
        raise
    try:
        _create_or_check(connection, file, alias)
        connection.execute(UNREADABLE)
        connection.execute("COMMIT")
    except BaseException:
        connection.rollback()
        raise


def _write_ahead(connection: sqlite3.Connection) -> None:
    # When the mode changes, SQLite does not wait for others that have the file open.
    for attempt in Retrying(
        stop=stop_after_delay(BUSY_TIMEOUT_SECONDS),
        wait=wait_fixed(0.02),
        retry=retry_if_exception_type(sqlite3.OperationalError),
        reraise=True,
    ):
        with attempt:
            connection.execute("PRAGMA journal_mode = WAL")


def _create_or_check(connection: sqlite3.Connection, file: Path, alias: str) -> None:
    (made_by,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    if not tables:
        for statement in _statements(SCHEMA):
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("INSERT INTO about VALUES ('alias', ?)", (alias,))
        return
    if made_by != APPLICATION_ID:
        raise _unusable(file, "is another program's database")
    if version > VERSION:
        raise _unusable(file, f"was made by a newer version of doubtless (its tables are version {version})")
    (owner,) = connection.execute("SELECT value FROM about WHERE name = 'alias'").fetchone()
    if owner != alias:
        raise ConfigurationError(
            "queue", f"{file} is the queue of the alias {owner!r}", "give that alias, or another file"
        )


def _statements(script: str) -> list[str]:
    """Split a script; ``executescript`` would commit the transaction in which it runs."""
    statements: list[str] = []
    text = ""
    for line in script.strip().splitlines():
        text += line + "\n"
        if sqlite3.complete_statement(text):
            statements.append(text)
            text = ""
    return statements


def _unusable(file: Path, problem: str) -> ConfigurationError:
    return ConfigurationError("queue", f"{file} {problem}", "give another file")
