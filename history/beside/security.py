"""The security log: who signed in, was refused, saw a body, decided or gave a command. It only grows."""

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import ClassVar, NamedTuple, Self

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, field_validator

from history.store.records import NO_TRIGGER, Append, Log, Records, line_id
from history.store.texts import EncodableText
from history.support.spoilt import readable

#: Lines are deleted only because of their age.
SECURITY = Log("security")

#: For how long records are kept by default.
KEPT_FOR = timedelta(days=400)

#: A longer name of a user, a trigger or a message is cut at this length.
LONGEST_NAME = 200


class SecurityEvent(StrEnum):
    """The action that somebody did, or tried to do."""

    SIGN_IN = "sign_in"
    SIGN_OUT = "sign_out"
    SESSION_END = "session_end"
    #: A request was refused.
    ACCESS = "access"
    VIEW_BODY = "view_body"
    EXPORT = "export"
    RUN = "run"
    DONE = "done"
    DISCARD = "discard"
    CANCEL = "cancel"
    COMMENT = "comment"
    FILTER = "filter"
    SUSPEND = "suspend"
    RESUME = "resume"
    DISABLE = "disable"
    ENABLE = "enable"
    FORGET = "forget"
    IMPORT = "import"


class SecurityOutcome(StrEnum):
    """The result. FAILED: it was allowed, but it could not be done."""

    ALLOWED = "allowed"
    DENIED = "denied"
    FAILED = "failed"


class SecurityRecord(BaseModel):
    """One record: a person's action, its time, its object and its source, and whether it was allowed.

    ``at`` is the time of the process that recorded it. ``user`` and ``role`` are those of the dashboard. On
    the command line, ``user`` is the user of the operating system, ``by`` the name from ``--by``, and
    ``sudo_user`` the user that sudo reports. ``way`` is how the person signed in: "token", "proxy" or
    "command line". ``source`` is the address of the client, or the host of the command line. ``message`` is a
    uuid, or the id of a parked message; ``messages`` is the number of messages in a decision. ``times`` is
    how often it happened since ``at``: one record counts repeated refusals. ``why`` is one of our sentences.

    Records never have a secret, a token, a body or the text of an error.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True)

    event: SecurityEvent
    outcome: SecurityOutcome
    why: EncodableText | None = None
    user: EncodableText | None = None
    role: str | None = None
    by: EncodableText | None = None
    sudo_user: EncodableText | None = None
    way: str | None = None
    source: EncodableText | None = None
    page: str | None = None
    trigger: EncodableText | None = None
    message: EncodableText | None = None
    messages: int | None = None
    times: int = 1
    at: AwareDatetime = Field(default_factory=lambda: datetime.now(UTC))
    id: str = Field(default_factory=line_id)

    @field_validator("user", "by", "sudo_user", "source", "trigger", "message")
    @classmethod
    def _cut(cls, text: str | None) -> str | None:
        return None if text is None else text[:LONGEST_NAME]

    def to_json(self) -> str:
        """Return it as one line of JSON in ASCII, without fields that are None."""
        return json.dumps(self.model_dump(mode="json", exclude_none=True))

    def after(self, outcome: SecurityOutcome, why: str) -> Self:
        """Return the record of this action's outcome, with its own time and id."""
        fresh = {"outcome": outcome, "why": why, "at": datetime.now(UTC), "id": line_id()}
        return self.model_copy(update=fresh)

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Read what :meth:`to_json` wrote, without fields that a newer version added.

        Raises:
            ValueError: the text is not a record.
        """
        return cls.model_validate_json(text)


class SecurityPage(NamedTuple):
    """Some records, the newest first. ``cursor`` continues with older ones and is None at the end."""

    records: Sequence[SecurityRecord]
    cursor: str | None


class SecurityLog:
    """Keeps security records in a log of a store, which does not belong to a trigger.

    Nothing changes a record, and it is deleted only because of its age.
    """

    def __init__(self, records: Records) -> None:
        self._records = records

    async def append(self, records: Sequence[SecurityRecord]) -> None:
        """Add records, in one call; a record that is sent twice is read once."""
        changes = [Append(SECURITY, record.id, record.to_json()) for record in records]
        await self._records.apply(NO_TRIGGER, changes)

    async def read(
        self, *, before: datetime | None = None, cursor: str | None = None, limit: int = 100
    ) -> SecurityPage:
        """Return some records, the newest first; without a cursor, only records stored before an instant.

        Raises:
            ConfigurationError: the cursor does not belong to this log.
        """
        page = await self._records.log(NO_TRIGGER, SECURITY, before=before, cursor=cursor, limit=limit)
        named = ((f"security record {line.cursor}", line.line) for line in page.lines)
        records = readable("security record", named, SecurityRecord.from_json)
        return SecurityPage(recorded_once(records), page.cursor)

    async def delete_older(self, age: timedelta) -> None:
        """Delete the records that are older than this, by the store's clock."""
        await self._records.forget(NO_TRIGGER, SECURITY, age)


def recorded_once(records: Iterable[SecurityRecord]) -> list[SecurityRecord]:
    """Return the records without repetitions."""
    return list({record.id: record for record in records}.values())
