"""Decisions of people about parked messages, and the record of them, which only grows."""

from collections.abc import Sequence
from enum import StrEnum
from typing import ClassVar, NamedTuple, Self

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from history.entry import Settlement
from history.store.owners import owner_token
from history.store.texts import EncodableText

#: The longest uuid that a record has in full; the record has the id of the parked message as well.
LONGEST_UUID = 200


class DecisionKind(StrEnum):
    """A person's choice for parked messages."""

    RUN = "run"
    DONE = "done"
    DISCARD = "discard"


class Ended(NamedTuple):
    """The outcome for some messages of a decision, by id. ``closed``: they are no longer parked."""

    outcome: EncodableText
    closed: bool
    ids: tuple[str, ...]


class OperatorDecision(BaseModel):
    """One decision, its author and its reason. If it is sent twice, it has one token and counts once.

    With ``ended`` it is the outcome of a decision: of the decision with a token that begins with
    ``outcome_of``. Or it is its own outcome: then nothing was done, and it has only this record.

    ``by`` is the name that a person gives. ``as_user`` is the user of the operating system who gave it on the
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
    """A parked message of a decision.

    ``settlement`` settles its entry in the same step; None leaves the entry as it is.
    """

    id: str
    uuid: str | None
    settlement: Settlement | None = None


class DecidedMessage(NamedTuple):
    """A message in a record: the id under which it was parked, and its uuid, cut if it is long."""

    id: str
    uuid: str | None

    @classmethod
    def of(cls, decided: Decided) -> Self:
        """Return a message as a record has it."""
        return cls(decided.id, None if decided.uuid is None else decided.uuid[:LONGEST_UUID])


class DecisionRecord(OperatorDecision):
    """A stored decision: ``at`` is the time of the store's clock; it was carried out for ``messages``."""

    trigger_name: str
    at: AwareDatetime
    messages: tuple[DecidedMessage, ...] = ()


class DecisionPage(NamedTuple):
    """Some records, the newest first. ``cursor`` continues with older ones and is None at the end."""

    records: Sequence[DecisionRecord]
    cursor: str | None
