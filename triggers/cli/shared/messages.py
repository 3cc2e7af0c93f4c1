"""Messages as the commands print them."""

import base64
from typing import Any

from history.errors import ConfigurationError
from history.message import Message
from history.store.parking import Parked
from history.store.sealing import why_locked


def whole(message: Message) -> dict[str, Any]:
    """Return the JSON form of a message: headers, and the body as text if possible."""
    kind, body = _shown(message)
    return {"headers": message.headers(), "body-kind": kind, "body": body}


def without_message(parked: Parked, setting: str, problem: str) -> ConfigurationError:
    """Return the error for a parked copy without a message to run."""
    if (locked := why_locked(parked)) is not None:
        return ConfigurationError(setting, f"{parked.id} cannot be read", locked)
    return ConfigurationError(setting, problem, "send it mended, or discard it")


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
