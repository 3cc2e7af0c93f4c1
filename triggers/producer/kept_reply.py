"""The reply to a duplicate request: the result of the service for the first one."""

import logging
from typing import TYPE_CHECKING

from pydantic_core import to_jsonable_python

from history.message import Message
from triggers.providers.outgoing import Body

if TYPE_CHECKING:
    from triggers.service.outcome import Outcome

_log = logging.getLogger(__name__)


def first_reply(request: Message, outcome: "Outcome") -> Body | None:
    """Return what the first run of a request returned; None if there is nothing to reply."""
    if request.reply_to is None:
        return None
    result = outcome.result
    if not outcome.result_kept or result is None:
        why = "its service returned nothing" if outcome.result_kept else "no result of the first is kept"
        extra = {"uuid": request.uuid}
        _log.warning("%s: a duplicate request has no reply: %s", request.uuid, why, extra=extra)
        return None
    return result if isinstance(result, bytes | str) else to_jsonable_python(result)
