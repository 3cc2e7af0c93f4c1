"""The eleven moments at which an agent calls code of the user's."""

from pkgutil import resolve_name
from typing import Any

from history.errors import ConfigurationError


class Hooks:
    """Does nothing; override what you need. A hook must not commit, and what it raises ends the run.

    ``link`` is the link's name. ``message_missing`` tells that the peer is asked to send again.
    """

    def begin(self, link: str) -> None:
        """Tell that an agent has taken a link."""

    def end(self, link: str, exit_code: int) -> None:
        """Tell that it leaves: 0 in order, 1 where the link stands still."""

    def shutdown(self, link: str, reason: str) -> None:
        """Tell that a link stops until somebody decides."""

    def receive_begin(self, link: str) -> None:
        """Tell that a poll begins."""

    def receive_end(self, link: str) -> None:
        """Tell that it has ended."""

    def send_begin(self, link: str) -> None:
        """Tell that the log is looked through."""

    def send_end(self, link: str) -> None:
        """Tell that all that may go has gone."""

    def message_sent(self, link: str, header: str) -> None:
        """Tell that the carrier took a message."""

    def message_missing(self, link: str) -> None:
        """Tell that messages were declared lost."""

    def message_apply_begin(self, link: str, offset: int) -> None:
        """Tell that a transaction is handed to the trigger."""

    def message_apply_end(self, link: str, offset: int) -> None:
        """Tell that it is done with."""


def load_hooks(name: str | None) -> Hooks:
    """Return the hooks that ``package.module:object`` names: an object, or a class to be called.

    Raises:
        ConfigurationError: there is none.
    """
    if name is None:
        return Hooks()
    try:
        found: Any = resolve_name(name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigurationError("hooks", f"{name!r}: {error}", "write 'package.module:object'") from error
    made: Hooks = found() if isinstance(found, type) else found
    return made
