"""``doubtless parked import``: the messages of a dead-letter destination become parked messages."""

from typing import Any

import typer

from history.store.security import SecurityEvent
from triggers.cli.shared.configured import configuration_of
from triggers.cli.shared.embedded import provider_to_look_into
from triggers.cli.shared.options import HISTORY_OPTION, ONLY_OPTION, PROVIDER_OPTION, connected, opened
from triggers.cli.shared.output import CliState
from triggers.configuration.limits import LARGEST
from triggers.security.commands import command_record, recorded

_COLUMNS = ["trigger", "parked"]

_BY_OPTION: Any = typer.Option(None, "--by", help="Who imports them. By default: the name of the login.")


def import_(
    context: typer.Context,
    module: str = typer.Argument(help="The module of the triggers."),
    destination: str = typer.Argument(help="The dead-letter queue or topic, as a trigger would name it."),
    provider: str | None = PROVIDER_OPTION,
    history: str | None = HISTORY_OPTION,
    only: list[str] | None = ONLY_OPTION,
    subscription: str = typer.Option(
        "letters", "--subscription", "-s", help="The subscription, or the consumer group, that receives them."
    ),
    limit: int | None = typer.Option(None, min=1, max=LARGEST, help="Park at most this many."),
    until_idle: float = typer.Option(5.0, min=0, help="End after this many seconds without a message."),
    by: str | None = _BY_OPTION,
) -> None:
    """Park the messages of a dead-letter queue or topic, so that people can decide about them.

    A message is acknowledged there after it is parked. Messages keep their uuids, so a message that has run
    is a duplicate. The exit code is 1 if messages stay there, because no trigger of the module is theirs.
    """
    from triggers.cli.shared.loading import collect  # noqa: PLC0415  (the other commands need no trigger)
    from triggers.operations.importing import Import  # noqa: PLC0415  (as above)

    state = CliState.of(context)
    triggers = collect(module, only, configuration=configuration_of(state), tasks=True)
    url = provider_to_look_into(provider, state, "give the provider of the dead letters")
    with opened(history, makes=True) as store, connected(url) as link:
        work = Import(
            destination=destination,
            triggers=triggers,
            stores=lambda _: store,
            limit=limit,
            until_idle=until_idle,
        )
        records = [command_record(SecurityEvent.IMPORT, by=by, trigger=trigger.name) for trigger in triggers]
        with recorded(store, records):
            imported = work.run_on(link, subscription=subscription)
    rows = [{"trigger": name, "parked": count} for name, count in sorted(imported.parked.items())]
    state.show("parked", _COLUMNS, rows, none=f"{destination} has no message for these triggers")
    if imported.left:
        state.note(f"{imported.left} messages stay there: they name no trigger of {module}, or several fit")
        raise typer.Exit(1)
