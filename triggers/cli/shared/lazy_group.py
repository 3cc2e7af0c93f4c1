"""A group of commands that are loaded when they are called; its help has one line of each without that."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any, ClassVar

import typer
from typer.core import TyperCommand, TyperGroup


@dataclass(frozen=True, slots=True)
class LazyCommand:
    """Where a command or a group is, ``module:attribute``, and the first paragraph of its help."""

    target: str
    summary: str


class LazyGroup(TyperGroup):
    """Subclass it with ``lazy_commands``; a target is a function, or a :class:`typer.Typer` for a group.

    ``commands`` loads a command at its lookup. ``get_command`` answers with only the summary: help and
    completion need no more. Any replaces classes that are private to Typer.
    """

    lazy_commands: ClassVar[Mapping[str, LazyCommand]]

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        commands: Any = _Loading(self.lazy_commands)
        self.commands = commands

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the options; the help shows no value for flags."""
        return _without_types_of_flags(super().get_params(ctx))

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names in the order of the table."""
        del ctx
        return list(self.lazy_commands)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the form of a command for help and completion; None if the name is unknown."""
        del ctx
        if cmd_name not in self.lazy_commands:
            return None
        return TyperCommand(name=cmd_name, help=self.lazy_commands[cmd_name].summary)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that is called, loaded."""
        name, _, rest = super().resolve_command(ctx, args)
        return name, None if name is None else self.commands[name], rest


class _Loading(Mapping[str, Any]):
    """The commands by their names, each loaded at its lookup."""

    def __init__(self, commands: Mapping[str, LazyCommand]) -> None:
        self._commands = commands

    def __getitem__(self, name: str) -> Any:
        return _load(name, self._commands[name].target)

    def __iter__(self) -> Iterator[str]:
        return iter(self._commands)

    def __len__(self) -> int:
        return len(self._commands)


@cache
def _load(name: str, target: str) -> Any:
    module, _, attribute = target.partition(":")
    found = getattr(import_module(module), attribute)
    app = typer.Typer(rich_markup_mode="rich")
    if isinstance(found, typer.Typer):
        app.add_typer(found, name=name)
    else:
        app.command(name)(found)
    command = typer.main.get_group(app).commands[name]
    _show_flags_plainly(command)
    return command


def _show_flags_plainly(command: Any) -> None:
    """Make the help of a command, and of its subcommands, show ``--yes`` instead of ``--yes <bool>``."""
    get_params = command.get_params

    def plainly(ctx: Any) -> list[Any]:
        return _without_types_of_flags(get_params(ctx))

    command.get_params = plainly
    for below in getattr(command, "commands", {}).values():
        _show_flags_plainly(below)


def _without_types_of_flags(params: list[Any]) -> list[Any]:
    for param in params:
        if getattr(param, "is_flag", False):
            param.display_type_rich = _no_type  # a newer Typer shows "<bool>", as if a value were required
    return params


def _no_type(ctx: Any) -> None:
    del ctx
