"""Messages as the commands print them."""

import base64
from typing import Any

from history.message import Message


def whole(message: Message) -> dict[str, Any]:
    """Return the JSON form of a message: headers, and the body as text if possible."""
    kind, body = _shown(message)
    return {"headers": message.headers(), "body-kind": kind, "body": body}


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
