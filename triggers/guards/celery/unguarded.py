"""The tasks of an application that no guard wraps, such as a task with ``base=celery.Task``."""

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from triggers.guards.host import LEFT_OUT, Unguarded

_log = logging.getLogger(__name__)


def unguarded_in(apps: Iterable[Any], base: type[Any]) -> Mapping[str, Unguarded]:
    """Return the tasks of the applications with the task class ``base`` that do not inherit from it."""
    found: dict[str, Unguarded] = {}
    for app in apps:
        if not _is_guarded(app, base):
            continue
        for name, task in app.tasks.items():
            if not isinstance(task, base) and not name.startswith("celery."):
                found[name] = LEFT_OUT if getattr(task, "guarded", None) is False else _another(task)
    return found


def tell_of_unguarded(base: type[Any]) -> Callable[..., None]:
    """Return a handler that logs at a worker's start the tasks that a guarded application does not guard."""

    def tell(sender: Any, **_about: Any) -> None:
        sender.app.finalize(auto=True)
        for name, unguarded in unguarded_in([sender.app], base).items():
            if not unguarded.is_meant:
                _log.warning("task %s NOT GUARDED: %s", name, unguarded.why, extra={"trigger": name})

    return tell


def _is_guarded(app: Any, base: type[Any]) -> bool:
    """Whether tasks without a ``base=`` are guarded; Celery derives its class from the given class."""
    return issubclass(app.Task, base)


def _another(task: Any) -> Unguarded:
    made_from = type(task).__mro__[1].__qualname__
    return Unguarded(
        f"not guarded: its base is {made_from}; use base=app.Task, or guarded=False if you mean it"
    )
