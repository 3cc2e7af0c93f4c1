"""``doubtless redis``: look at the subscriptions of a stream, and end those of removed triggers."""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import typer

from history.bridge import drive
from history.errors import ConfigurationError
from triggers.cli.shared.general_options import CommandGroup
from triggers.cli.shared.options import YES_OPTION, confirm, connected
from triggers.cli.shared.output import CliState

if TYPE_CHECKING:
    from triggers.providers.redis_streams import RedisStreams
    from triggers.providers.redis_streams.subscriptions import StreamSubscription

app = CommandGroup(
    no_args_is_help=True,
    help="Look at the subscriptions of Redis Streams, and end subscriptions that no trigger uses any more.",
)

#: Not the option of the other commands: no file of this folder can replace a Redis.
PROVIDER_OPTION: Any = typer.Option(
    None,
    "--provider",
    envvar="DOUBTLESS_PROVIDER",
    help="URL of Redis. Forms: redis://host:6379/0, rediss://..., redis+sentinel://a,b,c/service/0 or "
    "redis+cluster://a,b,c",
)

_COLUMNS = ["name", "pending", "unread", "consumers", "oldest"]


@app.command("subscriptions")
def subscriptions(
    context: typer.Context,
    destination: str = typer.Argument(help="The stream."),
    provider: str | None = PROVIDER_OPTION,
) -> None:
    """List the subscriptions of a stream. For a forgotten one, the stream keeps all later messages."""
    with _opened(provider) as streams:
        listed = drive(streams.subscriptions(destination))
    state = CliState.of(context)
    rows = [asdict(subscription) for subscription in listed]
    shown = [row | {"unread": f"at least {row['unread']}"} if row["is_more"] else row for row in rows]
    state.show("subscriptions", _COLUMNS, rows if state.as_json else shown)


@app.command("unsubscribe")
def unsubscribe(
    context: typer.Context,
    destination: str = typer.Argument(help="The stream."),
    subscription: str = typer.Argument(
        help="The name of the subscription, which is the name of its trigger."
    ),
    yes: bool = YES_OPTION,
    provider: str | None = PROVIDER_OPTION,
) -> None:
    """End a subscription that has no running consumer.

    The messages that it has not read, or not acknowledged, are not delivered to it any more.
    """
    state = CliState.of(context)
    with _opened(provider) as streams:
        matching = [
            listed for listed in drive(streams.subscriptions(destination)) if listed.name == subscription
        ]
        if not matching:
            state.note(f"{destination} has no subscription {subscription}")
            raise typer.Exit(1)
        confirm(_question(destination, matching[0]), yes=yes)
        # Messages that came since the question are not given up without another question.
        left = bool(matching[0].pending or matching[0].unread)
        drive(streams.unsubscribe(destination, subscription, force=yes or left))
    document = {"destination": destination, "subscription": subscription, "given_up": left}
    state.report(document, f"{subscription} has ended")


def _question(destination: str, subscription: "StreamSubscription") -> str:
    if not subscription.pending and not subscription.unread:
        return f"End {subscription.name} of {destination}, which has read and acknowledged everything?"
    since = "" if subscription.oldest is None else f", the oldest of {subscription.oldest:%Y-%m-%d %H:%M} UTC"
    return (
        f"End {subscription.name} of {destination}, and give up {subscription.pending} that it has not "
        f"acknowledged and {'at least ' if subscription.is_more else ''}{subscription.unread} that it has "
        f"not read{since}?"
    )


@contextmanager
def _opened(provider: str | None) -> Generator["RedisStreams"]:
    """Open the Redis of a command.

    Raises:
        ConfigurationError: none was named, or it is not a Redis.
    """
    if not provider:
        raise ConfigurationError(
            "--provider", "is missing", "give redis://host:6379/0, or set DOUBTLESS_PROVIDER"
        )
    with connected(provider) as link:
        from triggers.providers.redis_streams import RedisStreams  # noqa: PLC0415  (loads a driver)

        if not isinstance(link, RedisStreams):
            raise ConfigurationError("--provider", "is not Redis Streams", "use redis://host:6379/0")
        yield link
