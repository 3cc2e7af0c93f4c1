"""Parked messages, each a record with a label and a key by its uuid; and the log of decisions about them.

One step writes all of a message, and one step settles its entry, removes it and records the decision.
"""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from itertools import chain, islice

from pydantic import ValidationError

from history.beside.sealing import document_of, label_of, read_document, read_label
from history.entry import digest
from history.store import CLAIM_BATCH
from history.store.decisions import (
    Decided,
    DecidedMessage,
    DecisionKind,
    DecisionPage,
    DecisionRecord,
    OperatorDecision,
)
from history.store.parking import LabelPage, Parked, ParkedLabel, encodable, oldest_first
from history.store.records import (
    Append,
    Change,
    Delete,
    Expects,
    Get,
    Kind,
    Log,
    LogLine,
    Put,
    Record,
    Records,
    Settle,
    all_records,
    is_done,
    line_id,
)
from history.store.times import EPOCH
from history.support.encryption import Cipher
from history.support.paging import pages, pieces_of
from history.support.spoilt import readable

#: The keys are ids. The versions count how often a message was parked.
LABELS, MESSAGES = Kind("label", listed=True, lasting=True), Kind("parked")

#: The key is the beginning of the digest of the uuid, and the id; without a uuid, that of the empty text.
UUIDS = Kind("uuid", listed=True, lasting=True)

DECISIONS = Log("decision")

#: So many bytes of the digest of a uuid find its messages; a label says whether it has the uuid.
_DIGEST = 8

#: How many messages, of up to a megabyte each, one call reads, and how many labels.
READ, LABELS_READ = 20, 1000

#: So many decisions are searched for one that was sent twice.
_RECENT = 10

#: Names the triggers of a store.
Triggers = Callable[[], Awaitable[Sequence[str]]]


class Parking:
    """The parked messages in the records of a store; as safe as these, and shared in the same way.

    A record that cannot be read is shown as an unreadable message (see
    :func:`~history.store.parking.read_parked`), and the others stay accessible. ``cipher`` encrypts messages.
    """

    def __init__(self, records: Records, cipher: Cipher | None = None, *, triggers: Triggers) -> None:
        self._records = records
        self.cipher = cipher
        self._triggers = triggers

    async def names(self, trigger: str | None = None) -> Sequence[str]:
        """Return the name of this trigger; without one, of all triggers of the store, sorted."""
        return sorted(await self._triggers()) if trigger is None else [trigger]

    async def park(self, parked: Sequence[Parked]) -> None:
        """Park messages, up to :data:`~history.store.CLAIM_BATCH` of a trigger in one step.

        If a message is already parked, it is replaced, and its copies are counted: a repeat is harmless.
        """
        latest = {(message.trigger_name, message.id): message for message in parked}
        for name in dict.fromkeys(name for name, _ in latest):
            mine = [message for (trigger, _), message in latest.items() if trigger == name]
            for some in pieces_of(mine, CLAIM_BATCH):
                changes = chain.from_iterable(_writes(message, self.cipher) for message in some)
                await self._records.apply(name, list(changes))

    async def get(self, parked_id: str, *, trigger: str | None = None) -> Parked | None:
        """Return one parked message; a unique beginning of its id is enough."""
        beginning, messages = parked_id.encode(errors="replace"), list[Parked]()
        for name in await self.names(trigger):
            whole = await self._read(name, [beginning])
            if not whole:
                labels = await self._records.page(name, LABELS, prefix=beginning, limit=2)
                whole = await self._read(name, [label.key for label in labels])
            messages += whole
        return messages[0] if len(messages) == 1 else None

    async def list(self, *, trigger: str | None = None, limit: int = 1000) -> Sequence[Parked]:
        """Return parked messages of one trigger or all, oldest first.

        It walks through all labels, and holds only about twice ``limit`` of them at a time. It reads only
        these messages.
        """
        oldest: Sequence[ParkedLabel] = []
        async for page in label_pages(self, trigger, limit=LABELS_READ):
            oldest = [*oldest, *page.labels]
            if len(oldest) > 2 * limit:
                oldest = oldest_first(oldest)[:limit]
        oldest = oldest_first(oldest)[:limit]
        messages: list[Parked] = []
        for name in dict.fromkeys(label.trigger_name for label in oldest):
            keys = [_key(label) for label in oldest if label.trigger_name == name]
            messages += await self._read(name, keys)
        return sorted(messages, key=lambda message: (message.parked_at, message.id))

    async def labels(
        self, *, trigger: str | None = None, cursor: str | None = None, limit: int = 200
    ) -> LabelPage:
        """Walk through the parked messages of one trigger or all, without reading the messages.

        A page may be empty before the end. A message that is parked or removed during the walk may be seen or
        not, and any message may be seen twice. The cursor is the last id, and the trigger of the page.
        """
        last, _, current = (cursor or " ").partition(" ")
        labels: list[ParkedLabel] = []
        left = limit
        for name in [name for name in await self.names(trigger) if name >= current]:
            before = bytes.fromhex(last) if last and name == current else None
            page = await self._records.page(name, LABELS, before=before, limit=left)
            labels += await self._labels(name, page)
            left -= len(page)
            if left == 0:
                return LabelPage(labels, f"{page[-1].key.hex()} {name}")
        return LabelPage(labels, None)

    async def beginning(self, beginning: str, *, limit: int) -> Sequence[ParkedLabel]:
        """Return the labels of the ids that begin like this, at most ``limit`` for each trigger."""
        prefix, labels = beginning.encode(errors="replace"), list[ParkedLabel]()
        for name in await self.names():
            page = await self._records.page(name, LABELS, prefix=prefix, limit=limit)
            labels += await self._labels(name, page)
        return labels

    async def of_uuid(self, uuid: str, *, trigger: str | None = None) -> Sequence[ParkedLabel]:
        """Return the labels of all messages with one uuid, oldest first, by a key of its digest."""
        wanted, labels = encodable(uuid), list[ParkedLabel]()
        for name in await self.names(trigger):
            keys = await all_records(self._records, name, UUIDS, prefix=digest(wanted)[:_DIGEST])
            if ids := [record.key[_DIGEST:] for record in keys]:
                stored = await self._records.get(name, LABELS, ids)
                labels += await self._labels(name, [record for record in stored if record is not None])
        return oldest_first(label for label in labels if label.uuid == wanted)

    async def holds(self, trigger: str, labels: Sequence[ParkedLabel]) -> Sequence[bool]:
        """Return whether each message is still parked; at most :data:`~history.store.CLAIM_BATCH` of them."""
        stored = await self._records.get(trigger, LABELS, [_key(label) for label in labels])
        return [record is not None for record in stored]

    async def remove(self, parked: Parked | ParkedLabel) -> bool:
        """Remove a message after its decision; False if it was already gone."""
        changes = _removal(parked)
        return is_done(changes, await self._records.apply(parked.trigger_name, changes))

    async def count(self, *, trigger: str | None = None) -> int:
        """Count the parked messages."""
        return sum([await self._records.count(name, LABELS) for name in await self.names(trigger)])

    async def decide(
        self, trigger: str, decision: OperatorDecision, chosen: Sequence[Decided]
    ) -> Sequence[bool]:
        """Carry out somebody's decision about parked messages, and record it, in one atomic step.

        Each message is removed, unless the decision is to run it, and its entry is settled: True. False,
        without a change, if a message is no longer parked, or if the history refuses its settlement because
        the fence is stale or the owner is another. At most :data:`~history.store.CLAIM_BATCH` messages. If it
        is sent twice, it is carried out once. With ``ended`` it is only recorded.
        """
        left = list(chosen)
        while left:
            steps = [_carrying_out(decision, decided) for decided in left]
            line = Append(DECISIONS, line_id(), _line(decision, chosen, left))
            changes = [*chain.from_iterable(steps), line]
            answers = await self._records.apply(trigger, changes)
            if is_done(changes, answers):
                break
            before = await self._answers(trigger, decision.token) if len(left) == len(chosen) else None
            if before is not None:
                return before
            replies = iter(answers)
            done = [is_done(step, list(islice(replies, len(step)))) for step in steps]
            left = [decided for decided, may in zip(left, done, strict=True) if may]
        return [decided in left for decided in chosen]

    async def _answers(self, trigger: str, token: str) -> Sequence[bool] | None:
        """Return the answers to a decision that was carried out before, if it is one of the last."""
        page = await self._records.log(trigger, DECISIONS, limit=_RECENT)
        named = ((f"{line.cursor} about {trigger}", line) for line in page.lines)
        for document in readable("decision", named, lambda line: json.loads(line.line)):
            if document["decision"]["token"] == token:
                return [answer == "1" for answer in document["answers"]]
        return None

    async def decisions(self, trigger: str, *, cursor: str | None = None, limit: int = 100) -> DecisionPage:
        """Return the decisions, the newest first, at most ``limit``. No record is ever deleted.

        A decision that was recorded twice is returned once.
        """
        page = await self._records.log(trigger, DECISIONS, cursor=cursor, limit=limit)
        named = ((f"{line.cursor} about {trigger}", line) for line in page.lines)
        records = {record.token: record for record in readable("decision", named, partial(_record, trigger))}
        return DecisionPage(list(records.values()), page.cursor)

    async def _read(self, trigger: str, ids: Sequence[bytes]) -> Sequence[Parked]:
        messages: list[Parked] = []
        for some in pieces_of(ids, READ):
            stored = await self._records.get(trigger, MESSAGES, some)
            messages += [await self._parked(trigger, record) for record in stored if record is not None]
        return messages

    async def _parked(self, trigger: str, record: Record) -> Parked:
        parked = read_document(
            record.value,
            cipher=self.cipher,
            trigger=trigger,
            parked_id=record.key.decode(errors="replace"),
            copies=max(record.version, 1),
        )
        if parked.parked_at > EPOCH:
            return parked
        # Its own record does not have the time.
        (label,) = await self._records.get(trigger, LABELS, [record.key])
        return parked if label is None else parked.model_copy(update={"parked_at": label.at})

    async def _labels(self, trigger: str, records: Sequence[Record]) -> Sequence[ParkedLabel]:
        """Return labels; a label that cannot be read is made from its message."""
        labels = {record.key: self._label(record) for record in records}
        others = [key for key, label in labels.items() if label is None]
        messages = await self._read(trigger, others)
        return [
            *(label for label in labels.values() if label is not None),
            *(ParkedLabel.of(message) for message in messages),
        ]

    def _label(self, record: Record) -> ParkedLabel | None:
        try:
            label = read_label(record.value, self.cipher)
        except ValidationError:
            return None
        if _key(label) != record.key:
            return None
        copies = max(record.version, 1)
        return label if copies == label.copies else label.model_copy(update={"copies": copies})


def label_pages(lot: Parking, trigger: str | None, *, limit: int = 200) -> AsyncIterator[LabelPage]:
    """Walk through a lot, for one trigger or all; a page is read only when the caller wants it."""
    return pages(lambda cursor: lot.labels(trigger=trigger, cursor=cursor, limit=limit))


def _key(parked: Parked | ParkedLabel | Decided) -> bytes:
    return parked.id.encode()


def _uuid_key(parked: Parked | ParkedLabel | Decided) -> bytes:
    return digest(encodable(parked.uuid or ""))[:_DIGEST] + _key(parked)


def _writes(parked: Parked, cipher: Cipher | None) -> Sequence[Change]:
    label = Record(_key(parked), label_of(parked, cipher).encode())
    message = Record(_key(parked), document_of(parked, cipher).encode())
    return [
        Put(LABELS, label, Expects.COUNTED),
        Put(MESSAGES, message, Expects.COUNTED),
        Put(UUIDS, Record(_uuid_key(parked), b"")),
    ]


def _removal(parked: Parked | ParkedLabel | Decided) -> Sequence[Change]:
    key = _key(parked)
    return [
        Get(LABELS, key, required=True),
        Delete(LABELS, key),
        Delete(MESSAGES, key),
        Delete(UUIDS, _uuid_key(parked)),
    ]


def _carrying_out(decision: OperatorDecision, decided: Decided) -> Sequence[Change]:
    if decision.ended:
        return []
    runs = decision.kind is DecisionKind.RUN
    changes = [Get(LABELS, _key(decided), required=True)] if runs else _removal(decided)
    return [*changes, Settle(decided.settlement)] if decided.settlement is not None else changes


def _line(decision: OperatorDecision, chosen: Sequence[Decided], done: Sequence[Decided]) -> str:
    document = {
        "decision": decision.model_dump(mode="json"),
        "messages": [DecidedMessage.of(decided) for decided in done],
        "answers": "".join("1" if decided in done else "0" for decided in chosen),
    }
    return json.dumps(document)


def _record(trigger: str, line: LogLine) -> DecisionRecord:
    document = json.loads(line.line)
    facts = OperatorDecision.model_validate(document["decision"]).model_dump()
    return DecisionRecord(**facts, trigger_name=trigger, at=line.at, messages=document["messages"])
