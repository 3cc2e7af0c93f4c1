"""The commands of ``doubtless migrate``."""

from collections import Counter
from pathlib import Path

import typer

from triggers.cli.setup.migration.jms_triggers import find_triggers
from triggers.cli.setup.migration.mapping import Kind, mapped
from triggers.cli.setup.migration.writing import REPORT, files_of
from triggers.cli.setup.new_files import write_new
from triggers.cli.shared.general_options import with_general_options
from triggers.cli.shared.output import State

app = typer.Typer(no_args_is_help=True, help="Make triggers from the definitions of another system.")


@app.command()
@with_general_options
def webmethods(
    context: typer.Context,
    folder: Path = typer.Argument(
        metavar="DIR", help="A folder with packages of Integration Server, unpacked."
    ),
    to: Path = typer.Option(Path(), "--to", help="The folder to write to. By default: this folder."),
) -> None:
    """Make a module of triggers from the JMS triggers in exported packages (node.ndf files).

    The command writes one module for each connection alias, the services to be written, doubtless.toml, and
    report.md. The report lists properties that are the same here, safer, to be checked or missing.
    The command overwrites no file. Connection aliases are read from jms.cnf, if DIR has it.
    """
    state = State.of(context)
    found = find_triggers(folder)
    triggers = mapped(found)
    files = write_new(to, files_of(triggers, found))
    counts = Counter(note.kind for made in triggers for note in made.notes)
    row = {
        "triggers": len(triggers),
        **{str(kind): counts[kind] for kind in Kind},
        "left out": len(found.left_out),
    }
    state.show("migrated", list(row), [row])
    state.note(f"written: {', '.join(str(file) for file in files)}; read {to / REPORT} first")


@app.callback()
def _migrate() -> None:
    """Keep the name of the one command."""
