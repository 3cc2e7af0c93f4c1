"""Commands, states and statistics in a SQL database, beside the history."""

import json
from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import TypeVar

from sqlalchemy import URL

from history.sql.database.encoding import in_ascii
from history.sql.database.engine import AnyConnection, AnyRow, Step, execute, execute_each, fetch, in_memory
from history.sql.statements.control import (
    ADD,
    BEAT,
    CLEAR,
    COUNT,
    GIVE,
    LIST_CONSUMERS,
    LIST_ORDERS,
    LIST_STATISTICS,
    LOCK_ORDERS,
    NOW,
    SAY,
    STANDING,
    SWEEP,
    SWEEP_COUNTS,
)
from history.sql.statements.dialects import Dialect
from history.sql.tables.history import CONTROL_TABLES, STATISTICS, Prepared
from history.sql.tables.making import AddedTables, make_tables, table_exists
from history.store import instant, milliseconds
from history.store.control import (
    FORGOTTEN_AFTER,
    GONE_AFTER,
    REPORTED,
    Beat,
    Counts,
    Heard,
    Order,
    Overview,
    Report,
    Verb,
)
from history.store.parking import encodable
from history.support.spoilt import readable

T = TypeVar("T")


def address_of(url: URL) -> str:
    """Name a database: the name is equal for a blocking and an asyncio engine."""
    if in_memory(url):
        return f"sqlite in memory:{id(url)}"
    hosts = {name: value for name, value in url.query.items() if name in {"host", "port"}}
    return url.set(drivername=url.get_backend_name(), password=None, query=hosts).render_as_string()


class SqlControl:
    """Commands, states and statistics in separate tables, which are created at first use.

    Threads may share it; over an asyncio engine it belongs to one event loop.
    """

    def __init__(self, database: Prepared, address: str) -> None:
        self._database = database
        self._address = address
        self._tables = AddedTables(
            database,
            look=partial(table_exists, table=STATISTICS),
            make=partial(make_tables, tables=CONTROL_TABLES),
            looking="looking for the consumers",
            creating="creating the tables of the consumers",
        )

    @property
    def address(self) -> str:
        """The database."""
        return self._address

    async def beat(self, token: str, reports: Sequence[Report]) -> Heard:
        """Store reports, and return the commands of their triggers: on PostgreSQL with one statement."""
        if self._database.dialect is Dialect.SQLITE:
            step = partial(_beat_in_steps, token=token, reports=reports)
            return await self._run("reporting to", step, atomic=True)
        return await self._run("reporting to", partial(_beat, token=token, reports=reports))

    async def order(self, verb: Verb, triggers: Sequence[str], *, reason: str | None = None) -> int:
        """Give a command."""
        give = partial(_give, verb=verb, triggers=triggers, reason=reason)
        return await self._run("giving an order to", give, atomic=True)

    async def overview(self, *, silence: timedelta = GONE_AFTER) -> Overview:
        """Return everything known."""
        return await self._run("looking at", partial(_look, silence=silence))

    async def clear(self, *, trigger: str | None = None) -> None:
        """Forget the sums; earlier counts are not added again."""
        await self._run("clearing", partial(execute, statement=CLEAR, trigger=trigger))

    async def sweep(self, *, silence: timedelta = FORGOTTEN_AFTER) -> int:
        """Delete old reports."""
        return await self._run("sweeping", partial(_sweep, silence=milliseconds(silence)), atomic=True)

    async def _run(self, doing: str, step: Step[T], *, atomic: bool = False) -> T:
        return await self._tables.run(f"{doing} the consumers", step, atomic=atomic)


async def _beat(connection: AnyConnection, *, token: str, reports: Sequence[Report]) -> Heard:
    counts = _counts(reports)
    rows = await fetch(
        connection,
        BEAT,
        token=token,
        triggers=[report.trigger for report in reports],
        documents=[_document(report) for report in reports],
        counted=[trigger for trigger, _, _ in counts],
        names=[name for _, name, _ in counts],
        amounts=[value for _, _, value in counts],
    )
    return Heard(instant(rows[0].now), _orders([row for row in rows if row.number is not None]))


def _document(report: Report) -> str:
    return in_ascii(report.model_dump_json())


def _counts(reports: Sequence[Report]) -> list[tuple[str, str, int]]:
    """Return trigger, name and value of each count; a token counts once among a trigger's consumers."""
    named = ((report.trigger, {REPORTED: 1, **report.counts.some()}) for report in reports)
    return [(trigger, *count) for trigger, counts in named for count in counts.items()]


async def _beat_in_steps(connection: AnyConnection, *, token: str, reports: Sequence[Report]) -> Heard:
    ((now,),) = await fetch(connection, NOW)
    counts = _counts(reports)
    added = await fetch(connection, COUNT, token=token, counts=json.dumps(counts))
    if added:
        sums = [{"trigger": trigger, "name": name, "added": more} for trigger, name, more in added]
        await execute_each(connection, ADD, sums)
    words = [
        {
            "token": token,
            "trigger": report.trigger,
            "now": now,
            "document": in_ascii(report.model_dump_json()),
        }
        for report in reports
    ]
    if words:
        await execute_each(connection, SAY, words)
    standing = await fetch(connection, STANDING, triggers=json.dumps([report.trigger for report in reports]))
    return Heard(instant(now), _orders(standing))


async def _give(connection: AnyConnection, *, verb: Verb, triggers: Sequence[str], reason: str | None) -> int:
    await execute(connection, LOCK_ORDERS)
    standing = await fetch(connection, LIST_ORDERS)
    ((now,),) = await fetch(connection, NOW)
    # Numbers follow the clock, so that they still grow in a database that was emptied.
    number: int = max([now, *(row.number + 1 for row in standing)])
    common: dict[str, object] = {"lasts": verb.lasts, "verb": verb.value, "number": number, "now": now}
    common["reason"] = None if reason is None else encodable(reason)
    if triggers:
        await execute_each(connection, GIVE, [{**common, "trigger": trigger} for trigger in triggers])
    return number


async def _look(connection: AnyConnection, *, silence: timedelta) -> Overview:
    ((now,),) = await fetch(connection, NOW)
    said = await fetch(connection, LIST_CONSUMERS, least=now - milliseconds(silence))
    words = ((f"{row.token} says of {row.trigger_name}", row) for row in said)
    beats = list(readable("what the consumer", words, _beat_of))
    counts: dict[str, dict[str, int]] = {}
    sums = await fetch(connection, LIST_STATISTICS)
    for row in sums:
        if row.name in Counts.model_fields and isinstance(
            row.value, int
        ):  # other rows are spoilt, or from a newer version
            counts.setdefault(row.trigger_name, {})[row.name] = row.value
    return Overview(
        now=instant(now),
        beats=[beat for beat in beats if not beat.report.leaving],
        orders=_orders(await fetch(connection, LIST_ORDERS)),
        statistics={trigger: Counts(**some) for trigger, some in counts.items()},
        reported=frozenset(row.trigger_name for row in sums if row.name == REPORTED),
    )


def _beat_of(row: AnyRow) -> Beat:
    return Beat(Report.model_validate_json(row.document), instant(row.beat_at))


async def _sweep(connection: AnyConnection, *, silence: int) -> int:
    if connection.dialect.name == Dialect.SQLITE:
        await execute(connection, SWEEP_COUNTS, silence=silence)
    return len(await fetch(connection, SWEEP, silence=silence))


def _orders(rows: Sequence[AnyRow]) -> Sequence[Order]:
    return list(readable("an order to", ((row.trigger_name, row) for row in rows), _order))


def _order(row: AnyRow) -> Order:
    return Order(
        trigger=row.trigger_name,
        verb=row.verb,
        number=row.number,
        given_at=instant(row.given_at),
        reason=row.reason,
    )
