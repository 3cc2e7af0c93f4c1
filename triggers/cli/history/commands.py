"""The commands of ``doubtless history``."""

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from io import TextIOWrapper
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import typer

from history.beside.security import SecurityEvent
from history.bridge import drive, drive_each
from history.entry import Entry, short_digest
from history.errors import ConfigurationError
from history.store import HistoryStore, ScannedEntry
from history.store.inspection import Migrating
from history.support.paging import pages
from triggers.cli.history.importing import ImportTally, import_rows, read_rows
from triggers.cli.shared.arguments import duration_of, reading
from triggers.cli.shared.general_options import CommandGroup
from triggers.cli.shared.options import (
    HISTORY_OPTION,
    TRIGGER_OPTION,
    YES_OPTION,
    confirm,
    limit_option,
    opened,
    trigger_names,
)
from triggers.cli.shared.output import CliState, moment
from triggers.operations.entries import began, entry_row
from triggers.operations.journals import refuse_unknown_trigger
from triggers.security.commands import command_record, recorded

app = CommandGroup(
    no_args_is_help=True, help="Look into the document history, add entries to it and remove them."
)

_COLUMNS = ["trigger", "digest", "state", "owner", "fence", "started", "expires"]
_EMPTY = "the history is empty"
_IMPORTED = ["trigger", "completed", "failed", "started", "known", "expired"]
#: How many lines that were not imported are named.
_NAMED = 10
_UUID = typer.Argument(help="The uuid, or the JMSMessageID if the message has no uuid.")


class DdlDialect(StrEnum):
    """The databases for which the tables are printed."""

    POSTGRESQL = "postgresql"
    SQLITE = "sqlite"


@app.command()
def ddl(
    context: typer.Context,
    dialect: DdlDialect = typer.Option(DdlDialect.POSTGRESQL, help="The database that the SQL is for."),
    sql_jms: bool = typer.Option(False, "--sql-jms", help="Also print the tables of SQL-JMS and its limbo."),
) -> None:
    """Print the SQL that makes the tables of a history in an empty database or schema.

    The first use of a history makes the same tables. Use the SQL if workers may not make tables.
    """
    from history.sql.statements.dialects import Dialect  # noqa: PLC0415  (loads SQLAlchemy)
    from history.sql.tables.script import history_script  # noqa: PLC0415  (as above)
    from triggers.providers.sqljms.limbo.tables import sqljms_script  # noqa: PLC0415  (as above)

    chosen = Dialect(dialect)
    _print(CliState.of(context), [*history_script(chosen), *(sqljms_script(chosen) if sql_jms else ())])


@app.command()
def migrate(
    context: typer.Context,
    history: str | None = HISTORY_OPTION,
    dry_run: bool = typer.Option(False, "--dry-run", help="Print the SQL, and run nothing."),
) -> None:
    """Bring the tables of a SQL history up to date, as their owner, while workers use them.

    The command prints the statements that it runs. Workers of an older doubtless that start afterwards refuse
    the tables.
    """
    state = CliState.of(context)
    with opened(history) as store:
        if not isinstance(store, Migrating):
            raise ConfigurationError("--history", "it is not a SQL history", "only tables are migrated")
        statements = drive(store.migrate(dry=dry_run))
    _print(state, statements)
    if not statements:
        state.note("the tables are up to date")


@app.command()
def show(
    context: typer.Context,
    uuid: str | None = typer.Argument(None, help="Show only this uuid."),
    history: str | None = HISTORY_OPTION,
    trigger: str | None = TRIGGER_OPTION,
    limit: int = limit_option(20),
) -> None:
    """Show the entries of one uuid, or the first entries, in no fixed order. Uuids are stored as digests."""
    state = CliState.of(context)
    with opened(history) as store:
        entries = _walk(store, trigger) if uuid is None else _of_uuid(store, trigger, uuid)
        rows = [entry_row(name, key, entry) for name, key, entry in islice(entries, limit)]
        if not rows:
            refuse_unknown_trigger(store, trigger)
    none = "there is no entry" if uuid is None else f"there is no entry of {uuid}"
    state.show("entries", _COLUMNS, rows, none=none)
    if not rows:
        raise typer.Exit(1)


@app.command()
def stats(
    context: typer.Context, history: str | None = HISTORY_OPTION, trigger: str | None = TRIGGER_OPTION
) -> None:
    """Count the entries and the parked messages of each trigger."""
    state = CliState.of(context)
    rows: list[dict[str, Any]] = []
    with opened(history) as store:
        for name in trigger_names(store, trigger):
            counted = drive(store.stats(name))
            rows.append(
                {
                    "trigger": name,
                    "started": counted.started,
                    "completed": counted.completed,
                    "parked": drive(store.parking.count(trigger=name)),
                }
            )
        if not any(row[key] for row in rows for key in ("started", "completed", "parked")):
            refuse_unknown_trigger(store, trigger)
    state.show("document history", ["trigger", "started", "completed", "parked"], rows, none=_EMPTY)


@app.command()
def purge(
    context: typer.Context, history: str | None = HISTORY_OPTION, trigger: str | None = TRIGGER_OPTION
) -> None:
    """Delete entries that are past their time to live. Consumers do this every ten minutes."""
    with opened(history) as store:
        names = trigger_names(store, trigger)
        rows = [{"trigger": name, "deleted": drive(store.purge(name))} for name in names]
        if not any(row["deleted"] for row in rows):
            refuse_unknown_trigger(store, trigger)
    CliState.of(context).show("expired entries", ["trigger", "deleted"], rows, none=_EMPTY)


@app.command()
def forget(
    context: typer.Context,
    uuid: str = _UUID,
    trigger: str = typer.Option(..., "--trigger", "-t", help="The name of the trigger."),
    history: str | None = HISTORY_OPTION,
    yes: bool = YES_OPTION,
) -> None:
    """Delete one entry in any state, so that the next message of this uuid is NEW and runs the service.

    The fingerprint of the body and the kept result are deleted as well, so the next message may have another
    body.
    """
    state = CliState.of(context)
    with opened(history) as store:
        entry = drive(store.lookup(trigger, [uuid]))[0]
        if entry is not None and not yes:
            state_now = began(entry_row(trigger, b"", entry), moment)
            confirm(f"{uuid} is {state_now}. Forget it, so that {trigger} runs its next message?", yes=yes)
        with recorded(store, [command_record(SecurityEvent.FORGET, trigger=trigger, message=uuid)]):
            gone = drive(store.forget(trigger, uuid))
        if not gone:
            refuse_unknown_trigger(store, trigger)
    document = {"trigger": trigger, "uuid": uuid, "forgotten": gone}
    state.report(document, "forgotten" if gone else f"there is no entry of {uuid}")
    if not gone:
        raise typer.Exit(1)


@app.command("import")
def import_(
    context: typer.Context,
    file: Path = typer.Argument(help="A CSV file. Its first line names the columns. - reads standard input."),
    trigger: str | None = typer.Option(None, "--trigger", "-t", help="The trigger of rows without one."),
    history: str | None = HISTORY_OPTION,
    keep: str = typer.Option("7d", help="How long after its time a message is remembered."),
    dry_run: bool = typer.Option(False, "--dry-run", help="Read the file, and write nothing."),
) -> None:
    """Add entries for messages that another system has processed, so that they are duplicates here.

    The columns are uuid, and if there are any trigger, status and time. The status is completed (the
    default), failed, started or processing. A time is 2026-11-20T10:00:00Z (UTC if no zone is given), or a
    number since 1970: 10 digits are seconds, 13 are milliseconds. Rows without a time are from now. A uuid
    that the history knows keeps its entry. The command may be repeated.
    """
    state, time_to_live = CliState.of(context), duration_of("--keep", keep)
    with (
        reading(file) as source,
        _decoded(source) as lines,
        opened(history, makes=not dry_run, dry=dry_run) as store,
    ):
        rows = read_rows(lines, trigger)
        record = command_record(SecurityEvent.IMPORT, trigger=trigger)
        with recorded(store, [] if dry_run else [record]):
            imported = import_rows(store, rows, time_to_live, dry=dry_run)
    _tell_imported(state, imported, dry=dry_run)
    if imported.bad:
        raise typer.Exit(1)


@contextmanager
def _decoded(source: BinaryIO) -> Generator[TextIOWrapper]:
    """Yield the lines of a file. Bytes that are not UTF-8 are one row's problem, not the file's."""
    lines = TextIOWrapper(source, encoding="utf-8-sig", errors="surrogateescape", newline="")
    try:
        yield lines
    finally:
        lines.detach()  # else standard input would be closed with it


def _tell_imported(state: CliState, imported: ImportTally, *, dry: bool) -> None:
    for bad in imported.bad[:_NAMED]:
        state.note(f"line {bad.line} was not imported: {bad.problem}")
    if len(imported.bad) > _NAMED:
        state.note(f"{len(imported.bad)} lines were not imported")
    rows = [
        {"trigger": name} | {column: counts[column] for column in _IMPORTED[1:]}
        for name, counts in sorted(imported.counts.items())
    ]
    state.show("would be imported" if dry else "imported", _IMPORTED, rows, none="there is no row")


def _of_uuid(store: HistoryStore, trigger: str | None, uuid: str) -> Iterator[tuple[str, bytes, Entry]]:
    for name in trigger_names(store, trigger):
        entry = drive(store.lookup(name, [uuid]))[0]
        if entry is not None:
            yield name, short_digest(uuid), entry


def _walk(store: HistoryStore, trigger: str | None) -> Iterator[tuple[str, bytes, Entry]]:
    for name in trigger_names(store, trigger):
        for scanned in _scan(store, name):
            yield name, scanned.digest, scanned.entry


def _scan(store: HistoryStore, trigger: str) -> Iterator[ScannedEntry]:
    for page in drive_each(pages(lambda cursor: store.scan(trigger, cursor=cursor))):
        yield from page.entries


def _print(state: CliState, statements: Sequence[str]) -> None:
    """Print a script, or a JSON array of its statements."""
    state.report(statements, *(line for text in statements for line in f"{text};".splitlines()))
