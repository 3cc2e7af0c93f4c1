"""The command line: ``doubtless``.

Exit codes: 0 done; 1 done, but not what was hoped for (nothing found, a check failed); 2 wrong usage or
configuration; 3 a server is unavailable; 128 and more, ended by a signal.
"""

import sys

import typer

from history.errors import ConfigurationError, DoubtlessError, UnavailableError
from triggers.cli import history, parked
from triggers.cli.demo import demo
from triggers.cli.output import State, complain
from triggers.cli.run import run
from triggers.cli.send import send
from triggers.cli.why import why

app = typer.Typer(
    name="doubtless",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help="Exactly-once triggers: a function runs once for each message.\n\n"
    "Exit codes: 0 done; 1 done, but not as hoped (nothing found, a check failed); 2 wrong usage or "
    "configuration; 3 a server is unavailable.",
)


@app.callback()
def options(
    context: typer.Context,
    json: bool = typer.Option(False, "--json", help="Print data as JSON, one document."),
    verbose: bool = typer.Option(False, "--verbose", "-v", help="Log more."),
) -> None:
    """Read the options that every command shares."""
    context.obj = State.started(as_json=json, verbose=verbose)


app.command("demo")(demo)
app.command("run")(run)
app.command("send")(send)
app.command("why")(why)
app.add_typer(history.app, name="history")
app.add_typer(parked.app, name="parked")


def main() -> None:
    """Run the command line; turn the project's errors into one line and an exit code."""
    try:
        app()
    except ConfigurationError as error:
        complain(str(error))
        sys.exit(2)
    except UnavailableError as error:
        complain(f"{error}: {error.__cause__ or 'no answer'}")
        sys.exit(3)
    except DoubtlessError as error:
        complain(str(error))
        sys.exit(1)
