"""The forms and answers of the addresses for programs, as the OpenAPI document has them."""

from datetime import datetime
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field

from history.store.decisions import DecisionKind
from history.store.parking import ParkedKind


class Schema(BaseModel):
    """A form or an answer: it has no other fields."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid", populate_by_name=True)


class Problem(Schema):
    """Why a request was refused."""

    title: str
    text: str


class ParkedMessage(Schema):
    """A parked message. A line of a list has no absent values.

    The last five fields are only for roles that see bodies. For other roles, ``reason`` has no text of an
    error, and ``error_message`` is absent.
    """

    id: str
    trigger: str
    kind: ParkedKind
    uuid: str | None = None
    destination: str | None = None
    parked_at: datetime
    reason: str
    error_class: str | None = None
    error_message: str | None = None
    error_place: str | None = Field(
        default=None, description="where in your code the error was raised: file:line in function"
    )
    owner: str | None = Field(default=None, description="the worker that ran it: host, process and a token")
    copies: int = Field(description="how often it was parked")
    headers: dict[str, Any] | None = None
    body_kind: str | None = Field(
        default=None, alias="body-kind", description="json, text, bytes, base64 or json-text"
    )
    body: Any = None
    raw: dict[str, str] | None = Field(default=None, description="a delivery that was not a message")
    locked: str | None = Field(default=None, description="why an encrypted message cannot be read here")


class Decided(Schema):
    """A decision about a message, and its result."""

    at: datetime
    decision: DecisionKind
    by: str
    as_user: str | None
    reason: str | None
    id: str
    outcome: str | None
    closed: bool


class WrittenComment(Schema):
    """A comment on a message, an assignment, or both."""

    at: datetime | None
    by: str
    as_user: str | None
    text: str | None
    assigned_to: str | None = Field(description="null: unchanged; empty: assigned to nobody")


class MessageFacts(ParkedMessage):
    """A parked message, its question, its comments, and its decisions."""

    question: str
    assigned_to: str | None
    comments: list[WrittenComment] = Field(description="the oldest first")
    decisions: list[DecisionKind] = Field(description="the decisions that this token may take")
    decided: list[Decided] = Field(description="the decisions that were taken, the oldest first")


class Decision(Schema):
    """A decision about one message (``trigger`` and ``id``), or about messages of groups (``key``).

    For a group, give ``all``, or an ``id`` for each message. Repeat ``id`` and ``key`` as often as necessary.
    """

    decision: DecisionKind
    reason: str = Field(min_length=1, description="stored with the decision")
    trigger: str | None = None
    id: list[str] | None = None
    key: list[str] | None = Field(default=None, description="groups, as in the address of a group's page")
    all: str | None = Field(default=None, description="any text: decide about the whole groups")
    until: list[datetime] | None = Field(
        default=None,
        description="for the message, or for each group: leave what was parked later alone",
    )
    shown: list[int] | None = Field(
        default=None, description="for each group: refuse the decision if more messages are parked"
    )

    rate: float | None = Field(default=None, description="at most so many messages a second")


class NewComment(Schema):
    """A comment (``text``) on a message, or an assignment (``assign``), or both."""

    trigger: str
    id: str
    text: str | None = None
    assign: str | None = Field(default=None, description="the name of a person; empty for nobody")


class FilterValues(Schema):
    """What a filter filters, as the parameters of a list of parked messages."""

    text: str | None = None
    error: str | None = None
    older: str | None = None
    newer: str | None = None
    trigger: str | None = None
    host: str | None = None
    by: str | None = Field(default=None, description="host: groups by the host of the worker")


class NewFilter(FilterValues):
    """A filter to save. It replaces the filter of the same name."""

    name: str = Field(min_length=1, max_length=60)


class FilterName(Schema):
    """A saved filter."""

    name: str


class SavedFilter(Schema):
    """A saved filter, who saved it and when, and the address of the page that it shows."""

    name: str
    filter: FilterValues
    by: str
    at: datetime
    address: str
    about: str = Field(description="what it filters, in words")


class SavedFilters(Schema):
    """All saved filters, by their names. A filter with a ``text`` is only for roles that see bodies."""

    filters: list[SavedFilter]


class DeadLetters(Schema):
    """A dead-letter destination whose messages are to be parked."""

    provider: str = Field(description="its address, as on the page of the providers")
    from_: str = Field(alias="from", description="the dead-letter queue or topic")
    trigger: str | None = Field(default=None, description="needed if a letter does not name its trigger")


class ParkedLetters(Schema):
    """How many dead letters were parked for each trigger, and how many stay there."""

    parked: dict[str, int]
    left: int


class JobKey(Schema):
    """A decision that was begun."""

    key: str = Field(description="from the answer to the decision")


class LeftMessage(Schema):
    """A message that stays parked, and why."""

    trigger: str
    message: str
    why: str | None


class Job(Schema):
    """The progress of a decision."""

    decision: DecisionKind
    finished: bool
    total: int
    closed: int
    left: int
    rest: int = Field(description="how many messages have not had their turn")
    rate: float | None
    cancelled_by: str | None
    error: str | None
    parked: list[LeftMessage] = Field(description="some of the messages that stay parked")
