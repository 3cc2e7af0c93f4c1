"""What follows a message that was done, in Dramatiq: its place in a group, and what ``on_success`` names.

Dramatiq counts and sends that after each delivery that ends well. A copy would be counted as another part of
its group, so that its callbacks come too early, and ``on_success`` would be sent anew, under a new id. And a
worker that dies before it does so would leave it out. So both are a part of the run.
"""

import logging
from typing import Any, cast

from history.errors import MissingExtraError
from history.support.rendering import in_log, text_of

try:
    from dramatiq.middleware import Callbacks, GroupCallbacks
except ModuleNotFoundError as missing:
    raise MissingExtraError("doubtless.guards.dramatiq", extra="dramatiq", package="dramatiq") from missing

_log = logging.getLogger(__name__)

_GROUP, _ON_SUCCESS = "group_completion_uuid", "on_success"


def taken_from(actor: Any) -> str | None:
    """Return what an actor has for ``on_success``, which Dramatiq then does not see; None for nothing."""
    name: str | None = actor.options.pop(_ON_SUCCESS, None)
    return name


def is_followed(message: Any, on_success: str | None) -> bool:
    """Whether something of that follows a message; ``on_success`` is what its actor has."""
    return bool(on_success or message.options.get(_ON_SUCCESS) or message.options.get(_GROUP))


def follow(broker: Any, message: Any, result: Any, on_success: str | None) -> None:
    """Do once, as a part of a run, what follows a message; ``on_success`` is what its actor has.

    What fails of it is left to Dramatiq, or logged: the message has been done.
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
        except Exception as error:  # noqa: BLE001  (whatever it is, the message has been done)
            _log.warning("%s: what follows it failed: %s", in_log(message.message_id), text_of(error))


def leave_out(message: Any) -> None:
    """Have Dramatiq do nothing for a copy that the first one did."""
    message.options.pop(_GROUP, None)
    message.options.pop(_ON_SUCCESS, None)
