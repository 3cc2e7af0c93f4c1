"""The signature of a service: its parameters, their annotations, and callables that are not allowed."""

import functools
import inspect
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from history.errors import ConfigurationError
from history.support.user_code import called_in, makes_coroutine, makes_generator
from triggers.service.checking import refuse_generator
from triggers.service.failures import FatalError

#: The parameters of a wrapper that does not declare what it wraps.
_HIDDEN = {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}


def name_of(service: Callable[..., Any]) -> str:
    """Return the name of a service in errors."""
    return getattr(service, "__qualname__", None) or repr(service)


def is_async(service: Callable[..., Any]) -> bool:
    """Whether calling the service makes a coroutine.

    Raises:
        ConfigurationError: it would make a generator, or an object of a class, and nothing would run.
    """
    refuse_generator(f"service {name_of(service)}", service)
    if isinstance(service, type):
        raise ConfigurationError(
            f"service {name_of(service)}",
            "it is a class: calling it makes an object, and does not run it",
            "decorate a function, or give an object of it: trigger(...)(Shop())",
        )
    return makes_coroutine(service)


def refusing_generators(service: Callable[..., Any]) -> Callable[..., Any]:
    """Return a service; if a decorator wraps a generator function, return a service that checks its result.

    The decorator may run the generator, or return it before anything ran: only the call shows which. In the
    second case the call raises FatalError, so that the message does not pass for done.
    """
    under = inspect.unwrap(service)
    if under is service or not makes_generator(under):
        return service

    @functools.wraps(service)
    def checked(*args: Any, **kwargs: Any) -> Any:
        result = service(*args, **kwargs)
        made = getattr(result, "gen", result)  # as @contextmanager stores it
        if isinstance(made, types.GeneratorType | types.AsyncGeneratorType):
            raise FatalError(
                f"service {name_of(service)} returned a {type(result).__qualname__}: nothing of it has run; "
                "take the yield out of it, or the decorator away that leaves it to run"
            )
        return result

    return checked


def parameters_of(service: Callable[..., Any]) -> Sequence[inspect.Parameter]:
    """Return the parameters of a service.

    Raises:
        ConfigurationError: they cannot be read, or cannot receive anything.
    """
    name = f"service {name_of(service)}"
    try:
        parameters = list(inspect.signature(service).parameters.values())
    except (NameError, TypeError, ValueError) as error:
        raise ConfigurationError(
            name, f"its parameters cannot be read: {error}", "call it in a function of your own"
        ) from error
    if inspect.isfunction(service) and service.__name__ != "<lambda>":
        _check_function(name, service.__qualname__, parameters)
    return parameters


def _check_function(name: str, qualified: str, parameters: Sequence[inspect.Parameter]) -> None:
    """Refuse a function that would receive too few arguments, or an argument that it does not mean."""
    if parameters and all(parameter.kind in _HIDDEN for parameter in parameters):
        named = " and ".join(str(parameter).partition(":")[0] for parameter in parameters)
        raise ConfigurationError(
            name,
            f"it takes only {named}, which get nothing",
            "name its parameters; where a decorator made it, have that use functools.wraps",
        )
    holder = qualified.rpartition(".")[0]
    in_class = holder and not holder.endswith("<locals>")
    if in_class and parameters and parameters[0].name in {"self", "cls"}:
        raise ConfigurationError(
            name,
            f"it is a method, and @trigger has no object to give it as {parameters[0].name!r}",
            "make it a function or a static method, or decorate the method of an object, "
            'outside of the class: book = trigger("orders")(Shop().book)',
        )


def annotations_of(
    service: Callable[..., Any],
    parameters: Sequence[inspect.Parameter],
    local_names: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """Return the evaluated annotations of parameters; the return annotation need not be readable.

    Raises:
        ConfigurationError: one of them cannot be evaluated.
    """
    read = _read_already(service)
    asked = {
        parameter.name: read.get(parameter.name, parameter.annotation)
        for parameter in parameters
        if parameter.annotation is not parameter.empty or parameter.name in read
    }
    try:
        return _evaluated(service, asked, local_names)
    except (NameError, AttributeError, SyntaxError, TypeError) as error:
        raise ConfigurationError(
            f"service {name_of(service)}",
            f"an annotation cannot be read: {error}",
            "define or import the name before the service is decorated",
        ) from error


def returned_by(service: Callable[..., Any], local_names: Mapping[str, Any] | None) -> Any:
    """Return the return annotation; :data:`UNSAID` if it is missing or cannot be evaluated yet."""
    try:
        said = inspect.signature(service).return_annotation
        annotation = _read_already(service).get("return", said)
        return _evaluated(service, {"return": annotation}, local_names)["return"]
    except Exception:  # noqa: BLE001  (names that only a type checker knows, or that are defined later)
        return UNSAID


def _read_already(service: Callable[..., Any]) -> Mapping[str, Any]:
    """Return the annotations of a function that are already evaluated.

    A wrapper has the annotations of the wrapped function as texts, and these names exist in another module.
    """
    own = getattr(service, "__annotations__", {}) if inspect.isroutine(service) else {}
    return {name: hint for name, hint in own.items() if not isinstance(hint, str)}


#: The return annotation of a service that declares none.
UNSAID = inspect.Signature.empty


def _evaluated(
    service: Callable[..., Any], annotations: Mapping[str, Any], local_names: Mapping[str, Any] | None
) -> dict[str, Any]:
    function = innermost(service)
    alike = types.SimpleNamespace(
        __annotations__=dict(annotations), __type_params__=getattr(function, "__type_params__", ())
    )
    names = getattr(function, "__globals__", {})
    return typing.get_type_hints(alike, names, dict(local_names or {}), include_extras=True)


def innermost(service: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function inside a service's partials, decorators and objects."""
    while isinstance(service, functools.partial) or hasattr(service, "__wrapped__"):
        service = service.func if isinstance(service, functools.partial) else inspect.unwrap(service)
    function: Callable[..., Any] = inspect.unwrap(called_in(service))
    return function


def asked_kind(hint: Any) -> Any:
    """Return the type in an annotation, without ``Optional`` and ``Annotated``."""
    while True:
        inner = typing.get_args(hint)
        if typing.get_origin(hint) is typing.Annotated:
            hint = inner[0]
        elif typing.get_origin(hint) in {typing.Union, types.UnionType}:
            some = [hint for hint in inner if hint is not types.NoneType]
            if len(some) != 1:
                return hint
            hint = some[0]
        else:
            return hint
