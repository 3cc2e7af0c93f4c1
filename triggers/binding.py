"""Fill the parameters of a service by their annotations; the signature is read once, at decoration.

======================================  =========================================================
annotation                              value
======================================  =========================================================
``Message``                             the message
``Delivery``                            uuid, fence, attempt and trigger name of this run
anything else pydantic can validate     the body; bytes and text are read as JSON
``bytes``, ``str``                      the body as it is; bytes become text by UTF-8
none                                    by name: ``message``, ``delivery``, else the body as it is
======================================  =========================================================

A parameter with a default that is none of the first two keeps its default once the body has found its place.
"""

import functools
import inspect
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticSchemaGenerationError, PydanticUndefinedAnnotation

from history.errors import ConfigurationError
from history.message import Message
from triggers.failures import BodyInvalidError


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """One run of a service: hand ``uuid`` and ``fence`` to a target that checks them, and effects are fenced.

    ``attempt`` counts runs of this delivery from 1. ``fence`` is None without a document history.
    """

    uuid: str | None
    fence: int | None
    attempt: int
    trigger_name: str
    delivery_count: int = -1


#: Makes one argument of a service.
Fill = Callable[[Message, Delivery], Any]


class Binding:
    """How the parameters of one service are filled."""

    def __init__(self, service: Callable[..., Any], local_names: Mapping[str, Any] | None = None) -> None:
        self.name = getattr(service, "__qualname__", repr(service))
        self.is_async = _is_async(service)
        self._positional: list[Fill] = []
        self._named: dict[str, Fill] = {}
        self._body: str | None = None
        hints = _hints(service, local_names)
        for parameter in inspect.signature(service).parameters.values():
            self._add(parameter, hints.get(parameter.name, inspect.Parameter.empty))

    def _add(self, parameter: inspect.Parameter, hint: Any) -> None:
        if parameter.kind in {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}:
            return
        fill = self._filler(parameter, hint)
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY:
            self._named[parameter.name] = fill
        else:
            self._positional.append(fill)

    def _filler(self, parameter: inspect.Parameter, hint: Any) -> Fill:
        if hint is Message or (hint is parameter.empty and parameter.name == "message"):
            return lambda message, _delivery: message
        if hint is Delivery or (hint is parameter.empty and parameter.name == "delivery"):
            return lambda _message, delivery: delivery
        if self._body is not None:
            if parameter.default is not parameter.empty:
                # Handed over, not left out: a parameter after it may be filled by its place.
                return lambda _message, _delivery: parameter.default
            raise ConfigurationError(
                f"service {self.name}",
                f"parameters {self._body!r} and {parameter.name!r} both ask for the body",
                "annotate one of them as Message or Delivery, or give it a default",
            )
        self._body = parameter.name
        return self._body_filler(parameter.name, hint)

    def _body_filler(self, name: str, hint: Any) -> Fill:
        if hint is inspect.Parameter.empty or hint is Any:
            return lambda message, _delivery: message.body
        try:
            adapter: TypeAdapter[Any] = TypeAdapter(hint)
        except (PydanticSchemaGenerationError, PydanticUndefinedAnnotation, TypeError) as error:
            raise ConfigurationError(
                f"service {self.name}",
                f"parameter {name!r}: pydantic cannot validate a body as {hint!r}",
                "annotate it with a pydantic model, Message, Delivery or a plain type",
            ) from error
        return lambda message, _delivery: _read_body(adapter, hint, name, message)

    def arguments(self, message: Message, delivery: Delivery) -> tuple[list[Any], dict[str, Any]]:
        """Return the arguments of one run.

        Raises:
            BodyInvalidError: the body is not what its parameter asks for.
        """
        positional = [fill(message, delivery) for fill in self._positional]
        return positional, {name: fill(message, delivery) for name, fill in self._named.items()}


def _is_async(service: Callable[..., Any]) -> bool:
    """Whether calling the service makes a coroutine.

    Raises:
        ConfigurationError: it would make a generator, and nothing would run.
    """
    called = _called(service)
    for function in (service, called):
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise ConfigurationError(
                f"service {getattr(service, '__qualname__', service)!s}",
                "it is a generator function: calling it runs nothing",
                "take the yield out of it",
            )
    return inspect.iscoroutinefunction(service) or inspect.iscoroutinefunction(called)


def _called(service: Callable[..., Any]) -> Callable[..., Any]:
    return service if inspect.isroutine(service) else type(service).__call__


def _hints(service: Callable[..., Any], local_names: Mapping[str, Any] | None) -> dict[str, Any]:
    while isinstance(service, functools.partial):
        service = service.func
    try:
        return typing.get_type_hints(_called(service), localns=dict(local_names or {}), include_extras=True)
    except NameError as error:
        raise ConfigurationError(
            f"service {getattr(service, '__qualname__', service)!s}",
            f"an annotation cannot be read: {error}",
            "define or import the name before the service is decorated",
        ) from error


def _read_body(adapter: TypeAdapter[Any], hint: Any, name: str, message: Message) -> Any:
    body = message.body
    try:
        if isinstance(body, bytes | str):
            if hint is bytes or hint is str:
                return _as_plain(body, hint)
            return adapter.validate_json(body)
        return adapter.validate_python(body)
    except ValidationError as error:
        raise BodyInvalidError(name, _problems(error)) from error
    except UnicodeError as error:
        raise BodyInvalidError(name, f"not UTF-8: {error}") from error


def _as_plain(body: bytes | str, hint: type[bytes] | type[str]) -> bytes | str:
    if isinstance(body, hint):
        return body
    return body.decode("utf-8") if isinstance(body, bytes) else body.encode("utf-8")


def _problems(error: ValidationError) -> str:
    """Name each wrong field and its problem; the values stay out, as they may be personal."""
    found = error.errors(include_url=False, include_input=False, include_context=False)
    return "; ".join(f"{'.'.join(map(str, one['loc'])) or 'body'}: {one['msg']}" for one in found[:10])
