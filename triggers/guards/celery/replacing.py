"""A task that is replaced by a run of itself: ``self.replace(self.s(...))``, to read page after page.

Celery gives the replacement the id of what it replaces. That it is no copy of it stands in a header, which
Celery keeps when it retries a task: how often each task was replaced under this id, for two tasks may replace
each other in turn.
"""

from typing import Any, cast

#: The header that says how often each task was replaced so far, by its name.
REPLACED = "doubtless_replaced"


def uuid_of(uuid: str, task: Any) -> str:
    """Return the uuid of a run: that of the first one, and of each later one of the same task its own."""
    count = _replacements(task.request).get(task.name, 0)
    return f"{uuid}/replaced-{count}" if count else uuid


def mark(signature: Any, task: Any) -> None:
    """Note in what replaces a task that a run of this task under this id is no copy of it."""
    heir = _heir(signature)
    if getattr(heir, "task", None) == "celery.group":
        return  # what collects its results has the id, and replaces nothing
    counts = _replacements(task.request)
    headers: dict[str, Any] = heir.options.get("headers") or {}
    heir.set(headers={**headers, REPLACED: {**counts, task.name: counts.get(task.name, 0) + 1}})


def _replacements(request: Any) -> dict[str, int]:
    """Return how often each task was replaced before this request; nothing for a header that says nothing."""
    headers: dict[str, Any] = request.headers or {}
    found = headers.get(REPLACED)
    if not isinstance(found, dict):
        return {}
    counts = cast("dict[str, Any]", found)
    return {name: count for name, count in counts.items() if isinstance(count, int) and count > 0}


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
