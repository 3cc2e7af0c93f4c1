"""``doubtless config``: the settings, and where each comes from."""

from collections.abc import Iterator
from typing import Any, cast

import typer

from triggers.cli.shared.configured import configuration_of, is_on_command_line
from triggers.cli.shared.general_options import CommandGroup
from triggers.cli.shared.loading import collect
from triggers.cli.shared.logs import LogFormat
from triggers.cli.shared.options import (
    DEFAULT_HISTORY_OPTION,
    LOG_FORMAT_OPTION,
    LOG_VERDICTS_OPTION,
    METRICS_OPTION,
    PROVIDER_OPTION,
)
from triggers.cli.shared.output import CliState
from triggers.cli.shared.sinks import SINKS_OPTION
from triggers.configuration import FILE, Configuration, FoundValue
from triggers.configuration.hiding import shown
from triggers.configuration.overriding import said_of, settings_of
from triggers.configuration.reading import strange_variables
from triggers.consumer.options import AnyTrigger
from triggers.service.options import ConsumersDefault

app = CommandGroup(
    no_args_is_help=True, help="Show the settings from the command line, the environment and doubtless.toml."
)

#: The options of ``doubtless run`` that can be configured, by their keys.
_OPTIONS = {
    "provider": "provider",
    "history": "history",
    "sinks": "sink",
    "metrics": "metrics",
    "log_format": "log_format",
    "log_verdicts": "log_verdicts",
}


@app.callback()
def _group() -> None:
    """Keep a group of only one command."""


@app.command()
def show(
    context: typer.Context,
    module: str | None = typer.Argument(
        None, help="A module. The settings of its triggers are shown as well."
    ),
    provider: str | None = PROVIDER_OPTION,
    history: str | None = DEFAULT_HISTORY_OPTION,
    sink: list[str] | None = SINKS_OPTION,
    metrics: str | None = METRICS_OPTION,
    log_format: LogFormat = LOG_FORMAT_OPTION,
    log_verdicts: bool = LOG_VERDICTS_OPTION,
) -> None:
    """Show each setting, its value without secrets, and where it comes from.

    Give it the settings of "doubtless run". The command line wins over the environment, the environment
    over the file, and the file over the code. The command connects to nothing. If the file or the environment
    has a wrong value, the command fails and names the key.
    """
    state = CliState.of(context)
    configuration = configuration_of(state)
    values = {
        "provider": provider,
        "history": history,
        "sinks": tuple(sink or ()) or None,
        "metrics": metrics,
        "log_format": str(log_format),
        "log_verdicts": log_verdicts,
    }
    rows = [
        {"setting": key, "value": shown(key, value), "from": _origin(context, configuration, key)}
        for key, value in values.items()
    ]
    rows.append(_journal_of_all(configuration))
    if module is not None:
        for trigger in collect(module, configuration=configuration):
            rows += _of_trigger(trigger, configuration)
    state.show(
        "configuration", ["setting", "value", "from"], rows if state.as_json else map(_in_one_line, rows)
    )
    read = configuration.file
    state.note(f"there is no {FILE} in this folder" if read is None else f"{read} was read")
    for name, meant in strange_variables():
        state.note(f"the variable {name} is none of ours; {meant} is")


def _in_one_line(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row for a table, with several URLs in one text."""
    value = row["value"]
    return row | {"value": " ".join(cast("list[str]", value))} if isinstance(value, list) else row


def _origin(context: typer.Context, configuration: Configuration, key: str) -> str:
    option = _OPTIONS[key]
    if is_on_command_line(context, option):
        return f"--{option.replace('_', '-')}"
    setting = configuration.find(key)
    return "default" if setting is None else setting.origin


def _journal_of_all(configuration: Configuration) -> dict[str, Any]:
    """Return the row for the journal of triggers without the setting; no option of a command sets it."""
    setting = configuration.find("journal") or FoundValue(False, "default")
    return {"setting": "journal", "value": shown("journal", setting.value), "from": setting.origin}


def _of_trigger(trigger: AnyTrigger, configuration: Configuration) -> Iterator[dict[str, Any]]:
    settings = said_of(trigger, configuration)
    for key, value in settings_of(trigger).items():
        said = settings.get(key)
        nobody = isinstance(value, ConsumersDefault)
        yield {
            "setting": f"{trigger.name}: {key}",
            "value": None if nobody else shown(key, value),
            "from": "history above" if nobody else "the code" if said is None else said.origin,
        }
