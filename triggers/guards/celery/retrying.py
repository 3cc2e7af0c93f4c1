"""``self.retry()``: it sends the task again under its id, maybe with other arguments, and need not raise."""

from collections.abc import Mapping
from typing import Any, cast

from triggers.guards.celery.replacing import REPLACED

#: Marks a request after its task was sent again.
_SENT = "_doubtless_sent_again"

#: The header with the publisher's arguments in comparable form, for a retry with other arguments.
_FIRST = "doubtless_arguments"


def retry(celery: Any, task: Any, words: tuple[Any, ...], terms: dict[str, Any]) -> Any:
    """Do the same as ``Task.retry``, and note in the request that the task was sent again.

    Raises:
        Exception: the exception that ``Task.retry`` raises.
    """
    request = task.request
    try:
        again = celery.Task.retry(task, *words, **_with_our_headers(request, terms))
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
        known = cast("dict[str, Any]", first)
        return {name: str(known.get(name, value)) for name, value in compared.items()}
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
