"""Read a filter, which is text or a function, into one callable."""

from collections.abc import Callable

from history.errors import ConfigurationError
from history.message import Message
from history.support.rendering import shown
from triggers.selectors.parsing.values import Reading
from triggers.selectors.selector import Filter
from triggers.service.checking import check_plain
from triggers.service.failures import FatalError

#: The text of a condition, or a function that answers True or False.
MessageFilter = str | Callable[[Message], bool]

#: Returns whether a message passes.
Wanted = Callable[[Reading], bool]


class FilterAnswerError(FatalError):
    """A filter function answered neither True nor False."""

    __module__ = "triggers"

    def __init__(self, name: str, answer: object) -> None:
        super().__init__(f"{name} returned a {type(answer).__qualname__}: return True or False")


def read_filter(source: MessageFilter) -> Wanted:
    """Return a function that decides whether a message passes a filter; an unknown result does not pass.

    Raises:
        ConfigurationError: it is neither the text of a condition nor a synchronous function.
    """
    if isinstance(source, str):
        condition = Filter.parse(source)
        return lambda reading: condition.evaluate(reading) is True
    if not callable(source):  # a user may pass anything
        raise ConfigurationError(
            "filter", f"{shown(source)} is neither text nor a function", "write filter=\"JMSType = 'cancel'\""
        )
    instead = "decide by the message alone, in a plain function"
    check_plain("filter", source, "one message", remedy="write def wanted(message)", instead=instead)
    return _asking(source)


def _asking(function: Callable[[Message], bool]) -> Wanted:
    name = getattr(function, "__qualname__", repr(function))

    def wanted(reading: Reading) -> bool:
        answer: object = function(reading.message.copied())
        # Not its truth value: a true coroutine, match or list is not a decision that anybody made.
        if answer is True or answer is False:
            return answer
        raise FilterAnswerError(f"filter {name}", answer)

    return wanted
