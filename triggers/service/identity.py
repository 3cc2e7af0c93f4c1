"""The identity that a trigger reads from a message if it does not own the sender: ``uuid=`` of ``@trigger``.

It replaces the sender's identity in the history, in parked copies, events and logs. It identifies an event,
never an entity: an order's number identifies the order, so the second message about the order would pass for
a duplicate of the first.
"""

from collections.abc import Callable

from history.errors import ConfigurationError
from history.identity import IdentityError, Key, canonical
from history.json_text import NotJsonError
from history.message import Message
from history.support.rendering import shown
from triggers.selectors.parsing.nodes import Path
from triggers.selectors.parsing.parser import parse
from triggers.selectors.parsing.values import Reading
from triggers.service.checking import check_plain
from triggers.service.failures import FatalError

#: A place, such as "body.order.event_id" or "properties.event_id", or a function of the message.
IdentitySource = str | Callable[[Message], Key]

#: Reads the identity of a message; raises what user code raises, or :class:`UnidentifiedError`.
Identify = Callable[[Message], str]

_REMEDY = 'write uuid="body.order.event_id", uuid="properties.event_id", or give a function of the message'


class UnidentifiedError(FatalError):
    """A message has no identity at the place that its trigger reads. It is rejected and does not run."""

    __module__ = "triggers"

    def __init__(self, source: str, problem: str) -> None:
        super().__init__(f"uuid={source}: {problem}")


def read_identity(source: IdentitySource, max_body_size: int) -> Identify:
    """Return a function that reads the identity of messages.

    Raises:
        ConfigurationError: it is neither a place in a message nor a synchronous function.
    """
    if isinstance(source, str):
        return _reading(_path_of(source), source, max_body_size)
    if not callable(source):  # a user may pass anything
        raise ConfigurationError("uuid", f"{shown(source)} is neither text nor a function", _REMEDY)
    instead = "read the identity from the message alone, in a plain one"
    check_plain("uuid", source, "one message", remedy=_REMEDY, instead=instead)
    return _asking(source)


def _path_of(text: str) -> Path:
    path = parse(text, "uuid", paths=True)
    if not isinstance(path, Path):
        raise ConfigurationError("uuid", f"{shown(text)} is not a place in a message", _REMEDY)
    if path.root == "body" and not path.keys:
        raise ConfigurationError(
            "uuid", "a whole body is not an identity", 'name a place in it, such as uuid="body.event_id"'
        )
    return path


def _reading(path: Path, text: str, max_body_size: int) -> Identify:
    def from_properties(message: Message) -> str:
        return identified(message.properties.get(str(path.keys[0])), text)

    def from_body(message: Message) -> str:
        if (size := message.body_size()) > max_body_size:
            raise UnidentifiedError(text, f"the body of {size} bytes is over max_body_size={max_body_size}")
        try:
            return identified(Reading(message).at(path.keys), text)
        except NotJsonError as error:
            raise UnidentifiedError(text, f"the body {error}") from error

    return from_properties if path.root == "properties" else from_body


def _asking(function: Callable[[Message], object]) -> Identify:
    name = getattr(function, "__qualname__", repr(function))
    return lambda message: identified(function(message.copied()), name)


def identified(value: object, source: str) -> str:
    """Return the canonical identity for a value.

    Raises:
        UnidentifiedError: the value is empty, or has no canonical form.
    """
    try:
        identity = canonical(value)
    except IdentityError as error:
        raise UnidentifiedError(source, str(error)) from error
    if identity is None:
        problem = "the message has nothing there" if value is None else "it is empty"
        raise UnidentifiedError(source, problem)
    return identity
