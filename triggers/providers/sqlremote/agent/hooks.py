"""The eleven moments at which an agent calls code of the user."""

from pkgutil import resolve_name
from typing import Any

from history.errors import ConfigurationError


class Hooks:
    """Does nothing; override what you need. A hook must not commit, and an exception of it ends the run.

    ``link`` is the link's name.
    """

    def begin(self, link: str) -> None:
        """Run when an agent has taken a link."""

    def end(self, link: str, exit_code: int) -> None:
        """Run when the agent leaves: 0 in order, 1 if the link is stopped."""

    def shutdown(self, link: str, reason: str) -> None:
        """Run when a link stops until somebody decides."""

    def receive_begin(self, link: str) -> None:
        """Run when a poll begins."""

    def receive_end(self, link: str) -> None:
        """Run when a poll has ended."""

    def send_begin(self, link: str) -> None:
        """Run before the log is searched for work to send."""

    def send_end(self, link: str) -> None:
        """Run when everything that may be sent has been sent."""

    def message_sent(self, link: str, header: str) -> None:
        """Run when the carrier took a message."""

    def message_missing(self, link: str) -> None:
        """Run when messages were declared lost, and the peer should send again."""

    def message_apply_begin(self, link: str, offset: int) -> None:
        """Run when a transaction is handed to the trigger."""

    def message_apply_end(self, link: str, offset: int) -> None:
        """Run when the trigger is done with the transaction."""


def load_hooks(name: str | None) -> Hooks:
    """Return the hooks that ``package.module:object`` names: an object, or a class to be called.

    Raises:
        ConfigurationError: the object does not exist, or lacks one of the methods.
    """
    if name is None:
        return Hooks()
    try:
        hooks: Any = resolve_name(name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigurationError("hooks", f"{name!r}: {error}", "write 'package.module:object'") from error
    made: Hooks = hooks() if isinstance(hooks, type) else hooks
    methods = [method for method in vars(Hooks) if not method.startswith("_")]
    missing = next((method for method in methods if not callable(getattr(made, method, None))), None)
    if missing is not None:
        raise ConfigurationError(
            "hooks",
            f"{name!r} has no method {missing}",
            "derive its class from triggers.providers.sqlremote.Hooks",
        )
    return made
