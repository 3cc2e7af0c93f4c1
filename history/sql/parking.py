"""The parking lot in a SQL database, beside the history."""

import json
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from pydantic import ValidationError

from history.entry import Settlement, digest
from history.sql.database.encoding import in_ascii
from history.sql.database.engine import AnyConnection, AnyRow, Database, Step, execute, execute_each, fetch
from history.sql.entries.settlements import settle_entries
from history.sql.statements import parking as statements
from history.sql.statements.dialects import Dialect
from history.sql.statements.entries import TRIGGERS
from history.sql.tables.history import DECISIONS, PARKING_TABLES
from history.sql.tables.making import AddedTables, make_tables, table_exists
from history.store.decisions import (
    Decided,
    DecisionKind,
    DecisionPage,
    DecisionRecord,
    OperatorDecision,
    message_text,
    record_of,
)
from history.store.parking import (
    LabelPage,
    Parked,
    ParkedLabel,
    all_labels,
    encodable,
    oldest_first,
)
from history.store.sealing import document_of, label_of, read_document, read_label
from history.support.encryption import Cipher
from history.support.spoilt import UNREADABLE, readable

_EPOCH = datetime.fromtimestamp(0, UTC)

#: How long the answer counts that no older version has parked messages, in seconds: it counts all of them.
NONE_OLDER_FOR = 60.0

#: A number above the number of every decision.
_LAST = 2**63 - 1


class SqlParking:
    """A parking lot in a SQL database; each message is one JSON document, with a label beside it.

    Threads may share it; over an asyncio engine it belongs to one event loop.

    Guarantee: when ``park`` has returned, a message is as safe as any commit in the database.
    """

    def __init__(self, database: Database, cipher: Cipher | None = None) -> None:
        self.database = database
        self.cipher = cipher
        self._none_older_until = 0.0
        self._tables = AddedTables(
            database,
            look=_exist,
            make=partial(make_tables, tables=PARKING_TABLES),
            looking="looking for the labels of parked messages",
            creating="creating the labels of parked messages",
        )
        self._run = self._tables.run

    @property
    def is_ready(self) -> bool:
        """Whether its tables are known to exist."""
        return self._tables.is_ready

    async def park(self, parked: Sequence[Parked]) -> None:
        """Park messages, all or none."""
        if parked:
            await self._run("parking", partial(_park, parked=parked, cipher=self.cipher), atomic=True)

    async def get(self, parked_id: str, *, trigger: str | None = None) -> Parked | None:
        """Return the parked message with this beginning of an id, if only one has it."""
        if trigger is not None:
            whole = partial(fetch, statement=statements.FIND_WHOLE, id=parked_id, trigger=trigger)
            if one := await self._run("looking for a parked message", whole):
                return self._read(one[0])
        find = partial(fetch, statement=statements.FIND, beginning=parked_id, trigger=trigger)
        found = await self._run("looking for a parked message", find)
        return self._read(found[0]) if len(found) == 1 else None

    async def list(self, *, trigger: str | None = None, limit: int = 1000) -> Sequence[Parked]:
        """Return parked messages, oldest first."""
        read = partial(fetch, statement=statements.LIST, trigger=trigger, limit=limit)
        return [self._read(row) for row in await self._run("listing parked messages", read)]

    async def labels(
        self, *, trigger: str | None = None, cursor: str | None = None, limit: int = 200
    ) -> LabelPage:
        """Return some labels, by trigger and id; the cursor is where the last page ended."""
        name, after = json.loads(cursor) if cursor else ("", "")
        if trigger is None:
            read = partial(fetch, statement=statements.LABELS, after_trigger=name, after_id=after)
        else:
            read = partial(fetch, statement=statements.LABELS_OF_ONE, trigger=trigger, after_id=after)
        rows = await self._run("walking through parked messages", partial(read, limit=limit))
        labels = [await self._label(row) for row in rows]
        more = len(rows) == limit
        return LabelPage(labels, json.dumps([rows[-1].trigger_name, rows[-1].id]) if more else None)

    async def of_uuid(self, uuid: str, *, trigger: str | None = None) -> Sequence[ParkedLabel]:
        """Return the labels of the messages with one uuid, by its digest."""
        wanted = encodable(uuid)
        find = partial(fetch, statement=statements.LABELS_OF_UUID, digest=digest(wanted), trigger=trigger)
        labels = [await self._label(row) for row in await self._run("looking for a parked message", find)]
        if await self._has_older():
            labels += await all_labels(self, trigger)
        return oldest_first(label for label in labels if label.uuid == wanted)

    async def _has_older(self) -> bool:
        """Whether an older version has parked messages, without the digest of their uuid."""
        if time.monotonic() < self._none_older_until:
            return False
        count = partial(fetch, statement=statements.ARE_OLDER)
        (row,) = await self._run("looking for older parked messages", count)
        if not row[0]:
            self._none_older_until = time.monotonic() + NONE_OLDER_FOR
        return bool(row[0])

    async def _label(self, row: AnyRow) -> ParkedLabel:
        if row.label is None:
            return ParkedLabel.of(self._read(row))
        try:
            label = read_label(row.label, self.cipher)
        except ValidationError:
            read = partial(fetch, statement=statements.READ, trigger=row.trigger_name, id=row.id)
            whole = await self._run("reading a parked message", read)
            return ParkedLabel.of(self._read(whole[0] if whole else row))
        return label.model_copy(update={"copies": row.copies})

    def _read(self, row: AnyRow) -> Parked:
        return read_document(
            row.document if isinstance(row.document, str | bytes) else str(row.document),
            cipher=self.cipher,
            trigger=row.trigger_name,
            parked_id=row.id,
            parked_at=_instant(row.parked_at),
            copies=row.copies if isinstance(row.copies, int) else 1,
        )

    async def remove(self, parked: Parked | ParkedLabel) -> bool:
        """Remove one message."""
        remove = partial(_remove, trigger=parked.trigger_name, id=parked.id)
        return await self._run("removing a parked message", remove, atomic=True)

    async def count(self, *, trigger: str | None = None) -> int:
        """Count the parked messages."""
        count = partial(fetch, statement=statements.COUNT)
        if trigger is not None:
            count = partial(fetch, statement=statements.COUNT_OF_ONE, trigger=trigger)
        ((found,),) = await self._run("counting parked messages", count)
        return int(found)

    async def decide(
        self, trigger: str, decision: OperatorDecision, chosen: Sequence[Decided]
    ) -> Sequence[bool]:
        """Carry out a decision, and record it, in one transaction."""
        step: Step[Sequence[bool]] = partial(_decide, trigger=trigger, decision=decision, chosen=chosen)
        return await self._run("deciding about parked messages", step, atomic=True)

    async def decisions(self, trigger: str, *, cursor: str | None = None, limit: int = 100) -> DecisionPage:
        """Return records, the newest first; the cursor is the number of the last one."""
        before = _LAST if cursor is None else int(cursor)
        read = partial(fetch, statement=statements.DECISIONS, trigger=trigger, before=before, limit=limit)
        rows = await self._run("reading decisions", read)
        named = ((f"{row.number} about {trigger}", row) for row in rows)
        records = list(readable("decision", named, partial(_record, trigger)))
        return DecisionPage(records, str(rows[-1].number) if len(rows) == limit else None)


async def known_triggers(connection: AnyConnection, *, decides: bool) -> Sequence[str]:
    """Name the triggers with entries or decisions; ``decides``: the table of decisions exists."""
    decides = decides or await table_exists(connection, DECISIONS)
    rows = await fetch(connection, statements.KNOWN_TRIGGERS if decides else TRIGGERS)
    return sorted({name for (name,) in rows if isinstance(name, str)})  # another cell is spoilt


async def _exist(connection: AnyConnection) -> bool:
    # It is the last table that is made: if it exists, the others exist as well.
    return await table_exists(connection, PARKING_TABLES[-1])


async def _park(connection: AnyConnection, *, parked: Sequence[Parked], cipher: Cipher | None) -> None:
    keys: list[dict[str, Any]] = [
        {
            "trigger": message.trigger_name,
            "id": message.id,
            "parked_at": (message.parked_at - _EPOCH) // timedelta(microseconds=1),
        }
        for message in parked
    ]
    labels = [in_ascii(label_of(message, cipher)) for message in parked]
    documents = [in_ascii(document_of(message, cipher)) for message in parked]
    digests = [digest(message.uuid or "") for message in parked]
    values: Sequence[Any]
    for statement, name, values in (
        (statements.NOTE_UUID, "digest", digests),
        (statements.LABEL, "label", labels),
        (statements.PARK, "document", documents),
    ):
        rows = [{**key, name: value} for key, value in zip(keys, values, strict=True)]
        await execute_each(connection, statement, rows)


async def _remove(connection: AnyConnection, *, trigger: str, id: str) -> bool:  # noqa: A002
    gone = await fetch(connection, statements.REMOVE, trigger=trigger, id=id)
    await execute(connection, statements.REMOVE_LABEL, trigger=trigger, id=id)
    await execute(connection, statements.REMOVE_UUID, trigger=trigger, id=id)
    return bool(gone)


async def _decide(
    connection: AnyConnection, *, trigger: str, decision: OperatorDecision, chosen: Sequence[Decided]
) -> Sequence[bool]:
    """Settle the entries of messages that are still parked, remove them, and record it; in a transaction."""
    if before := await fetch(connection, statements.DECIDED, token=decision.token):
        return [answer == "1" for answer in json.loads(before[0].document)["answers"]]
    named: dict[str, Any] = {"trigger": trigger, "ids": _ids(connection, [one.id for one in chosen])}
    parked = {row.id for row in await fetch(connection, statements.LOCK, **named)}
    if decision.ended:
        parked = {one.id for one in chosen}
    wishes = {
        digest(one.settlement.uuid): one.settlement
        for one in chosen
        if one.settlement is not None and one.id in parked
    }
    settled: Mapping[bytes, bool] = {}
    if wishes:
        settled = await settle_entries(connection, trigger=trigger, wishes=wishes)
    answers = [one.id in parked and _is_settled(one.settlement, settled) for one in chosen]
    taken = [one for one, answer in zip(chosen, answers, strict=True) if answer]
    if not taken:
        return answers
    if decision.kind is not DecisionKind.RUN and not decision.ended:
        named["ids"] = _ids(connection, [one.id for one in taken])
        await fetch(connection, statements.REMOVE_EACH, **named)
        await execute(connection, statements.REMOVE_LABELS, **named)
        await execute(connection, statements.REMOVE_UUIDS, **named)
    document = {
        "decision": in_ascii(decision.model_dump_json()),
        "messages": f"[{', '.join(map(message_text, taken))}]",
        "answers": "".join("1" if answer else "0" for answer in answers),
    }
    values = {"trigger": trigger, "token": decision.token, "document": json.dumps(document)}
    await execute(connection, statements.RECORD, **values)
    return answers


def _is_settled(settlement: Settlement | None, settled: Mapping[bytes, bool]) -> bool:
    return settlement is None or settled[digest(settlement.uuid)]


def _ids(connection: AnyConnection, ids: Sequence[str]) -> str | Sequence[str]:
    return list(ids) if connection.dialect.name == Dialect.POSTGRESQL else json.dumps(ids)


def _instant(microseconds: Any) -> datetime:
    """Return when a message was parked; 1970 if the cell cannot be read."""
    try:
        return _EPOCH + timedelta(microseconds=microseconds)
    except UNREADABLE:
        return _EPOCH


def _record(trigger: str, row: AnyRow) -> DecisionRecord:
    document = json.loads(row.document)
    at = _EPOCH + timedelta(milliseconds=row.decided_at)
    return record_of(trigger, at, document["decision"], document["messages"])
