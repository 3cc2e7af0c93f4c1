"""The table of the addresses for programs: what each one does, who may use it, and what it answers."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from starlette.responses import Response

from history.store.decisions import DecisionKind
from triggers.dashboard.access.roles import Role
from triggers.dashboard.api.document import document_of
from triggers.dashboard.api.operation import ApiAnswer, ApiOperation, Parameter
from triggers.dashboard.api.schemas import (
    DeadLetters,
    Decision,
    FilterName,
    Job,
    JobKey,
    MessageFacts,
    NewComment,
    NewFilter,
    ParkedLetters,
    ParkedMessage,
    SavedFilters,
)
from triggers.dashboard.pages import decide, export, message, parked, progress, providers
from triggers.dashboard.visit import API, Visit

#: An example of a message, as a role sees it that sees bodies.
_MESSAGE: Mapping[str, Any] = {
    "id": "6f1c1a5be1c84a0c97b4f3a2",
    "trigger": "book",
    "kind": "in doubt",
    "uuid": "order-1",
    "destination": "orders",
    "parked_at": "2026-01-02T12:00:00+00:00",
    "reason": "IN DOUBT: an earlier run did not finish; parked (row 10)",
    "error_class": None,
    "error_message": None,
    "error_place": None,
    "owner": "host-1:42:9f3a",
    "copies": 1,
    "headers": {"JMSMessageID": "ID:order-1"},
    "body-kind": "json",
    "body": {"id": "order-1"},
    "raw": None,
    "locked": None,
    "question": "Did book happen for order-1?",
    "assigned_to": "ann",
    "comments": [],
    "decisions": ["run", "done", "discard"],
    "decided": [],
}

_JOB: Mapping[str, Any] = {
    "decision": "done",
    "finished": True,
    "total": 1,
    "closed": 1,
    "left": 0,
    "rest": 0,
    "rate": None,
    "cancelled_by": None,
    "error": None,
    "parked": [],
}

_DECISION: Mapping[str, Any] = {
    "decision": "done",
    "reason": "it is in the ledger",
    "trigger": "book",
    "id": [_MESSAGE["id"]],
    "until": [_MESSAGE["parked_at"]],
}

_NO_SUCH_TRIGGER = "No trigger has this name."

_SHOWS = partial(ApiOperation, method="GET", role=Role.VIEWER)
_CHANGES = partial(ApiOperation, method="POST", role=Role.OPERATOR)


def openapi(visit: Visit) -> Response:
    """Answer with the OpenAPI document."""
    return visit.data(document_of(OPERATIONS))


def _progress(about: str) -> ApiAnswer:
    return ApiAnswer(status=303, about=about, location="the address of its progress: showJob")


#: All addresses for programs.
OPERATIONS = (
    _SHOWS(
        path=f"{API}openapi.json",
        page=openapi,
        name="openapi",
        summary="Return this document",
        answer=ApiAnswer(about="This document, in OpenAPI 3.1."),
    ),
    _SHOWS(
        path=f"{API}parked",
        page=export.export,
        name="listParked",
        summary="List parked messages",
        about="Without parameters, all parked messages are listed. The security log has each list.",
        parameters=(
            Parameter(
                name="format",
                about="JSON lines (the default), or CSV",
                example="jsonl",
                values=tuple(export.FORMS),
            ),
            Parameter(name="trigger", about="only messages of this trigger", example="book"),
            Parameter(name="host", about="only messages that workers of this host began", example="host-1"),
            Parameter(
                name="by",
                about="host: only messages with a known host of the worker",
                example="host",
                values=("cause", "host"),
            ),
            Parameter(name="key", about="one group, as in the address of its page", example="3f2a"),
            Parameter(
                name="text",
                about="only messages with this text in the uuid or id; for roles that see bodies, also in"
                " the reason or error",
                example="order-1",
            ),
            Parameter(
                name="error", about="only messages with this text in the error's class", example="Time"
            ),
            Parameter(name="older", about="only messages that were parked longer ago", example="1h"),
            Parameter(name="newer", about="only messages that were parked within this time", example="7d"),
        ),
        answer=ApiAnswer(
            about="The messages, the oldest of each group first.",
            body=ParkedMessage,
            lines=True,
            also=("text/csv",),
        ),
        problems={
            404: f"{_NO_SUCH_TRIGGER} Or: the format or grouping is unknown, or the group is empty.",
            503: "A history does not answer, or is still being counted: the list would not be complete.",
        },
    ),
    _SHOWS(
        path=f"{API}message",
        page=message.message,
        name="showMessage",
        summary="Show a parked message",
        about="If a body is shown, the security log has a record.",
        parameters=(
            Parameter(name="trigger", about="the message's trigger", example="book", required=True),
            Parameter(name="id", about="the message's id", example=_MESSAGE["id"], required=True),
        ),
        answer=ApiAnswer(about="The message.", body=MessageFacts, example=_MESSAGE),
        problems={404: f"{_NO_SUCH_TRIGGER} Or: the message is not parked any more."},
    ),
    _CHANGES(
        path=f"{API}decide",
        page=decide.decide,
        name="decide",
        summary="Begin to carry out a decision",
        about="Two requests with the same decision are safe: a message is decided once.",
        form=Decision,
        form_example=_DECISION,
        answer=_progress("The decision has begun."),
        problems={
            400: f"The form is invalid, or the decision is impossible. Use {', '.join(DecisionKind)}.",
            404: _NO_SUCH_TRIGGER,
            409: "None of these messages is parked any more.",
            422: "The reason is missing.",
        },
    ),
    _CHANGES(
        path=f"{API}cancel",
        page=progress.cancel,
        name="cancel",
        summary="Cancel a decision",
        about="Messages that have not had their turn stay parked. The others are not changed.",
        form=JobKey,
        answer=_progress("The decision is cancelled."),
        problems={409: "This decision is not being carried out any more."},
    ),
    _CHANGES(
        path=f"{API}continue",
        page=progress.resume,
        name="continue",
        summary="Continue a cancelled decision",
        about="The new decision is about the messages that have not had their turn.",
        form=JobKey,
        answer=_progress("The decision has begun."),
        problems={409: "Every message of this decision has had its turn."},
    ),
    _CHANGES(
        path=f"{API}comment",
        page=message.comment,
        name="comment",
        summary="Comment on a parked message, or assign it",
        form=NewComment,
        answer=ApiAnswer(
            status=303, about="The comment is stored.", location="the address of the message: showMessage"
        ),
        problems={
            400: "The form is invalid: it has no comment and no change of the assignment, or is too long.",
            404: f"{_NO_SUCH_TRIGGER} Or: the message is not parked any more.",
        },
    ),
    _SHOWS(
        path=f"{API}filters",
        page=parked.list_filters,
        name="listFilters",
        summary="List the saved filters of parked messages",
        answer=ApiAnswer(about="The filters.", body=SavedFilters),
    ),
    _CHANGES(
        path=f"{API}filter",
        page=parked.save_filter,
        name="saveFilter",
        summary="Save a filter of parked messages under a name",
        form=NewFilter,
        answer=ApiAnswer(about="The filter is saved; these are all.", body=SavedFilters),
        problems={400: "The form is invalid, it filters nothing, or too many filters are saved."},
    ),
    _CHANGES(
        path=f"{API}forget-filter",
        page=parked.remove_filter,
        name="removeFilter",
        summary="Remove a saved filter",
        form=FilterName,
        answer=ApiAnswer(about="The filter is removed; these are left.", body=SavedFilters),
        problems={404: "No saved filter has this name."},
    ),
    _CHANGES(
        path=f"{API}letters",
        page=providers.letters,
        name="parkDeadLetters",
        summary="Park the messages of a dead-letter destination",
        about="One request parks at most 1,000 messages. It ends when no message has come for three seconds.",
        form=DeadLetters,
        answer=ApiAnswer(about="The letters are parked.", body=ParkedLetters),
        problems={400: "The form is invalid, or a trigger receives from this destination."},
    ),
    _SHOWS(
        path=f"{API}job",
        page=progress.job,
        name="showJob",
        summary="Show the progress of a decision",
        parameters=(
            Parameter(
                name="key", about="from the answer to a decision", example="a1b2c3d4e5f60718", required=True
            ),
        ),
        answer=ApiAnswer(about="The progress.", body=Job, example=_JOB),
        problems={404: "The dashboard does not remember such a decision."},
    ),
)
