"""A task that replaces itself with another run of itself: ``self.replace(self.s(...))``, page after page.

Celery gives the replacement the id of the replaced task. A header says that it is not a copy, and Celery
keeps this header when it retries a task. The header counts how often each task was replaced under this id,
because two tasks may replace each other in turn.
"""

from typing import Any, cast

#: The header with the number of replacements so far, by the name of the task.
REPLACED = "doubtless_replaced"


def uuid_of(uuid: str, task: Any) -> str:
    """Return the uuid of a run: the first run has the task's, each later run of the same task another."""
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
    found = headers.get(REPLACED)
    if not isinstance(found, dict):
        return {}
    counts = cast("dict[str, Any]", found)
    return {name: count for name, count in counts.items() if isinstance(count, int) and count > 0}


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
