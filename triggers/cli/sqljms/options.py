"""The common part of ``doubtless sqljms``: options, what they open, and the output after a change."""

from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

import typer

from history.bridge import drive
from history.errors import ConfigurationError
from triggers.cli.shared.embedded import FILE, provider_to_look_into
from triggers.cli.shared.options import limit_option
from triggers.cli.shared.output import CliState
from triggers.operations.looking import named

if TYPE_CHECKING:
    from triggers.providers.sqljms.admin.admin import Admin
    from triggers.providers.sqljms.limbo.limbo import Limbo

_Opened = TypeVar("_Opened", "Admin", "Limbo")

_SCHEMES = frozenset({"sqlite", "postgresql", "postgres"})
_URLS = "sqlite:///file.db or postgresql://user@host/database"

PROVIDER_OPTION: Any = typer.Option(
    None,
    "--provider",
    envvar="DOUBTLESS_PROVIDER",
    help=f"URL of the database. By default: the file {FILE} in this folder, if it exists. Forms: {_URLS}",
)
PLACE_ARGUMENT: Any = typer.Argument(
    help="queue://NAME or topic://NAME. A plain NAME means the queue, else the topic."
)
IDS_ARGUMENT: Any = typer.Argument(help="The numbers of the messages, as the list shows them.")
SOME_ARGUMENT: Any = typer.Argument(
    None, help="The numbers of the messages, as the list shows them. Or give --all."
)
ALL_OPTION: Any = typer.Option(False, "--all", help="All messages that wait there.")
SUBSCRIPTION_OPTION: Any = typer.Option(
    None,
    "--subscription",
    "-s",
    help="The subscription of a topic; - means the one without a name. Not needed if the topic has only one.",
)
FORCE_OPTION: Any = typer.Option(
    False, "--force", help="Also change messages that a running consumer handles."
)
LIMIT_OPTION: Any = limit_option()


def opened_admin(provider: str | None) -> AbstractContextManager["Admin"]:
    """Open the queues and topics of a command's database; raises the same errors as :func:`checked_url`."""

    def from_url(url: str) -> "Admin":
        from triggers.providers.sqljms.admin.admin import Admin  # noqa: PLC0415  (loads a driver)

        return Admin.from_url(url)

    return _opened(provider, from_url)


def opened_limbo(provider: str | None) -> AbstractContextManager["Limbo"]:
    """Open the limbo of a command's database; raises the same errors as :func:`checked_url`."""

    def from_url(url: str) -> "Limbo":
        from triggers.providers.sqljms.limbo.limbo import Limbo  # noqa: PLC0415  (loads a driver)

        return Limbo.from_url(url)

    return _opened(provider, from_url)


@contextmanager
def _opened(provider: str | None, from_url: Callable[[str], _Opened]) -> Generator[_Opened]:
    with named("--provider", _URLS):
        opened = from_url(checked_url(provider))
    try:
        yield opened
    finally:
        drive(opened.close())


def checked_url(provider: str | None) -> str:
    """Return the URL of a command's database; by default the URL of this folder's file.

    Raises:
        ConfigurationError: there is neither, or nothing to look into.
    """
    url = provider_to_look_into(provider, CliState(), f"give {_URLS}, or set DOUBTLESS_PROVIDER")
    scheme = urlsplit(url).scheme
    if scheme.partition("+")[0] not in _SCHEMES:
        raise ConfigurationError("--provider", f"{scheme}:// is not a SQL database", f"use {_URLS}")
    return url


def chosen(numbers: Sequence[int] | None, *, every: bool) -> Sequence[int] | None:
    """Return the given numbers; None for all.

    Raises:
        ConfigurationError: neither was given, or both.
    """
    if every is bool(numbers):
        raise ConfigurationError("IDS", "say which messages", "give their numbers, or --all")
    return None if every else numbers


def show_changed(state: CliState, done: str, numbers: Sequence[int]) -> None:
    """Print what was changed; exit code 1 if nothing was."""
    state.show(done, ["id"], [{"id": number} for number in numbers], none=f"nothing was {done}")
    if not numbers:
        raise typer.Exit(1)
