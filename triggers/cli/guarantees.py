"""``doubtless guarantees``: what each trigger of a module promises, and why no more."""

from dataclasses import astuple
from typing import Any

import typer

from triggers.cli.shared.general_options import with_general_options
from triggers.cli.shared.guarantee_levels import GUARANTEES, guarantee_of
from triggers.cli.shared.loading import collect
from triggers.cli.shared.output import State


@with_general_options
def guarantees(
    context: typer.Context,
    module: str | None = typer.Argument(
        None, help="A module with triggers; without one, the levels are listed."
    ),
) -> None:
    """Say which level each trigger of a module reaches: atomic, fenced or in doubt.

    It looks at settings and at the service's parameters; whether a target checks the fence it cannot know.
    """
    state = State.of(context)
    if module is None:
        rows: list[dict[str, Any]] = [
            {"level": level, "when": when, "what is promised": promise}
            for level, when, promise in map(astuple, GUARANTEES)
        ]
        state.show("guarantees", ["level", "when", "what is promised"], rows)
        return
    reached = {trigger.name: guarantee_of(trigger) for trigger in collect(module, guards=True)}
    rows = [{"trigger": name, "guarantee": by.promise, "why": by.why} for name, by in reached.items()]
    state.show("guarantees", ["trigger", "guarantee", "why"], rows)
