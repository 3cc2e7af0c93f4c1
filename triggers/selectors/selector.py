"""Selectors and filters: a condition that is read once and evaluated for many messages."""

from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

from history.errors import ConfigurationError
from history.message import Message
from triggers.selectors.compiler import Test, compile_condition
from triggers.selectors.mismatches import Mismatches
from triggers.selectors.normal_form import write
from triggers.selectors.operators import Truth
from triggers.selectors.parsing.parser import parse
from triggers.selectors.parsing.tree import Node
from triggers.selectors.parsing.values import Reading


@dataclass(frozen=True, slots=True)
class Selector:
    """A message selector of the Jakarta Messaging specification, section 3.8: headers and properties.

    Immutable and safe to share between threads. ``str()`` is its text, as a provider takes it; an empty one
    selects everything.
    """

    text: str
    tree: Node | None = field(compare=False, repr=False)
    _test: Test = field(compare=False, repr=False)

    #: Its name in errors.
    setting: ClassVar[str] = "selector"

    #: Whether it may look into the body.
    paths: ClassVar[bool] = False

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a selector.

        Raises:
            SelectorError: a ConfigurationError that names the place, and what was expected there.
        """
        if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]  (a user's)
            raise ConfigurationError(
                cls.setting, f"must be text, not {text!r:.60}", "write \"region = 'EU'\""
            )
        if not text.strip(" \t\f\r\n"):
            return cls(text, None, _everything)
        tree = parse(text, cls.setting, paths=cls.paths)
        return cls(text, tree, compile_condition(tree, Mismatches(cls.setting, text)))

    def matches(self, message: Message) -> bool:
        """Whether the condition holds; unknown does not match."""
        return self._test(Reading(message)) is True

    def evaluate(self, reading: Reading) -> Truth:
        """Return True, False, or None for unknown; conditions that share a reading share its parsed body."""
        return self._test(reading)

    def canonical(self) -> str:
        """Return the condition in one spelling, with the fewest parentheses."""
        return "" if self.tree is None else write(self.tree)

    def __str__(self) -> str:
        return self.text

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).parse, (self.text,)


class Filter(Selector):
    """A selector that may also look into the body: ``body.lines[0].sku = 'X'``, ``properties['a-b']``.

    A body of bytes or text is read as JSON once, when a condition needs it; if it is not JSON, every
    place is NULL.
    """

    __slots__ = ()

    setting: ClassVar[str] = "filter"
    paths: ClassVar[bool] = True


def _everything(_: Any) -> Truth:
    return True
