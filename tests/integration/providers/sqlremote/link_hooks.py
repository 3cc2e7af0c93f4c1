"""Hooks that record their calls."""

from collections.abc import Callable

from triggers.providers.sqlremote.agent.hooks import Hooks


class Heard(Hooks):
    def __init__(self) -> None:
        self.heard: list[str] = []

    def __getattribute__(self, name: str) -> object:
        if name == "heard" or name.startswith("_"):
            return super().__getattribute__(name)
        return self._note(name)

    def _note(self, name: str) -> Callable[..., None]:
        def note(*_: object) -> None:
            self.heard.append(name)

        return note
