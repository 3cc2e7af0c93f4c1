"""The commands of ``doubtless`` by their names, in the order of ``--help``.

A summary is the first paragraph of the command's own help, so that ``--help`` loads no command.
"""

from collections.abc import Mapping
from typing import Final

from triggers.cli.shared.lazy_group import LazyCommand, LazyGroup

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
    "run": LazyCommand(
        "triggers.cli.run:run",
        "Run the triggers of a module until a signal stops them.",
    ),
    "send": LazyCommand("triggers.cli.send:send", "Send each line of a file as one message."),
    "why": LazyCommand(
        "triggers.cli.why:why",
        "Explain what is known about a uuid, and what happens at its next delivery.",
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
        "Show what running consumers report about their triggers. They report once a second.",
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
        "triggers.cli.patchbay:app",
        "Run, check or convert a file that wires components to destinations.",
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
