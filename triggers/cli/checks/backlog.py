"""``doubtless backlog``: the messages that wait at the provider."""

from dataclasses import asdict

import typer

from history.bridge import drive
from history.errors import ConfigurationError
from triggers.cli.shared.configured import configuration_of
from triggers.cli.shared.embedded import provider_to_look_into
from triggers.cli.shared.general_options import with_general_options
from triggers.cli.shared.loading import collect
from triggers.cli.shared.options import ONLY_OPTION, PROVIDER_OPTION, connected
from triggers.cli.shared.output import CliState
from triggers.consumer.options import places_of
from triggers.providers.provider import capabilities_of

_COLUMNS = ["destination", "subscription", "waiting", "held", "later", "consumers", "oldest"]


@with_general_options
def backlog(
    context: typer.Context,
    module: str = typer.Argument(help="A module with triggers, such as examples.orders."),
    provider: str | None = PROVIDER_OPTION,
    only: list[str] | None = ONLY_OPTION,
    most: int | None = typer.Option(
        None,
        "--most",
        min=0,
        help="Exit with 1 if more messages than this wait for one of the triggers. For alarms.",
    ),
) -> None:
    """Show how many messages wait at the provider for the triggers of a module, and since when.

    It takes no message and changes nothing. "-" means that the provider does not report this number. Redis
    Streams and SQL databases also show messages that wait for others.
    """
    state = CliState.of(context)
    places = places_of(collect(module, only, configuration=configuration_of(state), guards=True))
    url = provider_to_look_into(provider, state, "give the provider of the triggers")
    with connected(url) as link:
        telling = capabilities_of(link).telling_backlog
        if telling is None:
            raise ConfigurationError(
                "--provider", "does not say what waits there", "ask its own tools, such as its console"
            )
        backlogs = drive(telling.backlogs(places))
    rows = [asdict(waiting) for waiting in backlogs]
    shown = [
        row | {"waiting": f"at least {waiting.waiting}"} if waiting.is_more else row
        for row, waiting in zip(rows, backlogs, strict=True)
    ]
    state.show("what waits", _COLUMNS, rows if state.as_json else shown)
    if most is not None and any((waiting.waiting or 0) > most for waiting in backlogs[: len(places)]):
        raise typer.Exit(1)
