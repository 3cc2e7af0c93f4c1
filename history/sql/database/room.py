"""How many connections a PostgreSQL has room for, and how many of them an engine may take."""

from sqlalchemy import QueuePool

from history.sql.database.engine import AnyConnection, AnyEngine, fetch
from history.sql.database.postgresql import POOLED
from history.sql.database.probe import server_of
from history.sql.statements.dialects import Dialect, statement
from history.store.inspection import Room

# Every limit that may apply, -1 if there is none, and the connections that are open now.
LIMITS = statement(
    postgresql="""
    SELECT CAST(current_setting('max_connections') AS INTEGER),
        CASE WHEN r.rolsuper THEN 0 ELSE CAST(current_setting('superuser_reserved_connections') AS INTEGER)
            + CAST(COALESCE(current_setting('reserved_connections', TRUE), '0') AS INTEGER) END,
        r.rolconnlimit, (SELECT datconnlimit FROM pg_database WHERE datname = current_database()),
        (SELECT COUNT(*) FROM pg_stat_activity WHERE backend_type = 'client backend')
    FROM pg_roles AS r WHERE r.rolname = current_user
"""
)


async def room_of(connection: AnyConnection, engine: AnyEngine) -> Room | None:
    """Return the room, by an engine's connection; see :class:`~history.store.inspection.TellingRoom`.

    None for SQLite.
    """
    if connection.dialect.name == Dialect.SQLITE:
        return None
    pool, server = engine.pool, server_of(engine.url)
    # -1 means no limit.
    most = pool.size() + max(0, pool._max_overflow) if isinstance(pool, QueuePool) else 1  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
    if connection.info.get(POOLED):
        return Room(server, most, None, "a pooler such as PgBouncer stands between", 0)
    ((most_of_all, reserved, of_role, of_database, used),) = await fetch(connection, LIMITS)
    limits = [(most_of_all - reserved, f"max_connections {most_of_all}, {reserved} of them reserved")]
    limits += [(of_role, "CONNECTION LIMIT of the role")] if of_role >= 0 else []
    limits += [(of_database, "CONNECTION LIMIT of the database")] if of_database >= 0 else []
    limit, why = min(limits)
    return Room(server, most, limit, why, used)
