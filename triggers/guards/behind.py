"""The trigger behind a guard or a guarded task, for code that runs triggers, such as the simulator."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

from history.errors import ConfigurationError
from history.message import Message
from triggers.declaration.trigger import Trigger
from triggers.guards.guard import Guard
from triggers.guards.host import APPLICATIONS, key_of
from triggers.service.signatures import innermost

#: The attributes with the name and the function of a task: Celery, Dramatiq and Taskiq.
_NAMES, _FUNCTIONS = ("name", "actor_name", "task_name"), ("run", "fn", "original_func")

#: The attributes with the options of one task; Celery makes attributes of the options.
_OPTIONS = ("options", "labels", "__dict__")

#: A trigger, and the user's function if the trigger's service only calls that function.
Behind = tuple[Any, Callable[..., Any] | None]


def trigger_behind(given: Any, call: Callable[[Message], Any] | None) -> Behind:
    """Return the trigger to simulate, for a trigger, for a guard with its call, or for a guarded task.

    Raises:
        ConfigurationError: there is none, or ``call`` is missing or superfluous.
    """
    if isinstance(given, Guard):
        if not callable(call):
            raise ConfigurationError(
                "call", f"guard {given.name} needs to know what it calls", "give a function of a Message"
            )
        return given.calling(call), call
    if call is not None:
        raise ConfigurationError("call", "only a guard of protect() takes it", "leave it out")
    behind: Behind = given, None
    return behind if isinstance(given, Trigger) else _of_task(given) or behind


def _of_task(task: Any) -> Behind | None:
    name = next((one for place in _NAMES if isinstance(one := getattr(task, place, None), str)), None)
    own = next((one for place in _FUNCTIONS if callable(one := getattr(task, place, None))), None)
    if name is None or own is None:
        return None
    function = _plain(own)
    for guards in APPLICATIONS:
        known = guards.tasks().get(name)
        if known is not None and _plain(known) is function:
            (made,) = [one for one in guards.triggers(only_callable=True) if one.name == name]
            return _known_by(made, _option(task, "uuid"), function), function
    raise ConfigurationError("trigger", f"task {name} is not guarded", "guard its application")


def _plain(function: Callable[..., Any]) -> Callable[..., Any]:
    inner = innermost(function)
    return cast("Callable[..., Any]", getattr(inner, "__func__", inner))


def _known_by(made: Trigger[..., Any], key: Any, function: Callable[..., Any]) -> Trigger[..., Any]:
    """Return a trigger that identifies its messages by the key of a task, if the task has a key."""
    if key is None:
        return made

    def identity(message: Message) -> Any:
        called = cast("dict[str, Any]", message.body)
        return key_of(made.name, key, function, called["args"], called["kwargs"])

    if callable(key):
        identity.__wrapped__ = key  # type: ignore[attr-defined]  # its memory and clocks are simulated
    return made.configured(replace(made.settings, uuid=identity))


def _option(task: Any, name: str) -> Any:
    for place in _OPTIONS:
        options: Any = getattr(task, place, None)
        if isinstance(options, dict) and cast("Any", options).get(name) is not None:
            return cast("Any", options)[name]
    return getattr(task, name, None)
