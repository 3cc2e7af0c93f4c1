"""Tasks that are sent again or followed by others: by the guard, ``retry``, ``replace`` and callbacks."""

import time
from collections.abc import Mapping
from importlib import import_module
from typing import Any, NoReturn, cast
from uuid import NAMESPACE_OID, uuid5

from history.support.redaction import Redaction
from triggers.guards.host import log_failure

#: The attribute of a request with the content type of its message, which Celery does not pass on.
CONTENT_TYPE = "doubtless_content_type"

#: How long a worker pauses before it gives back a task that it cannot send again, in seconds.
PAUSE = 5.0

#: The header with the number of replacements so far, by the name of the task.
REPLACED = "doubtless_replaced"

#: Marks a request after its task was sent again.
_SENT = "_doubtless_sent_again"

#: The header with the publisher's arguments in comparable form, for a retry with other arguments.
_FIRST = "doubtless_arguments"


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


def uuid_of(uuid: str, task: Any) -> str:
    """Return the uuid of a run: the first run has the task's, each later run of the same task another.

    A task may replace itself with another run of itself: ``self.replace(self.s(...))``, page after page.
    Celery gives the replacement the id of the replaced task. A header says that it is not a copy, and Celery
    keeps this header when it retries a task. The header counts how often each task was replaced under this
    id, because two tasks may replace each other in turn.
    """
    count = _replacements(task.request).get(task.name, 0)
    return f"{uuid}/replaced-{count}" if count else uuid


def mark(signature: Any, task: Any) -> None:
    """Note in the replacement of a task that a run of this task under this id is not a copy of it."""
    heir = _heir(signature)
    if getattr(heir, "task", None) == "celery.group":
        return  # the task that collects its results has the id, and replaces nothing
    counts = _replacements(task.request)
    headers: dict[str, Any] = heir.options.get("headers") or {}
    heir.set(headers={**headers, REPLACED: {**counts, task.name: counts.get(task.name, 0) + 1}})


def _replacements(request: Any) -> dict[str, int]:
    """Return how often each task was replaced before this request; nothing for an invalid header."""
    headers: dict[str, Any] = request.headers or {}
    counts = headers.get(REPLACED)
    if not isinstance(counts, dict):
        return {}
    counted = cast("dict[str, Any]", counts)
    return {name: count for name, count in counted.items() if isinstance(count, int) and count > 0}


def _heir(signature: Any) -> Any:
    """Return the part of a canvas that gets the id: the last of a chain, a chord's body, or itself."""
    while True:
        tasks, body = getattr(signature, "tasks", None), getattr(signature, "body", None)
        if body is not None:
            signature = body
        elif tasks and getattr(signature, "task", None) == "celery.chain":
            signature = tasks[-1]
        else:
            return signature


def retry_noting(celery: Any, task: Any, args: tuple[Any, ...], terms: dict[str, Any]) -> Any:
    """Do the same as ``Task.retry``, and note in the request that the task was sent again.

    It is sent again under its id, maybe with other arguments, and ``self.retry()`` need not raise.

    Raises:
        Exception: the exception that ``Task.retry`` raises.
    """
    request = task.request
    try:
        again = celery.Task.retry(task, *args, **_with_our_headers(request, terms))
    except celery.exceptions.Retry:
        _note(request)
        raise
    _note(request)
    return again


def is_sent_again(request: Any) -> bool:
    """Whether the task of a request was sent again while it ran, however its run ended."""
    return bool(getattr(request, _SENT, False))


def first_arguments(request: Any, compared: Mapping[str, str]) -> Mapping[str, str]:
    """Return the arguments to compare; for a retry with other arguments, those of the first run.

    They are noted in the request's headers, which Celery passes on to a retry.
    """
    if not compared:
        return compared
    headers: dict[str, Any] = request.headers or {}
    first = headers.get(_FIRST)
    if request.retries and isinstance(first, dict):
        sent = cast("dict[str, Any]", first)
        return {name: str(sent.get(name, value)) for name, value in compared.items()}
    request.headers = {**headers, _FIRST: dict(compared)}
    return compared


def _note(request: Any) -> None:
    if not (request.called_directly or request.is_eager):  # an eager retry runs after this run has ended
        setattr(request, _SENT, True)


def _with_our_headers(request: Any, terms: dict[str, Any]) -> dict[str, Any]:
    """Keep our headers if a user passes headers to ``retry``, which replace all others in Celery."""
    if not terms.get("headers"):
        return terms
    headers: dict[str, Any] = request.headers or {}
    ours = {name: value for name, value in headers.items() if name in {REPLACED, _FIRST}}
    return {**terms, "headers": {**terms["headers"], **ours}}


def named(request: Any) -> list[Any] | None:
    """Return the callbacks of a request with an id each, the same for each copy of it; None for none.

    Celery would give them a new id each time that the task ends. The links of a chain have their ids from its
    beginning, so a link that is sent twice runs once. Signatures in ``link=`` have no ids: a copy of a
    completed task would send them as new events.
    """
    if not request.callbacks:
        return None
    origin = f"{request.id}/{request.retries or 0}"
    return [_named(callback, f"{origin}/{index}") for index, callback in enumerate(request.callbacks)]


def _named(signature: Any, origin: str) -> Any:
    """Return a copy of a signature in which each task without an id gets an id made of ``origin``."""
    if not isinstance(signature, dict):
        return signature
    task = cast("dict[str, Any]", signature)
    parts: dict[str, Any] = task.get("kwargs") or {}
    match task.get("task"):
        case "celery.chain" | "celery.group":
            kwargs = {**parts, "tasks": _all_named(parts.get("tasks"), origin)}
        case "celery.chord":
            kwargs = {
                **parts,
                "header": _all_named(parts.get("header"), f"{origin}/header"),
                "body": _named(parts.get("body"), f"{origin}/body"),
            }
        case _:
            options: dict[str, Any] = task.get("options") or {}
            return _copy(task, options={"task_id": str(uuid5(NAMESPACE_OID, origin)), **options})
    return _copy(task, kwargs=kwargs)


def _all_named(signatures: Any, origin: str) -> Any:
    if isinstance(signatures, list | tuple):
        tasks = cast("list[Any]", signatures)
        return [_named(task, f"{origin}/{index}") for index, task in enumerate(tasks)]
    return _named(signatures, origin)


def _copy(signature: dict[str, Any], **changed: Any) -> dict[str, Any]:
    return {**signature, **changed}
