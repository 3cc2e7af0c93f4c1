"""The steps after a completed message in Dramatiq: its place in a group, and the actor in ``on_success``.

Dramatiq counts and sends these after each delivery that ends well. A copy would count as another part of its
group, so that its callbacks come too early. It would also send ``on_success`` again, under a new id. And if a
worker dies before this step, it is left out. So both are a part of the run.
"""

import logging
from typing import Any, cast

from history.errors import MissingExtraError
from history.support.redaction import Redaction
from history.support.rendering import in_log, text_of

try:
    from dramatiq.middleware import Callbacks, GroupCallbacks
except ModuleNotFoundError as missing:
    raise MissingExtraError("doubtless.guards.dramatiq", extra="dramatiq", package="dramatiq") from missing

_log = logging.getLogger(__name__)

_GROUP, _ON_SUCCESS = "group_completion_uuid", "on_success"


def taken_from(actor: Any) -> str | None:
    """Return an actor's ``on_success`` and hide it from Dramatiq; None if the actor has none."""
    name: str | None = actor.options.pop(_ON_SUCCESS, None)
    return name


def is_followed(message: Any, on_success: str | None) -> bool:
    """Whether a group or ``on_success`` follows a message; ``on_success`` is the actor's."""
    return bool(on_success or message.options.get(_ON_SUCCESS) or message.options.get(_GROUP))


def follow(
    broker: Any, message: Any, result: Any, on_success: str | None, *, redact: Redaction | None
) -> None:
    """Do what follows a message once, as a part of its run; ``on_success`` is the actor's.

    A failure is left to Dramatiq, or logged: the message has been done.
    """
    for middleware in broker.middleware:
        try:
            if isinstance(middleware, GroupCallbacks) and _GROUP in message.options:
                cast("Any", middleware).after_process_message(broker, message, result=result)
                del message.options[_GROUP]
            elif isinstance(middleware, Callbacks):
                target = message.options.get(_ON_SUCCESS) or on_success
                if target:
                    broker.get_actor(target).send(message.asdict(), result)
                    message.options.pop(_ON_SUCCESS, None)
        except Exception as error:  # noqa: BLE001  (any error: the message has been done)
            text = text_of(error, redact)
            _log.warning("%s: what follows it failed: %s", in_log(message.message_id), text)


def leave_out(message: Any) -> None:
    """Stop Dramatiq from doing for a copy what the first message did."""
    message.options.pop(_GROUP, None)
    message.options.pop(_ON_SUCCESS, None)
