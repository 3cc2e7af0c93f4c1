"""The message that a complete join makes of its parts, and how a service receives the parts."""

import inspect
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Self, cast

from pydantic import ValidationError

from history.errors import ConfigurationError
from history.message import Message, Uuid
from history.store.joining import Period
from triggers.service.binding import Binding, Slot
from triggers.service.delivery import Delivery
from triggers.service.failures import BodyInvalidError
from triggers.service.signatures import asked_kind
from triggers.service.terms import ACTIVATION

#: The property that marks a joined message. It holds the number of its period.
JOINED = "doubtless-join"


class Joined(Mapping[str, Message]):
    """The messages of a complete join, by destination, in the order of the trigger's destinations."""

    __module__ = "triggers"

    def __init__(self, activation: str, messages: Mapping[str, Message]) -> None:
        self.activation = activation
        self._messages = dict(messages)

    def __getitem__(self, destination: str) -> Message:
        return self._messages[destination]

    def __iter__(self) -> Iterator[str]:
        return iter(self._messages)

    def __len__(self) -> int:
        return len(self._messages)

    def __repr__(self) -> str:
        return f"<Joined {self.activation!r}: {', '.join(self._messages)}>"

    @classmethod
    def of(cls, message: Message) -> Self:
        """Take a joined message apart."""
        body = cast("dict[str, Any]", message.body)
        parts = {name: Message.from_json(_text(part)) for name, part in body["parts"].items()}
        return cls(body["activation"], parts)


def compose(trigger: str, destinations: Sequence[str], period: Period) -> Message:
    """Make one whole message of a period's parts. Its delivery count says how often the period was taken."""
    texts = {name: period.parts[name].message.to_json() for name in destinations if name in period.parts}
    try:
        return _composed(trigger, period, {name: json.loads(text) for name, text in texts.items()})
    except ValidationError:  # one part is nested so deep that it exceeds the limit inside another message
        return _composed(trigger, period, {name: text.decode("ascii") for name, text in texts.items()})


def _composed(trigger: str, period: Period, parts: Mapping[str, Any]) -> Message:
    return Message(
        body={ACTIVATION: period.activation, "parts": dict(parts)},
        uuid=Uuid(f"join:{trigger}:{period.activation}:{period.number}"),
        delivery_count=max(period.taken, 1),
        redelivered=period.taken > 1,
        timestamp=period.started_at,
        destination=" + ".join(parts),
        properties={ACTIVATION: period.activation, JOINED: period.number},
    )


def _text(part: Any) -> str:
    """Return a part in the form that :func:`compose` found: JSON, or a text that holds JSON."""
    return part if isinstance(part, str) else json.dumps(part)


def is_joined(message: Message) -> bool:
    """Whether :func:`compose` made a message. Only valid if it has none of the trigger's destinations.

    A sender may set the same property, but each message of a provider has the destination it came from.
    """
    return message.properties.get(JOINED) is not None


class JoinedBinding(Binding):
    """Fills a service's parameters from a joined message.

    A parameter annotated ``Joined`` (or named ``joined``, without annotation) receives all messages. The
    other parameters, except ``Delivery``, receive the body of one destination each, in the order of the
    trigger's destinations. A parameter annotated ``Message`` receives the message itself.

    Raises:
        ConfigurationError: the service takes only some of the parts, or more than there are.
    """

    def __init__(
        self,
        service: Callable[..., Any],
        destinations: Sequence[str],
        local_names: Mapping[str, Any] | None = None,
    ) -> None:
        self._destinations = destinations
        self._placed = 0
        super().__init__(service, local_names)
        if self._placed not in {0, len(destinations)}:
            raise ConfigurationError(
                f"service {self.name}",
                f"it takes {self._placed} of the {len(destinations)} messages of its join",
                "give it a parameter for each destination, or one annotated Joined",
            )

    def _slot(self, parameter: inspect.Parameter, hint: Any) -> Slot:
        unknown, asked = hint is parameter.empty, asked_kind(hint)
        if asked is Joined or (unknown and parameter.name == "joined"):
            return Slot(lambda message, _delivery, _transaction: Joined.of(message))
        if asked is Delivery or (unknown and parameter.name == "delivery"):
            return super()._slot(parameter, hint)
        if self._placed == len(self._destinations):
            if parameter.default is not parameter.empty:
                return Slot(lambda _message, _delivery, _transaction: parameter.default, shared=True)
            raise ConfigurationError(
                f"service {self.name}",
                f"parameter {parameter.name!r} is one more than the join has destinations",
                "annotate it as Delivery or Joined, or give it a default",
            )
        destination = self._destinations[self._placed]
        self._placed += 1
        return _of_part(
            destination, parameter.name, None if asked is Message else self._body_slot(parameter.name, hint)
        )


def _of_part(destination: str, name: str, body: Slot | None) -> Slot:
    """Return a slot for the message of one destination, or for its body."""

    def fill(message: Message, delivery: Delivery | None, transaction: Any) -> Any:
        joined = Joined.of(message)
        if destination not in joined:
            raise BodyInvalidError(name, f"the join holds no message of {destination!r}")
        return joined[destination] if body is None else body.fill(joined[destination], delivery, transaction)

    return Slot(fill)
