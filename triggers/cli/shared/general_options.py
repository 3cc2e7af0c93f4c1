"""``--json``, ``--verbose`` and ``--config``, the options of every command."""

import inspect
from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import typer

from triggers.cli.shared.arguments import refuse_impossible
from triggers.cli.shared.configured import blaming, configuration_of, fill, keys_of
from triggers.cli.shared.logs import log_more
from triggers.cli.shared.output import CliState, UserExitError

_JSON_OPTION: Any = typer.Option(False, "--json", help="Print the data as one JSON document.")
_VERBOSE_OPTION: Any = typer.Option(
    False, "--verbose", "-v", help="Log more, and show the traceback of an error."
)
_CONFIG_OPTION: Any = typer.Option(
    None,
    "--config",
    show_default=False,
    help="Read this configuration file. By default: the file that DOUBTLESS_CONFIG names, else "
    "doubtless.toml in this folder.",
)

_CommandT = TypeVar("_CommandT", bound=Callable[..., None])

#: The type and typer's information of an option, by the name of its parameter.
Options = Mapping[str, tuple[Any, Any]]


def take(
    run: Callable[..., None], command: Callable[..., None], options: Options, *, instead_of: str | None = None
) -> Callable[..., None]:
    """Give ``run``, which wraps a command, the command's options and these, each by its name.

    ``run`` passes ``instead_of`` to the command, so the command line has no such option.
    """
    parameter_kind = inspect.Parameter.KEYWORD_ONLY
    signature = inspect.signature(command)
    own = [
        parameter.replace(kind=parameter_kind)
        for name, parameter in signature.parameters.items()
        if name != instead_of
    ]
    added = [
        inspect.Parameter(name, parameter_kind, default=option, annotation=type_)
        for name, (type_, option) in options.items()
    ]
    vars(run)["__signature__"] = signature.replace(parameters=[*own, *added])
    types = {name: type_ for name, type_ in command.__annotations__.items() if name != instead_of}
    run.__annotations__ = types | {name: type_ for name, (type_, _) in options.items()}
    return run


_GENERAL: Options = {
    "json": (bool, _JSON_OPTION),
    "verbose": (bool, _VERBOSE_OPTION),
    "config": (Path | None, _CONFIG_OPTION),
}


def with_general_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the general options, so that they may come before and after its name.

    Its own configurable options, if the command line leaves them out, get the configured values.
    """
    keys = keys_of(command)

    @wraps(command)
    def run(
        context: typer.Context, *, json: bool, verbose: bool, config: Path | None, **options: Any
    ) -> None:
        state = CliState.of(context)
        state.as_json |= json
        state.verbose |= verbose
        state.config = config or state.config
        if state.verbose:
            log_more()
        refuse_impossible(run, {"config": config})
        if config is not None:  # checked even if this command does not need it
            configuration_of(state)
        with blaming(fill(context, options, keys)), state.document_apart():
            refuse_impossible(run, options)
            try:
                command(context, **options)
            except SystemExit as end:
                raise UserExitError(end.code) from end

    run.__doc__ = _unwrapped(inspect.getdoc(command))
    return take(run, command, _GENERAL)


class CommandGroup(typer.Typer):
    """A group of commands that all have the general options."""

    def command(self, name: str | None = None, **settings: Any) -> Callable[[_CommandT], _CommandT]:
        """Add a function as a command, with the general options; the function itself stays as it is."""

        def add(command: _CommandT) -> _CommandT:
            super(CommandGroup, self).command(name, **settings)(with_general_options(command))
            return command

        return add


def _unwrapped(text: str | None) -> str:
    """Return a docstring with each paragraph in one line: help would keep the line ends of our source."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in (text or "").split("\n\n"))
