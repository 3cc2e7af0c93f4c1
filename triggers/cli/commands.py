"""The commands of ``doubtless`` by their names, in the order of ``--help``.

A summary is the first paragraph of the command's own help, so that ``--help`` need not load any.
"""

from collections.abc import Mapping
from typing import Final

from triggers.cli.shared.lazy_group import LazyCommand, LazyGroup

COMMANDS: Final[Mapping[str, LazyCommand]] = {
    "demo": LazyCommand(
        "triggers.cli.demo:demo",
        "Book a file of orders once each, although lines come twice, are broken, and the worker is killed.",
    ),
    "init": LazyCommand(
        "triggers.cli.setup.init:init",
        "Write a small service, its test and its configuration, which run as they are.",
    ),
    "run": LazyCommand(
        "triggers.cli.run:run",
        "Run the triggers of a module until SIGTERM or SIGINT; a second signal ends it at once.",
    ),
    "send": LazyCommand("triggers.cli.send:send", "Send each line of a file as one message."),
    "why": LazyCommand(
        "triggers.cli.why:why",
        "Say what is remembered of a uuid, what is parked or decided, and what its next delivery will be.",
    ),
    "guarantees": LazyCommand(
        "triggers.cli.checks.guarantees:guarantees",
        "Say which level each trigger of a module reaches: atomic, fenced or in doubt.",
    ),
    "doctor": LazyCommand(
        "triggers.cli.checks.doctor:doctor",
        "Look for what is wrong with a set-up: servers, their settings, clocks, permissions, triggers.",
    ),
    "config": LazyCommand(
        "triggers.cli.setup.config:app",
        "What the command line, the environment and doubtless.toml say together.",
    ),
    "size": LazyCommand(
        "triggers.cli.checks.size:size",
        "Say how much memory (Redis) or disk (PostgreSQL, SQLite) a document history needs for a load.",
    ),
    "status": LazyCommand(
        "triggers.cli.control:status",
        "Show what the living consumers say of their triggers; consumers report once a second.",
    ),
    "statistics": LazyCommand(
        "triggers.cli.control:statistics",
        "Show what all consumers of each trigger have counted together, also those that have ended.",
    ),
    "backlog": LazyCommand(
        "triggers.cli.checks.backlog:backlog",
        "Say what waits at the provider for the triggers of a module: how much, and since when.",
    ),
    "suspend": LazyCommand(
        "triggers.cli.control:suspend",
        'Let running consumers receive nothing for these triggers until "resume".',
    ),
    "resume": LazyCommand(
        "triggers.cli.control:resume",
        "Let running consumers receive again, whether a command or an error had suspended their triggers.",
    ),
    "disable": LazyCommand(
        "triggers.cli.control:disable",
        'Disconnect these triggers from the provider until "enable", also in consumers that start later.',
    ),
    "enable": LazyCommand(
        "triggers.cli.control:enable",
        "Connect these triggers again and receive, whatever had kept them from that.",
    ),
    "dashboard": LazyCommand(
        "triggers.dashboard.command:dashboard",
        "Show in a browser what happens and what is parked, and let people decide.",
    ),
    "history": LazyCommand("triggers.cli.history:app", "What the document history remembers."),
    "parked": LazyCommand(
        "triggers.cli.parked.commands:app",
        "In Doubt, rejected and unreadable messages: look, run, settle as done or discard.",
    ),
    "sqlremote": LazyCommand(
        "triggers.cli.sqlremote.commands:app",
        "Links: guaranteed, ordered delivery between two databases.",
    ),
    "patchbay": LazyCommand(
        "triggers.cli.patchbay:app",
        "Components wired to destinations by a file: run, check, convert.",
    ),
    "redis": LazyCommand(
        "triggers.cli.redis:app", "Subscriptions of Redis Streams: look, and end those whose trigger is gone."
    ),
    "sqljms": LazyCommand(
        "triggers.cli.sqljms.commands:app",
        "Queues, topics, subscriptions and the limbo in a SQL database: look and mend.",
    ),
}


class Commands(LazyGroup):
    """All of them."""

    lazy_commands = COMMANDS
