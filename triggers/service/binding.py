"""Fill the parameters of a service by their annotations; the signature is read once, at decoration.

======================================  =========================================================
annotation                              value
======================================  =========================================================
``Message``                             the message
``Delivery``                            uuid, fence, attempt and trigger name of this run
``Connection``, ``Session``             of SQLAlchemy: the transaction of an atomic trigger; under asyncio
                                        ``AsyncConnection``, ``AsyncSession``
anything else pydantic can validate     the body; bytes and text are read as JSON
``bytes``, ``str``                      the body as it is; bytes become text by UTF-8, and a JSON value
                                        its encoding: compact JSON in UTF-8
none                                    by name: ``message``, ``delivery``, else the body as it is
======================================  =========================================================

``Optional[Message]`` and ``Annotated[Message, ...]`` count as ``Message``; the same is true for the others.

A service owns its arguments: a JSON body that it could change is copied for each attempt. So the next
attempt, a resolver and the parked copy have the original.

A parameter with a default, annotated with none of the first three, keeps its default in two cases: if another
parameter takes the body, or if the service takes the message, which contains the body. A batch service takes
a list of each: ``list[Order]``, ``list[Message]``, ``list[Delivery]``.
"""

import copy
import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticSchemaGenerationError, PydanticUndefinedAnnotation, PydanticUserError

from history.errors import ConfigurationError
from history.json_text import NotJsonError, read_json, without_mark
from history.message import Message, copied_body
from triggers.service.borrowing import borrows, takes_decimals
from triggers.service.delivery import Delivery
from triggers.service.failures import BodyInvalidError
from triggers.service.signatures import (
    UNSAID,
    annotations_of,
    asked_kind,
    is_async,
    name_of,
    parameters_of,
    refusing_generators,
    returned_by,
)

#: Makes one argument of a service; the third argument is the transaction of an atomic trigger.
Fill = Callable[[Message, Delivery | None, Any], Any]


@dataclass(frozen=True, slots=True)
class Slot:
    """Makes one argument of a service; a ``shared`` argument is the same for all messages of a batch."""

    fill: Fill
    shared: bool = False


#: The parts of a transaction that a service can receive: the attribute, and whether it is for asyncio.
_RESOURCES = {
    "sqlalchemy.engine.base.Connection": ("connection", False),
    "sqlalchemy.orm.session.Session": ("session", False),
    "sqlalchemy.ext.asyncio.engine.AsyncConnection": ("connection", True),
    "sqlalchemy.ext.asyncio.session.AsyncSession": ("session", True),
}


class Binding:
    """A service and how its parameters are filled; ``batch`` means that it takes many messages in one call.

    ``resources`` are the annotations that only a transaction can fill, and whether they are for asyncio.
    """

    def __init__(
        self,
        service: Callable[..., Any],
        local_names: Mapping[str, Any] | None = None,
        *,
        batch: bool = False,
    ) -> None:
        self.service = refusing_generators(service)
        self.name = name_of(service)
        self.is_async = is_async(service)
        self.batch = batch
        self.resources: dict[str, bool] = {}
        self.takes_delivery = False
        self._positional: list[Slot] = []
        self._named: dict[str, Slot] = {}
        self._body: str | None = None
        self._returns = returned_by(service, local_names)
        self._adapter: TypeAdapter[Any] | None = None
        parameters = parameters_of(service)
        hints = annotations_of(service, parameters, local_names)
        self._takes_message = any(asked_kind(hint) is Message for hint in hints.values())
        for parameter in parameters:
            self._add(parameter, hints.get(parameter.name, inspect.Parameter.empty))

    def result_adapter(self) -> TypeAdapter[Any] | None:
        """Return the reader of the service's results, by its return annotation; None without an annotation.

        Raises:
            Exception: pydantic cannot read what it returns.
        """
        if self._returns is UNSAID:
            self._returns = returned_by(self.service, None)
        if self._adapter is None and self._returns is not UNSAID:
            self._adapter = TypeAdapter(self._returns)
        return self._adapter

    def around(self, wrap: Callable[[Callable[..., Any]], Callable[..., Any]]) -> "Binding":
        """Return the same binding for the service that ``wrap`` makes; its parameters are the same."""
        twin = copy.copy(self)
        twin.service = wrap(self.service)
        return twin

    def _add(self, parameter: inspect.Parameter, hint: Any) -> None:
        if parameter.kind in {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}:
            return
        slot = self._resource_slot(hint) or self._slot(parameter, hint)
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY:
            self._named[parameter.name] = slot
        else:
            self._positional.append(slot)

    def _resource_slot(self, hint: Any) -> Slot | None:
        # By name: a service without a connection need not import SQLAlchemy.
        hint = asked_kind(hint)
        named = f"{getattr(hint, '__module__', '')}.{getattr(hint, '__qualname__', '')}"
        if named not in _RESOURCES:
            return None
        attribute, for_asyncio = _RESOURCES[named]
        self.resources[hint.__qualname__] = for_asyncio
        return Slot(lambda _message, _delivery, transaction: getattr(transaction, attribute), shared=True)

    def _slot(self, parameter: inspect.Parameter, hint: Any) -> Slot:
        if self.batch:
            hint = self._element(parameter, hint)
        asked = asked_kind(hint)
        if asked is Message or (asked is parameter.empty and parameter.name == "message"):
            return Slot(lambda message, _delivery, _transaction: message.copied())
        if asked is Delivery or (asked is parameter.empty and parameter.name == "delivery"):
            self.takes_delivery = True
            return Slot(lambda _message, delivery, _transaction: delivery)
        if parameter.default is not parameter.empty and (self._body is not None or self._takes_message):
            # Passed, not left out: a parameter after it may be positional.
            return Slot(lambda _message, _delivery, _transaction: parameter.default, shared=True)
        if self._body is not None:
            raise ConfigurationError(
                f"service {self.name}",
                f"parameters {self._body!r} and {parameter.name!r} both ask for the body",
                "annotate one of them as Message or Delivery, or give it a default",
            )
        self._body = parameter.name
        return self._body_slot(parameter.name, hint)

    def _element(self, parameter: inspect.Parameter, hint: Any) -> Any:
        """Return the element type of the list that a batch service's parameter takes."""
        if hint is parameter.empty or parameter.default is not parameter.empty:
            return hint
        inner = typing.get_args(hint)
        if typing.get_origin(hint) not in {list, Sequence} or len(inner) != 1:
            raise ConfigurationError(
                f"service {self.name}",
                f"parameter {parameter.name!r} is {hint!r}, and batch= passes many messages in one call",
                f"annotate it as list[...], such as list[{getattr(hint, '__name__', 'Message')}]",
            )
        return inner[0]

    def _body_slot(self, name: str, hint: Any) -> Slot:
        if hint is inspect.Parameter.empty or hint is Any:
            return Slot(lambda message, _delivery, _transaction: copied_body(message.body))
        plain = _plain_type(hint)
        try:
            adapter: TypeAdapter[Any] = TypeAdapter(hint)
            own = copied_body if plain is None and borrows(adapter) else _as_it_is
        except (PydanticUserError, PydanticUndefinedAnnotation, TypeError) as error:
            expected = isinstance(error, PydanticSchemaGenerationError)
            why = "" if expected else f" ({str(error).partition(chr(10))[0].rstrip('.')})"
            raise ConfigurationError(
                f"service {self.name}",
                f"parameter {name!r}: pydantic cannot validate a body as {hint!r}{why}",
                "annotate it with a pydantic model, Message, Delivery or a plain type",
            ) from error
        if plain is not None:
            checked = None if hint is plain else adapter
            return Slot(lambda message, _delivery, _transaction: _read_plain(message, plain, checked, name))
        reader = _BodyReader(adapter, own, name, exact=takes_decimals(adapter))
        return Slot(lambda message, _delivery, _transaction: reader.read(message))

    def arguments(
        self, message: Message, delivery: Delivery | None, transaction: Any = None
    ) -> tuple[list[Any], dict[str, Any]]:
        """Return the arguments of one run; ``transaction`` is the transaction of an atomic trigger.

        ``delivery`` may be None unless the service ``takes_delivery``.

        Raises:
            BodyInvalidError: the body is not what its parameter asks for.
        """
        positional = [slot.fill(message, delivery, transaction) for slot in self._positional]
        if not self._named:
            return positional, {}
        return positional, {
            name: slot.fill(message, delivery, transaction) for name, slot in self._named.items()
        }

    def together(
        self, arguments: Sequence[tuple[list[Any], dict[str, Any]]]
    ) -> tuple[list[Any], dict[str, Any]]:
        """Combine the arguments of each message into the arguments of one run of a batch service."""
        columns = [[row[0][index] for row in arguments] for index in range(len(self._positional))]
        positional = [
            column[0] if slot.shared else column
            for slot, column in zip(self._positional, columns, strict=True)
        ]
        named = {
            name: arguments[0][1][name] if slot.shared else [row[1][name] for row in arguments]
            for name, slot in self._named.items()
        }
        return positional, named


@dataclass(frozen=True, slots=True)
class _BodyReader:
    """Validates bodies for one parameter.

    ``own`` copies a JSON value for the service if the result would hold parts of it. ``exact`` means that the
    parameter may hold a Decimal: pydantic's own JSON reader would first make a float of it.
    """

    adapter: TypeAdapter[Any]
    own: Callable[[Any], Any]
    name: str
    exact: bool

    def read(self, message: Message) -> Any:
        body = message.body
        try:
            if isinstance(body, bytes | str):
                return self._read_json(body)
            if self.exact and (received := message.received) is not None:
                return self._read_json(received)
            return self.adapter.validate_python(self.own(body))
        except ValidationError as error:
            raise BodyInvalidError(self.name, _problems(error)) from error
        except UnicodeError as error:
            raise BodyInvalidError(self.name, f"not UTF-8: {error}") from error

    def _read_json(self, body: bytes | str) -> Any:
        if not self.exact:
            try:
                return self.adapter.validate_json(body)
            except ValidationError as error:
                if error.errors(include_url=False, include_input=False)[0]["type"] != "json_invalid":
                    raise
        try:
            value = read_json(body, exact=True).value
        except NotJsonError:
            return self.adapter.validate_json(body)  # its error names the position
        try:
            return self.adapter.validate_python(value)
        except ValidationError:
            # A strict model accepts an instant as text only from JSON.
            return self.adapter.validate_json(without_mark(body) if isinstance(body, bytes) else body)


def _as_it_is(body: Any) -> Any:
    return body


def _plain_type(hint: Any) -> type[bytes] | type[str] | None:
    """Return bytes or str if a parameter has this type, whatever else its annotation demands."""
    while True:
        if isinstance(hint, typing.NewType):
            hint = hint.__supertype__
        elif typing.get_origin(hint) is typing.Annotated:
            hint = typing.get_args(hint)[0]
        else:
            return hint if hint is bytes or hint is str else None


def _read_plain(
    message: Message, plain: type[bytes] | type[str], adapter: TypeAdapter[Any] | None, name: str
) -> bytes | str:
    """Return a body as bytes or text, as it arrived; ``adapter`` checks further demands."""
    body: Any = message.body
    try:
        if not isinstance(body, plain):
            encoded = message.encoded()
            body = encoded if plain is bytes else without_mark(encoded).decode("utf-8")
        checked: bytes | str = body if adapter is None else adapter.validate_python(body)
    except ValidationError as error:
        raise BodyInvalidError(name, _problems(error)) from error
    except UnicodeError as error:
        raise BodyInvalidError(name, f"not UTF-8: {error}") from error
    return checked


def _problems(error: ValidationError) -> str:
    """Name each wrong field and its problem; leave out the values, which may be personal."""
    problems = error.errors(include_url=False, include_input=False, include_context=False)
    return "; ".join(
        f"{'.'.join(map(str, wrong['loc'])) or 'body'}: {wrong['msg']}" for wrong in problems[:10]
    )
