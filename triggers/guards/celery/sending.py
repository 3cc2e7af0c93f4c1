"""How a delivery of a task goes back to the broker: as the same task later, or by a reject."""

import time
from importlib import import_module
from typing import Any, NoReturn

from history.support.redaction import Redaction
from triggers.guards.host import log_failure

#: The attribute of a request with the content type of its message, which Celery does not pass on.
CONTENT_TYPE = "doubtless_content_type"

#: How long a worker pauses before it gives back a task that it cannot send again, in seconds.
PAUSE = 5.0


def send_again(task: Any, seconds: float) -> None:
    """Send the same task again, as its publisher sent it; this does not count as one of the task's retries.

    Raises:
        Exception: the broker refuses it.
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
    """Have the broker deliver a task again after a failure of the guard; the history knows its state.

    Raises:
        Exception: Celery's Reject; if this process called the task directly, the problem itself.
    """
    if task.request.is_eager:
        raise problem
    then = "The broker delivers it again"
    log_failure("RECOVERED", problem, run=task.request.id, task=task.name, redact=redact, then=then)
    try:
        time.sleep(PAUSE)  # after an immediate reject, it would come again endlessly
    finally:
        raise celery.exceptions.Reject(problem, requeue=True)
