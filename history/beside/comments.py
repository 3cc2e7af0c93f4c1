"""Comments on parked messages, and to whom they are assigned: a log that only grows, and the last assignment.

One step adds the line and changes the assignment, so that the log has every assignment.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import ClassVar, Self

from pydantic import BaseModel, ConfigDict, Field

from history.entry import digest
from history.errors import ConfigurationError
from history.store.records import Append, Change, Kind, Log, LogLine, Put, Record, Records, line_id
from history.store.texts import EncodableText
from history.support.spoilt import readable

COMMENTS = Log("comment")

#: The key is the digest of the id of the parked message, and the value is a name.
ASSIGNED = Kind("assigned")

#: How long an assignment is kept after it changed; the log has it longer.
KEPT_FOR = timedelta(days=400)

#: How long a comment, and a name, may be.
LONGEST_TEXT, LONGEST_NAME = 4_000, 200

#: How many comments on a message are read.
MOST = 200


class Comment(BaseModel):
    """What somebody wrote about a parked message, or to whom it was assigned; or both.

    ``assigned_to`` is None if the assignment did not change, and empty if it was taken back. ``as_user`` is
    the user of the operating system on the command line. ``at`` is the time of the store's clock, None before
    it is stored.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True)

    parked_id: str
    by: EncodableText
    as_user: EncodableText | None = None
    text: EncodableText | None = None
    assigned_to: EncodableText | None = None
    at: datetime | None = Field(default=None, exclude=True)
    id: str = Field(default_factory=line_id)

    @classmethod
    def checked(
        cls,
        parked_id: str,
        *,
        by: str,
        text: str | None,
        assigned_to: str | None,
        as_user: str | None = None,
    ) -> Self:
        """Return a comment of these words.

        Raises:
            ConfigurationError: it says nothing, or is too long.
        """
        text = (text or "").strip() or None
        assigned_to = None if assigned_to is None else assigned_to.strip()
        if text is None and assigned_to is None:
            raise ConfigurationError("text", "is missing", "write a comment, or assign the message")
        if len(text or "") > LONGEST_TEXT:
            raise ConfigurationError("text", f"has more than {LONGEST_TEXT:,} characters", "make it shorter")
        if len(assigned_to or "") > LONGEST_NAME:
            raise ConfigurationError("assign", f"has more than {LONGEST_NAME} characters", "give a name")
        return cls(parked_id=parked_id, by=by, as_user=as_user, text=text, assigned_to=assigned_to)

    def shown(self) -> Mapping[str, object]:
        """Return the facts for people and programs."""
        facts = {"at": self.at, "by": self.by, "as_user": self.as_user, "text": self.text}
        return facts | {"assigned_to": self.assigned_to}


class Comments:
    """Comments in the records of a store; as safe as these, and shared in the same way."""

    def __init__(self, records: Records) -> None:
        self._records = records

    async def add(self, trigger: str, comment: Comment) -> None:
        """Add a comment; if it is sent twice, it counts once."""
        key = digest(comment.parked_id)
        changes: list[Change] = [Append(COMMENTS, comment.id, _line(comment), key)]
        if comment.assigned_to is not None:
            name = Record(key, comment.assigned_to.encode())
            changes.append(Put(ASSIGNED, name, time_to_live=KEPT_FOR))
        await self._records.apply(trigger, changes)

    async def read(self, trigger: str, parked_id: str) -> Sequence[Comment]:
        """Return the last comments on a message, the oldest of them first."""
        page = await self._records.log(trigger, COMMENTS, about=digest(parked_id), limit=MOST)
        named = ((f"of the trigger {trigger} ({line.cursor})", line) for line in page.lines)
        comments = {comment.id: comment for comment in readable("the comment", named, _comment)}
        return [comment for comment in comments.values() if comment.parked_id == parked_id][::-1]

    async def assigned(self, trigger: str, parked_ids: Sequence[str]) -> Mapping[str, str]:
        """Return to whom messages are assigned, by their ids, in one call."""
        stored = await self._records.get(trigger, ASSIGNED, [digest(id_) for id_ in parked_ids])
        return {
            id_: record.value.decode("utf-8", "replace")
            for id_, record in zip(parked_ids, stored, strict=True)
            if record is not None and record.value
        }


def _line(comment: Comment) -> str:
    return json.dumps(comment.model_dump(mode="json", exclude_none=True))


def _comment(line: LogLine) -> Comment:
    return Comment.model_validate_json(line.line).model_copy(update={"at": line.at})
