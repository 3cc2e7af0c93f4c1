"""What somebody decided about parked messages, and the record of it, which only grows."""

import json
from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import ClassVar, NamedTuple

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from history.entry import Settlement
from history.store.owners import owner_token
from history.store.texts import EncodableText

#: The longest uuid that a record holds in full; the id of the parked message stands beside it.
LONGEST_UUID = 200


class DecisionKind(StrEnum):
    """What became of parked messages by somebody's word."""

    RUN = "run"
    DONE = "done"
    DISCARD = "discard"


class Ended(NamedTuple):
    """What came of some messages of a decision, by their ids, and whether they are not parked any more."""

    outcome: EncodableText
    closed: bool
    ids: tuple[str, ...]


class OperatorDecision(BaseModel):
    """One decision: what, by whom and why. A decision that is sent twice has one token, and counts once.

    With ``ended`` it is no decision, but says what came of one: of that whose token begins with
    ``outcome_of``, or of itself, where nothing was done and it has no other record.

    ``by`` is a name that somebody gives. ``as_user`` is the user of the operating system who gave it on the
    command line, such as "root@host"; None for the dashboard, where ``by`` has signed in.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True)

    kind: DecisionKind
    by: EncodableText
    as_user: EncodableText | None = None
    reason: EncodableText | None = None
    token: str = Field(default_factory=owner_token)
    outcome_of: str | None = None
    ended: tuple[Ended, ...] = ()


class Decided(NamedTuple):
    """A parked message that a decision is about.

    ``settlement`` is how its entry ends with it, in the same step; None leaves the entry as it is.
    """

    id: str
    uuid: str | None
    settlement: Settlement | None = None


class DecidedMessage(NamedTuple):
    """What a record says of a message: the id that it was parked under, and its uuid, cut if it is long."""

    id: str
    uuid: str | None


class DecisionRecord(OperatorDecision):
    """A decision as it is kept: ``at`` is by the store's clock; it was carried out for ``messages``."""

    trigger_name: str
    at: AwareDatetime
    messages: tuple[DecidedMessage, ...] = ()


class DecisionPage(NamedTuple):
    """Some records, the newest first. ``cursor`` continues with older ones and is None at the end."""

    records: Sequence[DecisionRecord]
    cursor: str | None


def message_text(decided: Decided) -> str:
    """Return what a record says of a message, as JSON."""
    uuid = None if decided.uuid is None else decided.uuid[:LONGEST_UUID]
    return json.dumps([decided.id, uuid])


def record_of(trigger: str, at: datetime, decision: str | bytes, messages: str | bytes) -> DecisionRecord:
    """Read a record of the JSON of its decision and of the list of its messages."""
    facts = OperatorDecision.model_validate_json(decision).model_dump()
    return DecisionRecord(**facts, trigger_name=trigger, at=at, messages=json.loads(messages))
