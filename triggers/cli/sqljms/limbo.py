"""``doubtless sqljms limbo``: the messages that wait until they are due, or for their next attempt."""

from typing import TYPE_CHECKING, Any

import typer

from history.bridge import drive
from triggers.cli.shared.general_options import CommandGroup
from triggers.cli.shared.options import YES_OPTION, confirm
from triggers.cli.shared.output import CliState
from triggers.cli.sqljms.options import (
    FORCE_OPTION,
    IDS_ARGUMENT,
    LIMIT_OPTION,
    PROVIDER_OPTION,
    opened_limbo,
    show_changed,
)
from triggers.configuration.nearest import listed
from triggers.operations.messages import whole

if TYPE_CHECKING:
    from triggers.providers.sqljms.limbo.limbo import InLimbo

app = CommandGroup(
    no_args_is_help=True,
    help="Inspect and repair messages that wait until they are due, or for their next attempt.",
)

#: How many waiting messages are searched for the names of their inputs.
_LOOKED_AT = 200

_COLUMNS = ["id", "component", "port", "uuid", "due", "attempts", "failures", "busy_until", "error"]


@app.command("list")
def list_(
    context: typer.Context,
    input_name: str | None = typer.Option(
        None, "--input", help="Only messages that wait for another attempt at this input."
    ),
    limit: int = LIMIT_OPTION,
    provider: str | None = PROVIDER_OPTION,
) -> None:
    """List the waiting messages. The message that is due next comes first."""
    from triggers.providers.sqljms.limbo.admin import list_limbo  # noqa: PLC0415  (loads a driver)

    with opened_limbo(provider) as limbo:
        messages, total = drive(list_limbo(limbo, input_name=input_name, limit=limit))
        inputs = set[str]()
        if input_name is not None and not messages:
            others, _ = drive(list_limbo(limbo, limit=_LOOKED_AT))
            inputs = {waiting.again.input for waiting in others if waiting.again is not None}
    none = f"nothing waits in limbo{f' for {input_name}, but for: {listed(inputs)}' if inputs else ''}"
    rows = [_row(waiting) for waiting in messages]
    CliState.of(context).show("limbo", _COLUMNS, rows, total=total, none=none)


@app.command("show")
def show(
    context: typer.Context,
    number: int = typer.Argument(help="The number of the message in limbo."),
    provider: str | None = PROVIDER_OPTION,
) -> None:
    """Show a whole waiting message as JSON."""
    from triggers.providers.sqljms.limbo.admin import get_from_limbo  # noqa: PLC0415  (loads a driver)

    with opened_limbo(provider) as limbo:
        waiting = drive(get_from_limbo(limbo, number))
    CliState.of(context).document(_row(waiting) | {"message": whole(waiting.message)})


@app.command("release")
def release(
    context: typer.Context,
    numbers: list[int] = IDS_ARGUMENT,
    force: bool = FORCE_OPTION,
    provider: str | None = PROVIDER_OPTION,
) -> None:
    """Make waiting messages due now."""
    from triggers.providers.sqljms.limbo.admin import release_from_limbo  # noqa: PLC0415  (loads a driver)

    with opened_limbo(provider) as limbo:
        due = drive(release_from_limbo(limbo, numbers, force=force))
    show_changed(CliState.of(context), "released", due)


@app.command("delete")
def delete(
    context: typer.Context,
    numbers: list[int] = IDS_ARGUMENT,
    force: bool = FORCE_OPTION,
    yes: bool = YES_OPTION,
    provider: str | None = PROVIDER_OPTION,
) -> None:
    """Delete waiting messages permanently."""
    from triggers.providers.sqljms.limbo.admin import drop_from_limbo  # noqa: PLC0415  (loads a driver)

    with opened_limbo(provider) as limbo:
        confirm(f"Delete for good from limbo: {', '.join(map(str, numbers))}?", yes=yes)
        gone = drive(drop_from_limbo(limbo, numbers, force=force))
    show_changed(CliState.of(context), "deleted", gone)


def _row(waiting: "InLimbo") -> dict[str, Any]:
    again = waiting.again
    return {
        "id": waiting.id,
        "component": waiting.component,
        "port": waiting.port,
        "uuid": waiting.message.uuid,
        "due": waiting.due,
        "input": None if again is None else again.input,
        "attempts": None if again is None else f"{again.attempts} of {again.max_attempts}",
        "failures": waiting.failures if again is None else None,
        "busy_until": waiting.held_until,
        "error": waiting.error,
        "limbo": waiting.limbo,
    }
