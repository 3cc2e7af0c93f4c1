"""Settings of a database that may make it forget commits."""

from collections.abc import Sequence

from history.sql.database.encoding import ENCODING, WHOLE
from history.sql.database.engine import AnyConnection, fetch
from history.sql.statements.dialects import Dialect, statement

# The file (empty if the database is in memory); how it is written; and when it is synced.
FILE = statement(sqlite="SELECT file FROM pragma_database_list WHERE name = 'main'")
JOURNAL = statement(sqlite="PRAGMA journal_mode")
SYNCHRONOUS = statement(sqlite="PRAGMA synchronous")

#: From this value of ``PRAGMA synchronous`` on, a commit is on disk.
FULL = 2

# The settings that trade durability for speed, if somebody has changed them.
DURABILITY = statement(
    postgresql="""
    SELECT name, setting FROM pg_settings
    WHERE name IN ('fsync', 'full_page_writes', 'synchronous_commit') AND setting = 'off'
    ORDER BY name
"""
)

# How commits wait for standbys, and whether there are any.
STANDBYS = statement(
    postgresql="""
    SELECT current_setting('synchronous_commit') AS waits,
        current_setting('synchronous_standby_names') AS names,
        (SELECT COUNT(*) FROM pg_stat_replication) AS standbys
"""
)


async def remarks_on(connection: AnyConnection) -> Sequence[str]:
    """Return settings that are common, but may still lose the last commits; see ``doubtless doctor``."""
    if connection.dialect.name == Dialect.SQLITE:
        return []
    ((waits, names, standbys),) = await fetch(connection, STANDBYS)
    remark = ""
    if names and waits in {"local", "remote_write"}:
        remark = (
            f"synchronous_commit = {waits}: no commit waits until a standby has it on disk, and messages "
            "that a failover loses run again; synchronous_commit = on waits"
        )
    elif standbys and not names:
        remark = (
            f"{standbys} standbys, and no commit waits for them: messages that a failover loses run again; "
            "synchronous_standby_names makes commits wait"
        )
    return [remark] if remark else []


async def warnings_about(connection: AnyConnection) -> Sequence[str]:
    """Return one sentence for each setting that may lose commits."""
    if connection.dialect.name == Dialect.SQLITE:
        return await _about_sqlite(connection)
    ((encoding,),) = await fetch(connection, ENCODING)
    characters = (
        f"the encoding of the database is {encoding}, not UTF8: it cannot store a character that it lacks in "
        "the name of a trigger, a queue or a consumer, or in the properties of a SQL-JMS message"
    )
    return [characters] * (encoding not in WHOLE) + [
        f"PostgreSQL runs with {name} = {setting}: after a crash of the server or its machine the last "
        "completions may be missing, and those messages run again"
        for name, setting in await fetch(connection, DURABILITY)
    ]


async def _about_sqlite(connection: AnyConnection) -> Sequence[str]:
    ((file,),) = await fetch(connection, FILE)
    if not file:
        return ["the document history is in memory: it is forgotten when this process ends"]
    warnings: list[str] = []
    ((journal,),) = await fetch(connection, JOURNAL)
    ((synchronous,),) = await fetch(connection, SYNCHRONOUS)
    if journal != "wal":
        warnings.append(
            f"SQLite keeps {file} in journal mode {journal}, not WAL: readers and writers wait for each other"
        )
    if synchronous < FULL:
        warnings.append(
            f"SQLite does not sync {file} at every commit: after a power cut the last completions may be "
            "missing, and those messages run again"
        )
    return warnings
