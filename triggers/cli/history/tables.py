"""``doubtless history ddl`` and ``doubtless history migrate``: the tables of a SQL history."""

from collections.abc import Sequence
from enum import StrEnum

import typer

from history.bridge import drive
from history.errors import ConfigurationError
from history.store.inspection import Migrating
from triggers.cli.shared.general_options import with_general_options
from triggers.cli.shared.options import HISTORY_OPTION, opened
from triggers.cli.shared.output import State


class DdlDialect(StrEnum):
    """The databases for which the tables are printed."""

    POSTGRESQL = "postgresql"
    SQLITE = "sqlite"


@with_general_options
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
    _print(State.of(context), [*history_script(chosen), *(sqljms_script(chosen) if sql_jms else ())])


@with_general_options
def migrate(
    context: typer.Context,
    history: str | None = HISTORY_OPTION,
    dry_run: bool = typer.Option(False, "--dry-run", help="Print the SQL, and run nothing."),
) -> None:
    """Bring the tables of a SQL history up to date, as their owner, while workers use them.

    The command prints the statements that it runs. Workers of an older doubtless that start afterwards refuse
    the tables.
    """
    state = State.of(context)
    with opened(history) as store:
        if not isinstance(store, Migrating):
            raise ConfigurationError("--history", "it is not a SQL history", "only tables are migrated")
        statements = drive(store.migrate(dry=dry_run))
    _print(state, statements)
    if not statements:
        state.note("the tables are up to date")


def _print(state: State, statements: Sequence[str]) -> None:
    """Print a script, or a JSON array of its statements."""
    if state.as_json:
        state.document(statements)
        return
    for statement in statements:
        for line in f"{statement};".splitlines():
            state.say(line)
