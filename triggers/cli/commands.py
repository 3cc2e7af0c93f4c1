"""The commands of ``doubtless`` by their names, in the order of ``--help``; each is loaded when it is called.

A summary is the first paragraph of the command's own help, so that ``--help`` loads no command.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any, ClassVar, Final

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

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names in the order of the table."""
        del ctx
        return list(self.lazy_commands)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the form of a command for help and completion; None if the name is unknown."""
        del ctx
        if cmd_name not in self.lazy_commands:
            return None
        summary = self.lazy_commands[cmd_name].summary
        return TyperCommand(name=cmd_name, help=summary, short_help=summary)

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
    loaded = getattr(import_module(module), attribute)
    app = typer.Typer(rich_markup_mode=None)
    if isinstance(loaded, typer.Typer):
        app.add_typer(loaded, name=name)
    else:
        app.command(name)(loaded)
    command = typer.main.get_group(app).commands[name]
    _summarize(command)
    return command


def _summarize(command: Any) -> None:
    """Have the help of a group show the whole first paragraph of each command's help, not its beginning."""
    command.short_help = " ".join((command.help or "").partition("\n\n")[0].split())
    for below in getattr(command, "commands", {}).values():
        _summarize(below)


COMMANDS: Final[Mapping[str, LazyCommand]] = {
    "demo": LazyCommand(
        "triggers.cli.demo:demo",
        "Book each order of a file once, although lines are repeated or broken and the worker is killed.",
    ),
    "init": LazyCommand(
        "triggers.cli.setup.init:init",
        "Write a small service with its test and its configuration. They run without changes.",
    ),
    "migrate": LazyCommand(
        "triggers.cli.setup.migration.commands:app", "Make triggers from the definitions of another system."
    ),
    "run": LazyCommand("triggers.cli.run:run", "Run the triggers of a module until a signal stops them."),
    "send": LazyCommand("triggers.cli.send:send", "Send each line of a file as one message."),
    "why": LazyCommand(
        "triggers.cli.why:why", "Explain what is known about a uuid, and what happens at its next delivery."
    ),
    "guarantees": LazyCommand(
        "triggers.cli.checks.guarantees:guarantees",
        "Show which guarantee each trigger of a module reaches: atomic, fenced or in doubt.",
    ),
    "doctor": LazyCommand(
        "triggers.cli.checks.doctor:doctor",
        "Check a set-up for problems: servers, their settings, clocks, permissions and triggers.",
    ),
    "alerts": LazyCommand(
        "triggers.cli.checks.alerts:alerts", "Print alerts for Prometheus, as YAML for its rule_files."
    ),
    "config": LazyCommand(
        "triggers.cli.setup.config:app",
        "Show the settings from the command line, the environment and doubtless.toml.",
    ),
    "size": LazyCommand(
        "triggers.cli.checks.size:size",
        "Estimate how much memory (Redis) or disk (PostgreSQL, SQLite) a document history needs.",
    ),
    "status": LazyCommand(
        "triggers.cli.control:status",
        "Show what consumers report about their triggers. They report once a second.",
    ),
    "statistics": LazyCommand(
        "triggers.cli.control:statistics",
        "Show the counts of each trigger over all its consumers, including consumers that have ended.",
    ),
    "backlog": LazyCommand(
        "triggers.cli.checks.backlog:backlog",
        "Show how many messages wait at the provider for the triggers of a module, and since when.",
    ),
    "suspend": LazyCommand(
        "triggers.cli.control:suspend",
        'Stop running consumers from receiving for these triggers until "resume".',
    ),
    "resume": LazyCommand(
        "triggers.cli.control:resume",
        "Let running consumers receive again after a command or an error suspended their triggers.",
    ),
    "disable": LazyCommand(
        "triggers.cli.control:disable",
        'Disconnect these triggers from the provider until "enable", even in consumers that start later.',
    ),
    "enable": LazyCommand(
        "triggers.cli.control:enable",
        "Connect these triggers again and let them receive, no matter what stopped them.",
    ),
    "dashboard": LazyCommand(
        "triggers.dashboard.command:dashboard",
        "Serve web pages that show what happens and what is parked, and let people decide.",
    ),
    "history": LazyCommand(
        "triggers.cli.history.commands:app",
        "Look into the document history, add entries to it and remove them.",
    ),
    "parked": LazyCommand(
        "triggers.cli.parked.commands:app",
        "Look at parked messages (In Doubt, rejected, unreadable), and run, settle or discard them.",
    ),
    "sqlremote": LazyCommand(
        "triggers.cli.sqlremote.commands:app",
        "Run and control links: guaranteed, ordered delivery between two databases.",
    ),
    "patchbay": LazyCommand(
        "triggers.cli.patchbay:app", "Run, check or convert a file that wires components to destinations."
    ),
    "redis": LazyCommand(
        "triggers.cli.redis:app",
        "Look at the subscriptions of Redis Streams, and end subscriptions that no trigger uses any more.",
    ),
    "sqljms": LazyCommand(
        "triggers.cli.sqljms.commands:app",
        "Inspect and repair the queues, topics, subscriptions and limbo of a SQL database.",
    ),
}


class Commands(LazyGroup):
    """All of them."""

    lazy_commands = COMMANDS
