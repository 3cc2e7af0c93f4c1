"""``doubtless sqljms``: manage the queues, topics and the limbo of a SQL database."""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import timedelta
from typing import TYPE_CHECKING

import typer

from history.bridge import drive
from triggers.cli.shared.general_options import CommandGroup
from triggers.cli.shared.options import YES_OPTION, confirm
from triggers.cli.shared.output import CliState
from triggers.cli.sqljms import limbo as sqljms_limbo
from triggers.cli.sqljms.options import (
    ALL_OPTION,
    FORCE_OPTION,
    IDS_ARGUMENT,
    LIMIT_OPTION,
    PLACE_ARGUMENT,
    PROVIDER_OPTION,
    SOME_ARGUMENT,
    SUBSCRIPTION_OPTION,
    chosen,
    opened_admin,
    show_changed,
)
from triggers.operations.journals import refuse_unknown
from triggers.operations.messages import whole

if TYPE_CHECKING:
    from triggers.providers.sqljms.admin.views import SourceView

app = CommandGroup(
    no_args_is_help=True,
    help="Inspect and repair the queues, topics, subscriptions and limbo of a SQL database.",
)
app.add_typer(sqljms_limbo.app, name="limbo")

_BACKLOG = ["messages", "held", "later", "oldest"]


@app.command("clients")
def clients(context: typer.Context, provider: str | None = PROVIDER_OPTION) -> None:
    """List the consumers, whether they are running, and how many messages they hold."""
    with opened_admin(provider) as admin:
        rows = [asdict(client) for client in drive(admin.clients())]
    CliState.of(context).show("clients", ["name", "id", "alive", "held", "lease_until"], rows)


@app.command("queues")
def queues(context: typer.Context, provider: str | None = PROVIDER_OPTION) -> None:
    """List the queues, how many messages wait in each, and for how long the oldest has been due."""
    with opened_admin(provider) as admin:
        views = drive(admin.queues())
    _show_places(CliState.of(context), "queues", views, ["name", *_BACKLOG, "consumers"])


@app.command("topics")
def topics(context: typer.Context, provider: str | None = PROVIDER_OPTION) -> None:
    """List the topics."""
    with opened_admin(provider) as admin:
        rows = [asdict(topic) for topic in drive(admin.topics())]
    CliState.of(context).show("topics", ["name", "id", "subscriptions", "messages"], rows)


@app.command("subscriptions")
def subscriptions(
    context: typer.Context,
    topic: str | None = typer.Argument(None, help="Only this topic. By default all topics."),
    provider: str | None = PROVIDER_OPTION,
) -> None:
    """List the subscriptions. A forgotten subscription keeps its messages forever."""
    with opened_admin(provider) as admin:
        views = drive(admin.subscriptions(topic))
        if topic is not None and not views:
            refuse_unknown("TOPIC", "topic", _plain(topic), [view.name for view in drive(admin.topics())])
    columns = ["name", "subscription", *_BACKLOG, "durable", "active"]
    _show_places(CliState.of(context), "subscriptions", views, columns)


@app.command("entries")
def entries(
    context: typer.Context,
    destination: str = PLACE_ARGUMENT,
    subscription: str | None = SUBSCRIPTION_OPTION,
    limit: int = LIMIT_OPTION,
    provider: str | None = PROVIDER_OPTION,
) -> None:
    """List the messages at a place, in the order of delivery. "client" is the consumer that handles one."""
    with opened_admin(provider) as admin:
        rows = [asdict(entry) for entry in drive(admin.entries(destination, subscription, limit=limit))]
    columns = ["id", "uuid", "type", "priority", "delivery_count", "due", "size", "client", "alive"]
    CliState.of(context).show("entries", columns, rows, none="nothing waits there")


@app.command("show")
def show(
    context: typer.Context,
    number: int = typer.Argument(help="The number of the message."),
    provider: str | None = PROVIDER_OPTION,
) -> None:
    """Show a whole message, and where it waits, as JSON."""
    with opened_admin(provider) as admin:
        message = drive(admin.message(number))
    places = [asdict(view) for view in message.places]
    CliState.of(context).document({"id": message.id, "places": places, "message": whole(message.message)})


@app.command("move")
def move(
    context: typer.Context,
    destination: str = PLACE_ARGUMENT,
    target: str = typer.Argument(help="The destination. A plain name that is unknown becomes a new queue."),
    numbers: list[int] | None = SOME_ARGUMENT,
    every: bool = ALL_OPTION,
    subscription: str | None = SUBSCRIPTION_OPTION,
    force: bool = FORCE_OPTION,
    provider: str | None = PROVIDER_OPTION,
) -> None:
    """Move messages to another destination in one transaction. They keep their JMSMessageIDs and uuids."""
    with opened_admin(provider) as admin:
        some = chosen(numbers, every=every)
        moved = drive(admin.move(destination, target, some, subscription=subscription, force=force))
    show_changed(CliState.of(context), "moved", moved)


@app.command("copy")
def copy(
    context: typer.Context,
    destination: str = PLACE_ARGUMENT,
    target: str = typer.Argument(help="The destination. A plain name that is unknown becomes a new queue."),
    numbers: list[int] | None = SOME_ARGUMENT,
    every: bool = ALL_OPTION,
    subscription: str | None = SUBSCRIPTION_OPTION,
    provider: str | None = PROVIDER_OPTION,
) -> None:
    """Copy messages to another destination, with the same uuids. A trigger runs one of the two copies."""
    with opened_admin(provider) as admin:
        some = chosen(numbers, every=every)
        copied = drive(admin.move(destination, target, some, subscription=subscription, keep=True))
    show_changed(CliState.of(context), "copied", copied)


@app.command("requeue")
def requeue(
    context: typer.Context,
    destination: str = PLACE_ARGUMENT,
    numbers: list[int] | None = SOME_ARGUMENT,
    every: bool = ALL_OPTION,
    to: str | None = typer.Option(
        None, "--to", help="Another destination. Required if a message does not say where it came from."
    ),
    subscription: str | None = SUBSCRIPTION_OPTION,
    force: bool = FORCE_OPTION,
    provider: str | None = PROVIDER_OPTION,
) -> None:
    """Send given-up messages back to where they came from, such as from a failure or dead-letter queue."""
    with opened_admin(provider) as admin:
        some = chosen(numbers, every=every)
        back = drive(admin.requeue(destination, some, target=to, subscription=subscription, force=force))
    show_changed(CliState.of(context), "requeued", back)


@app.command("delete")
def delete(
    context: typer.Context,
    destination: str = PLACE_ARGUMENT,
    numbers: list[int] = IDS_ARGUMENT,
    subscription: str | None = SUBSCRIPTION_OPTION,
    force: bool = FORCE_OPTION,
    yes: bool = YES_OPTION,
    provider: str | None = PROVIDER_OPTION,
) -> None:
    """Delete messages permanently."""
    with opened_admin(provider) as admin:
        confirm(f"Delete for good from {destination}: {', '.join(map(str, numbers))}?", yes=yes)
        gone = drive(admin.delete(destination, numbers, subscription=subscription, force=force))
    show_changed(CliState.of(context), "deleted", gone)


@app.command("purge")
def purge(
    context: typer.Context,
    destination: str = PLACE_ARGUMENT,
    subscription: str | None = SUBSCRIPTION_OPTION,
    force: bool = FORCE_OPTION,
    yes: bool = YES_OPTION,
    provider: str | None = PROVIDER_OPTION,
) -> None:
    """Delete all messages of a place permanently."""
    with opened_admin(provider) as admin:
        confirm(f"Delete for good all messages of {destination}?", yes=yes)
        gone = drive(admin.delete(destination, subscription=subscription, force=force))
    show_changed(CliState.of(context), "deleted", gone)


@app.command("release")
def release(
    context: typer.Context,
    destination: str = PLACE_ARGUMENT,
    numbers: list[int] | None = SOME_ARGUMENT,
    every: bool = ALL_OPTION,
    subscription: str | None = SUBSCRIPTION_OPTION,
    provider: str | None = PROVIDER_OPTION,
) -> None:
    """Make delayed messages of a place due now. For messages in limbo, use "limbo release"."""
    with opened_admin(provider) as admin:
        some = chosen(numbers, every=every)
        due = drive(admin.release_now(destination, some, subscription=subscription))
    show_changed(CliState.of(context), "released", due)


@app.command("reset")
def reset(
    context: typer.Context,
    client: str = typer.Argument(help='The name of the client, as "sqljms clients" shows it.'),
    forget: bool = typer.Option(False, "--forget", help="Forget the client as well."),
    force: bool = FORCE_OPTION,
    yes: bool = YES_OPTION,
    provider: str | None = PROVIDER_OPTION,
) -> None:
    """Give back all messages that a client holds. If the client is running, this needs --force."""
    with opened_admin(provider) as admin:
        confirm(f"Give to others what {client} holds?", yes=yes)
        if forget:
            drive(admin.forget(client, force=force))
        else:
            drive(admin.reset(client, force=force))
    document = {"client": client, "forgotten": forget}
    CliState.of(context).report(document, f"{client}: what it held is free")


@app.command("unsubscribe")
def unsubscribe(
    context: typer.Context,
    topic: str = typer.Argument(help="The topic."),
    subscription: str = typer.Argument(help="The name of the subscription; - means the one without a name."),
    yes: bool = YES_OPTION,
    provider: str | None = PROVIDER_OPTION,
) -> None:
    """End a subscription that no consumer is attached to, and delete all messages that it has not read."""
    with opened_admin(provider) as admin:
        confirm(f"End {subscription} of {topic}, and delete what it has not read?", yes=yes)
        drive(admin.unsubscribe(topic, subscription))
    document = {"topic": topic, "subscription": subscription}
    CliState.of(context).report(document, f"{subscription} has ended")


@app.command("drop")
def drop(
    context: typer.Context,
    destination: str = PLACE_ARGUMENT,
    force: bool = FORCE_OPTION,
    yes: bool = YES_OPTION,
    provider: str | None = PROVIDER_OPTION,
) -> None:
    """Delete a queue or topic and all its messages permanently."""
    with opened_admin(provider) as admin:
        confirm(f"Delete {destination}, and all that waits there?", yes=yes)
        drive(admin.drop(destination, force=force))
    CliState.of(context).report({"dropped": destination}, f"{destination} is gone")


def _plain(topic: str) -> str:
    """Return the name of a topic without topic://."""
    from triggers.providers.sqljms.destinations import Destination  # noqa: PLC0415  (loads a driver)

    return Destination.parse(topic).name


def _show_places(state: CliState, title: str, views: Sequence["SourceView"], columns: Sequence[str]) -> None:
    rows = [asdict(view) | {"oldest": _seconds(view.oldest)} for view in views]
    state.show(title, columns, rows)


def _seconds(duration: timedelta | None) -> float | None:
    return None if duration is None else round(duration.total_seconds(), 1)
