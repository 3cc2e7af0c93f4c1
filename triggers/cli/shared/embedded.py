"""Where messages and history are if the user names no server: in one SQLite file of the current folder.

So the first ten minutes need no server: ``doubtless send`` and ``doubtless run`` in one folder find each
other. A named provider replaces the file, and then a history must also be named: a history in a file of this
machine would not know the runs of other machines.
"""

import os
from pathlib import Path

from history.errors import ConfigurationError
from history.support.private_files import make_private
from triggers.cli.shared.output import CliState
from triggers.operations.looking import refuse_absent_file

#: The file, in the current folder.
FILE = Path("doubtless.sqlite3")

#: As a provider (SQL-JMS) and as a history.
URL = f"sqlite:///{FILE}"


def provider_or_file(provider: str | None, state: CliState, *, say: bool = True) -> str:
    """Return the named provider; without one the file, made here and reported.

    Raises:
        ConfigurationError: this user may not write in this folder.
    """
    if provider:
        return provider
    try:
        make_private(FILE)
    except OSError as error:
        problem = f"is missing, and {FILE} cannot be made in this folder ({error.strerror})"
        raise ConfigurationError("--provider", problem, "name one, or start in a folder of yours") from error
    if say:
        state.note(
            f"no provider is named: messages are in {FILE}, in this folder. "
            "--provider, DOUBTLESS_PROVIDER or doubtless.toml names a server"
        )
    return URL


def can_be_made() -> bool:
    """Return whether this user may make the file in this folder."""
    return os.access(FILE.parent, os.W_OK | os.X_OK)


def history_or_file(history: str | None, state: CliState) -> str | None:
    """Return the named history; without one the file, if there is one in this folder."""
    return _found("history", history, state, ", for entries, parked messages and journals")


def provider_to_look_into(provider: str | None, state: CliState, remedy: str) -> str:
    """Return the named provider; without one the file, if there is one in this folder.

    Raises:
        ConfigurationError: there is neither, or the named file does not exist.
    """
    url = _found("provider", provider, state)
    if not url:
        raise missing("--provider", remedy)
    refuse_absent_file("--provider", url)
    return url


def missing(option: str, remedy: str) -> ConfigurationError:
    """Return the error that an option has no value, and that this folder has no file."""
    problem = f"is missing: doubtless.toml names none, and this folder has no {FILE}"
    return ConfigurationError(option, problem, remedy)


def _found(what: str, url: str | None, state: CliState, found_there: str = "") -> str | None:
    if url or not FILE.exists():
        return url
    state.note(f"no {what} is named: looking into {FILE}, in this folder{found_there}")
    return URL
