"""How a delivery of a task goes back to the broker: as the same task later, or by being rejected."""

import logging
import time
from importlib import import_module
from typing import Any, NoReturn

from history.support.redaction import Redaction
from history.support.rendering import exception_info, text_of

_log = logging.getLogger(__name__)

#: Where a request has the content type of its message, which Celery does not hand on.
CONTENT_TYPE = "doubtless_content_type"

#: How long a worker pauses before it gives a task back that it cannot send again, in seconds.
PAUSE = 5.0


def send_again(task: Any, seconds: float) -> None:
    """Send the same task again, as its publisher sent it; it counts as none of the task's own retries.

    Raises:
        Exception: the broker does not take it.
    """
    request = task.request
    options: dict[str, Any] = {"countdown": seconds, "retries": request.retries}
    registry = import_module("kombu.serialization").registry
    serializer = registry.type_to_name.get(getattr(request, CONTENT_TYPE, None))
    if serializer is not None:
        options["serializer"] = serializer
    properties: dict[str, Any] = request.properties or {}
    if properties.get("delivery_mode") is not None:
        options["delivery_mode"] = properties["delivery_mode"]
    headers: dict[str, Any] = request.headers or {}
    if headers.get("compression"):
        options["compression"] = headers["compression"]
    task.signature_from_request(**options).apply_async()


def give_back(celery: Any, task: Any, problem: Exception, redact: Redaction | None) -> NoReturn:
    """Have the broker deliver a task again after something of the guard failed; the history knows its state.

    Raises:
        Exception: Celery's Reject; in the process that asked for the task, the problem itself.
    """
    if task.request.is_eager:
        raise problem
    _log.error(
        "%s RECOVERED: %s. The guard failed before it knew how the task ended. The broker delivers it again",
        task.request.id,
        text_of(problem, redact),
        exc_info=exception_info(problem, redact=redact),
        extra={"trigger": task.name},
    )
    try:
        time.sleep(PAUSE)  # rejected immediately, it would come again without end
    finally:
        raise celery.exceptions.Reject(problem, requeue=True)
