"""Values from the environment and ``doubtless.toml``, for options that the command line leaves out.

An option with a variable of ours, such as DOUBTLESS_HISTORY, has a key in the file: ``history``.
"""

import inspect
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

from history.errors import ConfigurationError
from triggers.cli.shared.output import CliState

if TYPE_CHECKING:
    from triggers.configuration import Configuration

_PREFIX = "DOUBTLESS_"

#: Settings that a command takes only from its own options; for a module they have other keys.
_OPTIONS_ALONE = {"metrics", "queue", "queue_limit", "time_to_live", "delay", "priority", "alias", "rate"}


def configuration_of(state: CliState) -> "Configuration":
    """Return the configuration of this process; each command reads the file once.

    Raises:
        ConfigurationError: the file or the environment has an invalid value.
    """
    from triggers.configuration import read_configuration  # noqa: PLC0415  (--help needs none)

    if state.configuration is None:
        state.configuration = read_configuration(state.config)
    return state.configuration


def keys_of(command: Callable[..., None]) -> dict[str, str]:
    """Return the keys of a command's options, by the names of its parameters."""
    return dict(_keys(command))


def _keys(command: Callable[..., None]) -> Iterator[tuple[str, str]]:
    for name, parameter in inspect.signature(command).parameters.items():
        variable = getattr(parameter.default, "envvar", None)
        if isinstance(variable, str) and variable.startswith(_PREFIX):
            yield name, variable.removeprefix(_PREFIX).lower()


def is_on_command_line(context: typer.Context, name: str) -> bool:
    """Whether an option was given on the command line, and not left to the environment or its default."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def fill(context: typer.Context, options: dict[str, Any], keys: Mapping[str, str]) -> dict[str, str]:
    """Give the configured values to options that the command line leaves out.

    Return their origins, by the options as errors name them.
    """
    origins: dict[str, str] = {}
    for name, key in keys.items():
        if not is_on_command_line(context, name):
            setting = configuration_of(CliState.of(context)).find(key)
            if setting is not None:
                options[name] = setting.value
                origins[f"--{name.replace('_', '-')}"] = setting.origin
    return origins


@contextmanager
def blaming(origins: Mapping[str, str]) -> Generator[None]:
    """Make errors name the user's input: the option, the variable, or the file and its key."""
    try:
        yield
    except ConfigurationError as error:
        option = f"--{error.setting.replace('_', '-')}" if error.setting in _OPTIONS_ALONE else error.setting
        named = origins.get(option, option)
        if named == error.setting:
            raise
        raise ConfigurationError(named, error.problem, error.remedy) from error
