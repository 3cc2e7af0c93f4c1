"""The options that commands share, and the stores and providers that they open: always closed in the end."""

import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

import typer

from history.beside.kept import KeepsBeside
from history.beside.parking import Parking
from history.bridge import drive
from history.errors import ConfigurationError
from history.opening import HISTORY_URLS, cipher_of_url, local_parking_file, open_local_parking
from history.store import HistoryStore
from history.support.rendering import printable
from triggers.cli.shared.embedded import FILE, history_or_file, missing
from triggers.cli.shared.logs import LogFormat
from triggers.cli.shared.output import CliState
from triggers.configuration.limits import LARGEST
from triggers.operations.looking import (
    LASTING_HISTORIES,
    LASTING_PROVIDERS,
    named,
    open_to_look,
    refuse_memory,
)
from triggers.providers.opening import open_provider
from triggers.providers.provider import Provider

#: How many processes one supervisor can have: more are a typing error, and would overload the machine.
MOST_PROCESSES = 1_024

#: The option that names the history.
HISTORY_OPTION: Any = typer.Option(
    None,
    "--history",
    envvar="DOUBTLESS_HISTORY",
    help=f"URL of the history. By default: the file {FILE} in this folder, if it exists. "
    f"Forms: {LASTING_HISTORIES}",
)

#: The option that names the provider.
PROVIDER_OPTION: Any = typer.Option(
    None,
    "--provider",
    envvar="DOUBTLESS_PROVIDER",
    help=f"URL of the provider. By default: the file {FILE} in this folder. Forms: {LASTING_PROVIDERS}",
)

#: The option that names the history for triggers that do not name one.
DEFAULT_HISTORY_OPTION: Any = typer.Option(
    None,
    "--history",
    envvar="DOUBTLESS_HISTORY",
    help=f"URL of the history of triggers that do not name a history. Forms: {HISTORY_URLS}",
)

#: The option that makes a consumer serve metrics.
METRICS_OPTION: Any = typer.Option(
    None,
    "--metrics",
    envvar="DOUBTLESS_METRICS",
    help="Answer /metrics (Prometheus), /livez and /readyz at HOST:PORT, such as 127.0.0.1:9464. "
    "With --processes, process N answers at PORT + N. The first process is number 0.",
)

#: The option for the form of log records.
LOG_FORMAT_OPTION: Any = typer.Option(
    LogFormat.TEXT,
    "--log-format",
    envvar="DOUBTLESS_LOG_FORMAT",
    help="Format of the log. json writes one JSON object on each line.",
)

#: The option that also logs verdicts that need no action.
LOG_VERDICTS_OPTION: Any = typer.Option(
    True,
    "--log-verdicts/--no-log-verdicts",
    envvar="DOUBTLESS_LOG_VERDICTS",
    help="Log each duplicate, and the reason if the resolver or a take-over makes a message run.",
)

#: The option that chooses among a module's triggers.
ONLY_OPTION: Any = typer.Option(None, "--trigger", "-t", help="Only this trigger. May be repeated.")

#: The option that restricts a command to one trigger.
TRIGGER_OPTION: Any = typer.Option(
    None, "--trigger", "-t", help="The name of the trigger. By default all triggers."
)

#: The option that skips the question.
YES_OPTION: Any = typer.Option(False, "--yes", "-y", help="Do not ask for confirmation.")


#: The option for how many processes run.
PROCESSES_OPTION: Any = typer.Option(
    1, min=1, max=MOST_PROCESSES, help="How many processes to run. A process that crashes is started again."
)


def limit_option(usual: int = 50) -> Any:
    """Return the option for how many rows are shown."""
    return typer.Option(usual, min=1, max=LARGEST, help="Show at most this many.")


@contextmanager
def opened(history: str | None, *, makes: bool = False, dry: bool = False) -> Generator[KeepsBeside]:
    """Open the history of a command, to look into it; with ``makes`` a new file is made.

    With ``dry``, a file that does not exist is an empty history.

    Raises:
        ConfigurationError: none was named, or there is nothing to look into.
    """
    history = history_or_file(history, CliState())
    if not history:
        raise missing("--history", f"give {LASTING_HISTORIES}, or set DOUBTLESS_HISTORY")
    store = open_to_look("--history", history, makes=makes, dry=dry)
    try:
        yield store
    finally:
        drive(store.close())


@contextmanager
def opened_local(history: str | None) -> Generator[Parking | None]:
    """Open the parking lot in this machine's file; None if nothing was ever parked in it.

    The key of the command's history decrypts it.
    """
    file = local_parking_file()
    if not file.exists():
        yield None
        return
    with named("--history", LASTING_HISTORIES):
        store = open_local_parking(file, cipher_of_url(history))
    try:
        yield store.parking
    finally:
        drive(store.close())


@contextmanager
def connected(provider: str | None) -> Generator[Provider]:
    """Open the provider of a command.

    Raises:
        ConfigurationError: none was named, or it cannot be opened.
    """
    if not provider:
        remedy = f"give {LASTING_PROVIDERS}, or set DOUBTLESS_PROVIDER"
        raise ConfigurationError("--provider", "is missing", remedy)
    with named("--provider", LASTING_PROVIDERS):
        refuse_memory("--provider", provider)
        link = open_provider(provider)
    try:
        yield link
    finally:
        drive(link.close())


def trigger_names(store: HistoryStore, trigger: str | None) -> Sequence[str]:
    """Return the named trigger, or all that the history knows."""
    return [trigger] if trigger is not None else drive(store.triggers())


def confirm(question: str, *, yes: bool) -> None:
    """Ask on standard error, unless the answer is ``yes`` already, and end the command if it is no.

    Raises:
        typer.Abort: the answer is no.
        ConfigurationError: nobody can answer.
    """
    if yes:
        return
    sys.stderr.write(f"{printable(question)} [y/N] ")
    sys.stderr.flush()
    answer = sys.stdin.readline()
    if not answer:
        sys.stderr.write("\n")
        raise ConfigurationError(
            "--yes", "is missing, and nobody can answer the question", "add it after you have decided"
        )
    if answer.strip().lower() not in {"y", "yes"}:
        raise typer.Abort
