"""Ids for the callbacks of a task; Celery would give them a new id each time that the task ends.

The links of a chain have their ids from its beginning, so a link that is sent twice runs once. Signatures in
``link=`` have no ids: a copy of a completed task would send them as new events.
"""

from typing import Any, cast
from uuid import NAMESPACE_OID, uuid5


def named(request: Any) -> list[Any] | None:
    """Return the callbacks of a request with an id each, the same for each copy of it; None for none."""
    if not request.callbacks:
        return None
    origin = f"{request.id}/{request.retries or 0}"
    return [_named(one, f"{origin}/{place}") for place, one in enumerate(request.callbacks)]


def _named(signature: Any, origin: str) -> Any:
    """Return a copy of a signature in which each task without an id gets an id made of ``origin``."""
    if not isinstance(signature, dict):
        return signature
    found = cast("dict[str, Any]", signature)
    parts: dict[str, Any] = found.get("kwargs") or {}
    match found.get("task"):
        case "celery.chain" | "celery.group":
            kwargs = {**parts, "tasks": _all_named(parts.get("tasks"), origin)}
        case "celery.chord":
            kwargs = {
                **parts,
                "header": _all_named(parts.get("header"), f"{origin}/header"),
                "body": _named(parts.get("body"), f"{origin}/body"),
            }
        case _:
            options: dict[str, Any] = found.get("options") or {}
            return _copy(found, options={"task_id": str(uuid5(NAMESPACE_OID, origin)), **options})
    return _copy(found, kwargs=kwargs)


def _all_named(signatures: Any, origin: str) -> Any:
    if isinstance(signatures, list | tuple):
        return [_named(one, f"{origin}/{place}") for place, one in enumerate(cast("list[Any]", signatures))]
    return _named(signatures, origin)


def _copy(signature: dict[str, Any], **changed: Any) -> dict[str, Any]:
    return {**signature, **changed}
