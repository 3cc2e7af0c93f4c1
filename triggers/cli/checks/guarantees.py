"""``doubtless guarantees``: the guarantee of each trigger of a module, and why it is not higher."""

from dataclasses import astuple
from enum import StrEnum
from typing import Any

import typer

from triggers.cli.shared.configured import configuration_of
from triggers.cli.shared.general_options import with_general_options
from triggers.cli.shared.loading import collect, unguarded
from triggers.cli.shared.output import CliState
from triggers.operations.guarantees import GUARANTEES, checked_guarantee_of, guarantee_of


class GuaranteeLevel(StrEnum):
    """The levels that can be required, by names without spaces."""

    ATOMIC = "atomic"
    FENCED = "fenced"
    IN_DOUBT = "in-doubt"


@with_general_options
def guarantees(
    context: typer.Context,
    module: str | None = typer.Argument(
        None, help="A module with triggers. Without a module, the command lists the levels."
    ),
    require: GuaranteeLevel | None = typer.Option(
        None, "--require", help="Exit with 1 if a trigger does not reach this level. For CI."
    ),
    check: bool = typer.Option(
        False, "--check", help="Connect to each history. If a history may forget entries, the level is lower."
    ),
) -> None:
    """Show which guarantee each trigger of a module reaches: atomic, fenced or in doubt.

    The command looks at the settings, the parameters of the service, and whether the resolver reads any of
    its parameters. It cannot know whether a target checks the fence. It connects to histories only with
    --check. For a guarded application, it also lists tasks that no guard wraps, with the level "none". Such a
    task fails --require, unless it has guarded=False.
    """
    state = CliState.of(context)
    if module is None:
        if require is not None or check:
            raise typer.BadParameter("--require and --check look at the triggers of a module: name it")
        rows: list[dict[str, Any]] = [
            {"level": level, "when": when, "what is promised": promise}
            for level, when, promise in map(astuple, GUARANTEES)
        ]
        state.show("guarantees", ["level", "when", "what is promised"], rows)
        return
    of = checked_guarantee_of if check else guarantee_of
    triggers = collect(module, configuration=configuration_of(state), guards=True)
    reached = {trigger.name: of(trigger) for trigger in triggers}
    left_out = unguarded(triggers)
    rows = [{"trigger": name, "guarantee": by.promise, "why": by.why} for name, by in reached.items()]
    rows += [{"trigger": name, "guarantee": "none", "why": task.why} for name, task in left_out.items()]
    state.show("guarantees", ["trigger", "guarantee", "why"], rows)
    if require is None:
        return
    is_forgotten = any(not task.is_meant for task in left_out.values())
    if is_forgotten or any(not by.satisfies(require.replace("-", " ")) for by in reached.values()):
        raise typer.Exit(1)
