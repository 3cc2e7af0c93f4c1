"""``doubtless parked comment``: write about a parked message, and assign it."""

from typing import Any

import typer

from history.beside.comments import Comment, comments_of
from history.bridge import drive
from history.store.security import SecurityEvent
from triggers.cli.parked.deciding import login
from triggers.cli.shared.options import HISTORY_OPTION, opened
from triggers.cli.shared.output import CliState
from triggers.operations.choosing import get
from triggers.security.commands import command_record, os_user, recorded

#: The name that takes an assignment back.
NOBODY = "nobody"

_ID: Any = typer.Argument(help="The id, or the beginning of the id if that is unique.")
_TEXT: Any = typer.Argument(None, help="The comment.")
_ASSIGN: Any = typer.Option(None, "--assign", help=f"Assign the message to this person, or to {NOBODY}.")
_BY: Any = typer.Option(None, "--by", help="Who writes. By default: the name of the login.")


def comment(
    context: typer.Context,
    parked_id: str = _ID,
    text: str | None = _TEXT,
    assign: str | None = _ASSIGN,
    by: str | None = _BY,
    history: str | None = HISTORY_OPTION,
) -> None:
    """Write a comment on a parked message, or assign the message to somebody.

    Comments are never deleted. "parked show" and the page of the message show them.
    """
    with opened(history) as store:
        parked = get(store.parking, parked_id)
        written = Comment.checked(
            parked.id,
            by=by or login(),
            as_user=str(os_user()),
            text=text,
            assigned_to="" if assign == NOBODY else assign,
        )
        target = {"trigger": parked.trigger_name, "message": parked.uuid or parked.id}
        with recorded(store, [command_record(SecurityEvent.COMMENT, by=by, **target)]):
            drive(comments_of(store).add(parked.trigger_name, written))
    CliState.of(context).say(f"{parked.uuid or parked.id}: noted")
