"""The error in the text of a selector or filter, and its place."""

from history.errors import ConfigurationError


class SelectorError(ConfigurationError):
    """The text is not a condition. ``position`` counts characters from 0, the text of the error from 1."""

    __module__ = "triggers"

    def __init__(self, setting: str, problem: str, *, position: int, expected: str) -> None:
        super().__init__(setting, f"{problem} at character {position + 1}", f"expected {expected}")
        self.position = position
        self.expected = expected
