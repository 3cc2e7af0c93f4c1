"""PostgreSQL databases with another encoding or without a locale, as old applications have them."""

import secrets
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
from psycopg import sql

from history import ConfigurationError, HistoryUnavailableError, Parked, ParkedKind, SqlHistory
from history.beside.journal import JournalLine
from history.bridge import drive
from history.store import Report
from tests.fixtures.databases import asked
from tests.integration.history.sql.sql_worker import TRIGGER, opened
from triggers import Message
from triggers.providers import Arrival
from triggers.providers.sqljms.provider import SqlJms

#: Hardly any encoding can hold this text.
TEXT = "böse 🧾 注文"

PARKED = Parked(
    id="id-1",
    trigger_name=TRIGGER,
    kind=ParkedKind.REJECTED,
    reason=TEXT,
    uuid=TEXT,
    message=Message(body=TEXT, uuid=TEXT, properties={"name": TEXT}),
)


class _Databases:
    """Makes databases, and drops them."""

    def __init__(self, server: str, administrator: psycopg.Connection) -> None:
        self._server, self._administrator = server, administrator
        self._made: list[str] = []

    def make(self, encoding: str = "UTF8", **settings: str) -> str:
        name = f"doubtless_{secrets.token_hex(8)}"
        self._made.append(name)
        made = "CREATE DATABASE {} ENCODING {} LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0"
        self._run(made, sql.Identifier(name), sql.Literal(encoding))
        for setting, value in settings.items():
            words = map(sql.Identifier, (name, setting))
            self._run("ALTER DATABASE {} SET {} TO {}", *words, sql.Literal(value))
        return urlunsplit(urlsplit(self._server)._replace(path=f"/{name}"))

    def drop(self) -> None:
        for name in self._made:
            self._run("DROP DATABASE {} WITH (FORCE)", sql.Identifier(name))

    def _run(self, statement: str, *words: sql.Composable) -> None:
        self._administrator.execute(sql.SQL(statement).format(*words))  # pyright: ignore[reportArgumentType]


@pytest.fixture
def databases(postgres_server: str, postgres_administrator: psycopg.Connection) -> Iterator[_Databases]:
    databases = _Databases(postgres_server, postgres_administrator)
    yield databases
    databases.drop()


def _keeps_everything(store: SqlHistory) -> None:
    (claim,) = drive(store.claim(TRIGGER, [TEXT], "me"))
    assert drive(store.complete(TRIGGER, TEXT, claim.fence))
    (again,) = drive(store.claim(TRIGGER, [TEXT], "you"))
    assert again.found is not None
    (other,) = drive(store.claim(TRIGGER, ["other"], "me"))
    assert drive(store.release(TRIGGER, "other", other.fence))
    drive(store.parking.park([PARKED]))
    assert drive(store.parking.get("id-1")) == PARKED
    drive(store.journal.append(TRIGGER, [JournalLine(verdict="new", reason=TEXT, uuid=TEXT)]))
    assert [line.reason for line in drive(store.journal.read(TRIGGER))] == [TEXT]
    drive(store.control.beat("token", [Report(consumer=TEXT, trigger=TRIGGER)]))
    assert [beat.report.consumer for beat in drive(store.control.overview()).beats] == [TEXT]


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1", "EUC_JP"])
def test_a_database_of_any_encoding_keeps_every_message(databases: _Databases, encoding: str) -> None:
    with opened(databases.make(encoding)) as store:
        warnings = drive(store.check())

        _keeps_everything(store)

    assert [encoding in warning for warning in warnings if "encoding" in warning] == [True] * (
        encoding != "SQL_ASCII"
    )


def test_the_settings_of_an_old_application_change_nothing(databases: _Databases) -> None:
    url = databases.make(standard_conforming_strings="off", array_nulls="off", bytea_output="escape")

    with opened(url) as store:
        _keeps_everything(store)


@pytest.mark.parametrize("kind", ["postgresql", "sqlite"])
def test_tables_that_are_dropped_while_it_runs_are_named_and_waited_for(
    databases: _Databases, tmp_path: Path, kind: str
) -> None:
    url = databases.make() if kind == "postgresql" else f"sqlite:///{tmp_path}/history.sqlite3"
    with opened(url) as store:
        drive(store.check())
        asked(url, "ALTER TABLE doubtless_history RENAME TO doubtless_away")
        with pytest.raises(HistoryUnavailableError, match=r"doubtless_history.*: restore them"):
            drive(store.claim(TRIGGER, ["a"], "me"))
        asked(url, "ALTER TABLE doubtless_away RENAME TO doubtless_history")

        assert drive(store.claim(TRIGGER, ["a"], "me"))[0].found is None


def test_a_name_that_the_encoding_does_not_have_is_refused(databases: _Databases) -> None:
    with (
        opened(databases.make("LATIN1")) as store,
        pytest.raises(ConfigurationError, match="the encoding of its database does not have a character"),
    ):
        drive(store.claim(TEXT, ["a"], "me"))


def test_sql_jms_says_which_message_its_database_cannot_keep(databases: _Databases) -> None:
    for encoding in ("SQL_ASCII", "LATIN1"):
        provider = SqlJms.from_url(databases.make(encoding))
        receiver = drive(provider.open_receiver("queue://orders", subscription="book", name="one"))
        if encoding == "LATIN1":
            odd = Message(body="", uuid="b", properties={"name": TEXT})
            with pytest.raises(ConfigurationError, match="does not have a character"):
                drive(provider.send("queue://orders", [odd]))
        drive(provider.send("queue://orders", [Message(body=TEXT, uuid="a")]))
        (received,) = drive(receiver.receive(10))
        assert isinstance(received, Arrival)
        assert received.message.body == TEXT
        drive(receiver.close())
        drive(provider.close())
