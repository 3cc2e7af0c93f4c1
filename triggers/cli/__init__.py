"""The command line: ``doubtless``.

Exit codes: 0 done; 1 done, but not as hoped (nothing found, a check failed); 2 wrong usage or configuration;
3 a server is unavailable; 128 and more, ended by a signal.

A command is a module of its name (``run.py``, ``send.py``, ``why.py``, ``control.py``, ``demo.py``,
``patchbay.py``, ``redis.py``) or of a folder: ``checks/``, ``history/``, ``parked/``, ``setup/``, ``sqljms/``
and ``sqlremote/``. ``commands.py`` lists all of them. ``shared/`` is their common part. ``__main__.py`` is
for ``python -m triggers.cli``.
"""

import os
import sys
import traceback
from collections.abc import Sequence
from typing import TextIO

import typer

from history.errors import ConfigurationError, DoubtlessError, UnavailableError
from history.support.rendering import first_line
from triggers.cli.commands import Commands
from triggers.cli.shared.general_options import with_general_options
from triggers.cli.shared.logs import log_to_stderr
from triggers.cli.shared.output import CliState, UserExitError

app = typer.Typer(
    name="doubtless",
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # the tables of "rich" cut URLs and names of variables off in 80 columns
    help="Exactly-once triggers: run a function once for each message.\n\n"
    "Exit codes: 0 done; 1 done, but not as hoped (nothing found, a check failed); 2 wrong usage or "
    "configuration; 3 a server is unavailable; 128 and more, ended by a signal.",
)


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version  # noqa: PLC0415  (reads packages; no command needs it)

        typer.echo(f"doubtless {version('doubtless')}")
        raise typer.Exit


@app.callback()
@with_general_options
def options(
    context: typer.Context,
    show_version: bool = typer.Option(
        False, "--version", is_eager=True, callback=_show_version, help="Show the version and exit."
    ),
) -> None:
    """Read the options that every command shares."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line, by default that of this process; turn every error into one line and an exit code.

    Raises:
        SystemExit: always, with the exit code.
    """
    _survive_closed_streams()
    _survive_strange_encodings(sys.stdout, sys.stderr)
    log_to_stderr()
    state = CliState()
    code = 0
    try:
        code = app(arguments, standalone_mode=False, prog_name="doubtless", obj=state) or 0
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader has closed the pipe; the interpreter must not try to flush once more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    except UserExitError as end:
        state.complain(str(end))
        code = end.exit_code
    except Exception as error:  # noqa: BLE001  (no traceback by default; --verbose shows it)
        code = _report(error, state)
    sys.exit(code)


def _report(error: Exception, state: CliState) -> int:
    """Print what went wrong, in one line, and return the exit code."""
    if state.verbose:
        for line in "".join(traceback.format_exception(error)).splitlines():
            state.note(line)
    match error:
        case ConfigurationError():
            state.complain(str(error))
            return 2
        case UnavailableError():
            cause = first_line(error.__cause__ or TimeoutError("no answer")).rstrip(".")
            state.complain(f"{error}: {cause}; {error.remedy}")
            return 3
        case DoubtlessError():
            state.complain(str(error))
            return 1
        case typer.Abort():
            state.complain("aborted")
            return 1
        case _:
            return _report_others(error, state)


def _report_others(error: Exception, state: CliState) -> int:
    format_message = getattr(error, "format_message", None)
    if format_message is not None:  # typer's own error, for wrong usage
        context, problem = getattr(error, "ctx", None), str(format_message()).rstrip(".")
        if type(error).__name__ == "NoArgsIsHelpError":  # its module differs from one Typer to the next
            typer.echo(problem)
        elif problem:
            state.complain(f"{problem}; see {context.command_path if context else 'doubtless'} --help")
        return int(getattr(error, "exit_code", 2))
    hint = "" if state.verbose else "; --verbose shows where"
    state.complain(f"{type(error).__name__}: {first_line(error)}{hint}")
    return 1


def _survive_closed_streams() -> None:
    """Write to nowhere in place of a stream that the caller has closed: Python has None for it."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            # It gets the free number of that stream, so no database or socket does.
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115  (until the end)


def _survive_strange_encodings(*streams: TextIO) -> None:
    for stream in streams:
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
