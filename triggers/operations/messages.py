"""Messages as the commands print them and the dashboard exports them."""

import base64
from collections.abc import Mapping, Sequence
from typing import Any

from history.beside.kept import KeepsBeside
from history.bridge import drive
from history.message import Message
from history.store.parking import ParkedLabel


def row_of(label: ParkedLabel) -> dict[str, Any]:
    """Return the printed form of a parked message."""
    error = [] if label.error_message is None else [label.error_message]
    again = [] if label.copies == 1 else [f"parked {label.copies} times"]
    return {
        "id": label.id,
        "trigger": label.trigger_name,
        "kind": label.kind.value,
        "uuid": label.uuid,
        "destination": label.destination,
        "parked_at": label.parked_at,
        "reason": "; ".join([": ".join([label.reason, *error]), *again]),
        "error_class": label.error_class,
        "error_message": label.error_message,
        "error_place": label.error_place,
        "owner": label.evidence.owner,
        "copies": label.copies,
    }


def comments_about(store: KeepsBeside, trigger: str, parked_id: str) -> Sequence[Mapping[str, object]]:
    """Return the comments on a message, the oldest first."""
    return [comment.shown() for comment in drive(store.comments.read(trigger, parked_id))]


def whole(message: Message) -> dict[str, Any]:
    """Return the JSON form of a message: headers, and the body as text if possible."""
    body_kind, body = _shown(message)
    return {"headers": message.headers(), "body-kind": body_kind, "body": body}


def _shown(message: Message) -> tuple[str, Any]:
    match message.body:
        case bytes() as body:
            try:
                return "bytes", body.decode("utf-8")
            except UnicodeDecodeError:
                return "base64", base64.b64encode(body).decode("ascii")
        case str() as body:
            return "text", body
        case _ if message.loses_digits:
            return "json-text", message.encoded().decode("utf-8")
        case body:
            return "json", body
