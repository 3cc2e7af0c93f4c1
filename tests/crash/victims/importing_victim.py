"""An import of dead letters that dies at a point: ``importing_victim POINT PROVIDER HISTORY LETTERS``."""

import os
import signal
import sys
from collections.abc import Sequence
from typing import Any

from history import open_history
from history.bridge import drive
from triggers import Message, open_provider, trigger
from triggers.operations.importing import Import

#: Before and after each of the steps that an import makes for some letters.
POINTS = ("before park", "after park", "after acknowledge")


@trigger("orders", name="book")
def book(message: Message) -> None:
    """Take an order."""


class Dying:
    """A wrapper of any object: a call of one method kills this process, before or after the call."""

    def __init__(self, inner: Any, method: str, when: str) -> None:
        self._inner, self._method, self._when = inner, method, when

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        return self._doomed(found) if name == self._method else found

    def _doomed(self, call: Any) -> Any:
        async def doomed(given: Sequence[Any]) -> Any:
            if self._when == "after":
                await call(given)
            os.kill(os.getpid(), signal.SIGKILL)

        return doomed


class Beside:
    """A history with another parking lot."""

    def __init__(self, inner: Any, parking: Any) -> None:
        self._inner, self.parking = inner, parking

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def main(point: str, provider: str, history: str, letters: str) -> None:
    when, _, method = point.partition(" ")
    store: Any = open_history(history)
    store = Beside(store, Dying(store.parking, method, when))
    work = Import(destination=letters, triggers=[book], stores=lambda _: store, until_idle=60)
    receiver: Any = drive(open_provider(provider).open_receiver(letters, subscription="letters", name="v"))
    doomed: Any = Dying(receiver, method, when)
    work.run(doomed)


if __name__ == "__main__":
    main(*sys.argv[1:])
