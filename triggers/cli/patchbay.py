"""``doubtless patchbay``: run, check and convert the wiring of a Patch Bay."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import tomli_w
import typer

from history.bridge import drive
from history.errors import ConfigurationError
from history.opening import HISTORY_URLS, open_history
from history.support.private_files import create_private
from triggers.cli.run import report
from triggers.cli.shared.arguments import refuse_unreadable
from triggers.cli.shared.configured import configuration_of
from triggers.cli.shared.general_options import CommandGroup
from triggers.cli.shared.loading import look_here
from triggers.cli.shared.logs import LogFormat, log_as_consumer
from triggers.cli.shared.options import (
    LOG_FORMAT_OPTION,
    LOG_VERDICTS_OPTION,
    METRICS_OPTION,
    PROCESSES_OPTION,
)
from triggers.cli.shared.output import CliState
from triggers.cli.shared.sinks import SINKS_OPTION, listening
from triggers.consumer.supervisor import supervise
from triggers.operations.looking import named
from triggers.patchbay import PatchBay, read_patchbay
from triggers.patchbay.wiring.checks import limbo_url
from triggers.patchbay.wiring.model import PatchBayFile
from triggers.patchbay.wiring.toml_reader import read_with_notes
from triggers.patchbay.wiring.xml_elements import decoded
from triggers.patchbay.wiring.xml_reader import SQL_PROVIDER, combined, from_xml, guess_notes, provider_of

app = CommandGroup(
    no_args_is_help=True, help="Run, check or convert a file that wires components to destinations."
)

_FILES: Any = typer.Argument(
    help="TOML files, or XML files of ATG's Patch Bay. They are merged in this order."
)
_HISTORY: Any = typer.Option(
    None,
    "--history",
    help="URL of the history. By default: the history in the files, else DOUBTLESS_HISTORY. "
    f"Forms: {HISTORY_URLS}",
)

#: The places of providers that XML does not contain.
PLACES_OPTION: Any = typer.Option(
    None, "--provider", help="Where a provider is, as name=URL. May be repeated."
)


@app.command()
def run(
    context: typer.Context,
    files: list[Path] = _FILES,
    history: str | None = _HISTORY,
    name: str | None = typer.Option(
        None, help="The name of this consumer. It must be unique among running consumers."
    ),
    processes: int = PROCESSES_OPTION,
    until_idle: float | None = typer.Option(
        None, min=0, help="End after this many seconds without a message."
    ),
    sink: list[str] | None = SINKS_OPTION,
    metrics: str | None = METRICS_OPTION,
    log_format: LogFormat = LOG_FORMAT_OPTION,
    log_verdicts: bool = LOG_VERDICTS_OPTION,
    parent: int | None = typer.Option(None, hidden=True),
) -> None:
    """Run the components that the files wire, until SIGTERM, SIGINT or SIGHUP.

    A second SIGTERM or SIGINT ends them immediately.
    """
    state = CliState.of(context)
    consumer = log_as_consumer(name, log_format, verdicts=log_verdicts)
    look_here()
    _refuse_unreadable(files)
    file = read_patchbay(*files)
    if processes > 1:
        raise typer.Exit(supervise(processes, name, metrics))
    with PatchBay(
        file, history=_history(state, history, file), name=consumer, parent=parent, metrics=metrics
    ) as bay:
        with listening(sink or [], next(iter(bay.outputs.providers.values()))):
            started = partial(state.say_running, [component.name for component in file.components])
            bay.run(signals=True, until_idle=until_idle, started=started)
        ran = bay.counts, bay.parked
    report(state, "input", ran, prefix="" if parent is None else f"{consumer}: ")


@app.command()
def check(context: typer.Context, files: list[Path] = _FILES, history: str | None = _HISTORY) -> None:
    """Read the files, load the components and show each wire. Nothing is connected or started.

    If parts of an XML file are not taken over, they are listed at the end, with file and line.
    """
    state = CliState.of(context)
    look_here()
    _refuse_unreadable(files)
    file, notes = read_with_notes(*files)
    with PatchBay(file, history=_history(state, history, file)) as bay:
        rows = [
            {
                "component": wired.component,
                "direction": "in",
                "port": wired.port,
                "provider": wired.outlet.provider,
                "destination": wired.outlet.address,
                "input": wired.trigger.name,
                "redelivery": None if wired.terms is None else wired.terms.redelivery.on_failure,
            }
            for wired in bay.inputs
        ] + [
            {
                "component": component.name,
                "direction": "out",
                "port": port,
                "provider": outlet.provider,
                "destination": outlet.address,
                "input": None,
                "redelivery": None,
            }
            for component in file.components
            for port in file.outputs(component)
            for outlet in bay.outputs.outlets(component.name, port)
        ]
    if state.as_json:
        state.document({"limbo": limbo_url(file) is not None, "wires": rows, "notes": list(notes)})
        return
    columns = ["component", "direction", "port", "provider", "destination", "redelivery"]
    state.show("wired", columns, rows)
    for note in notes:
        state.note(note)


@app.command()
def convert(
    context: typer.Context,
    file: Path = typer.Argument(help="A dynamoMessagingSystem.xml of ATG's Patch Bay."),
    provider: list[str] | None = PLACES_OPTION,
    output: Path | None = typer.Option(
        None, "--output", "-o", help="Write the TOML to this file, not to standard output."
    ),
) -> None:
    """Write XML of ATG's Patch Bay as TOML. Standard error lists the parts that cannot be taken over."""
    state = CliState.of(context)
    raw, notes = converted([file], places(provider), argument="FILE")
    toml = to_toml(raw)
    if state.as_json:
        state.document({"toml": toml, "notes": notes})
    elif output is None:
        typer.echo(toml, nl=False)
    if output is not None:
        create_private(output)  # it holds the passwords of URLs
        output.write_text(toml, "utf-8")
    for note in notes if not state.as_json else ():
        state.note(note)


def converted(
    files: Sequence[Path], urls: Mapping[str, str], *, argument: str
) -> tuple[dict[str, Any], list[str]]:
    """Return XML files as the content of one TOML file, and notes about what is left out or presumed.

    ``urls`` are the places of providers by their names. ``argument`` is the name of the files in errors.

    Raises:
        ConfigurationError: a file cannot be read, or is not a ``dynamo-message-system``.
    """
    guesses: dict[str, str] = {}
    notes: list[str] = []
    head: dict[str, Any] = {}
    lists: dict[str, list[Any]] = {}
    for wiring in combined([from_xml(_text(file, argument), str(file)) for file in files]):
        guesses |= wiring.guesses(SQL_PROVIDER)
        notes += wiring.notes
        for key, value in wiring.raw.items():
            if key == "patchbay":
                head = {key: value}
            else:
                lists.setdefault(key, []).extend(value)
    providers = {name: {"url": url} for name, url in (guesses | dict(urls)).items()}
    return {**head, "providers": providers, **lists}, [*notes, *guess_notes(guesses, urls)]


def _text(file: Path, argument: str) -> str:
    try:
        raw = file.read_bytes()
    except OSError as error:
        raise ConfigurationError(argument, f"cannot be read: {error}", "name a readable file") from error
    return decoded(raw, str(file))


def places(options: Sequence[str] | None) -> dict[str, str]:
    """Return the places of providers, from options of the form name=URL.

    Raises:
        ConfigurationError: an option has another form.
    """
    return dict(_name_and_url(option) for option in options or [])


def _name_and_url(option: str) -> tuple[str, str]:
    name, _, url = option.partition("=")
    if not name or not url:
        raise ConfigurationError(
            "--provider", f"{option!r} is not name=URL", "write sqldms=sqlite:///shop.db"
        )
    return provider_of(name), url


def _history(state: CliState, option: str | None, file: PatchBayFile) -> str | None:
    """Return the history to use: the option's, else the wiring's, else the configured one."""
    if option:
        with named("--history", HISTORY_URLS):
            drive(open_history(option).close())
    if option or file.patchbay.history:
        return option or file.patchbay.history
    setting = configuration_of(state).find("history")
    return None if setting is None else setting.value


def _refuse_unreadable(files: list[Path]) -> None:
    for file in files:
        refuse_unreadable("FILES", file)


def to_toml(raw: Mapping[str, Any]) -> str:
    """Return a file's text; reading it again gives the same."""
    return tomli_w.dumps(raw, indent=2)
