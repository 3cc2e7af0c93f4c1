"""A task that is replaced by itself: ``self.replace(self.s(...))``, as who reads page after page does it.

Celery gives the replacement the id of what it replaces. That it is no copy of it stands in a header, which
Celery keeps when it retries a task.
"""

from typing import Any

#: The header that says how often a task was replaced by itself.
_REPLACED = "doubtless_replaced"


def replacements_of(request: Any) -> int:
    """Return how often the task of a request was replaced by itself; 0 for a header that says nothing."""
    headers: dict[str, Any] = request.headers or {}
    count = headers.get(_REPLACED, 0)
    return count if isinstance(count, int) and count > 0 else 0


def uuid_of(uuid: str, request: Any) -> str:
    """Return the uuid of a run: that of the first one, and of each replacement its own."""
    count = replacements_of(request)
    return f"{uuid}/replaced-{count}" if count else uuid


def mark(signature: Any, task: Any) -> None:
    """Note in what replaces a task that it is no copy, where it is the same task again."""
    heir = _heir(signature)
    if getattr(heir, "task", None) == task.name:
        headers: dict[str, Any] = heir.options.get("headers") or {}
        heir.set(headers={**headers, _REPLACED: replacements_of(task.request) + 1})


def _heir(signature: Any) -> Any:
    """Return the one of a canvas that gets the id: the last of a chain, a chord's body, or itself."""
    while True:
        tasks, body = getattr(signature, "tasks", None), getattr(signature, "body", None)
        if body is not None:
            signature = body
        elif tasks and getattr(signature, "task", None) == "celery.chain":
            signature = tasks[-1]
        else:
            return signature
