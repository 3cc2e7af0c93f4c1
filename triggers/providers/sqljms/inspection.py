"""What commands ask about a database: the backlogs of its queues, and the privileges that a role needs."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from history.sql.database.engine import AnyConnection, fetch
from history.sql.database.permissions import needs_of, refusals_of, statements_of
from history.sql.statements.dialects import Dialect
from history.sql.tables.making import table_exists
from history.store.inspection import Refusal
from triggers.providers.backlog import Backlog, Place
from triggers.providers.sqljms import destinations, statements, tables
from triggers.providers.sqljms.admin.admin import Admin
from triggers.providers.sqljms.admin.views import SourceView
from triggers.providers.sqljms.destinations import NOBODY, Destination, DestinationKind
from triggers.providers.sqljms.limbo.statements import HOW_MANY
from triggers.providers.sqljms.limbo.tables import LIMBO_STATE
from triggers.providers.sqljms.link import RESERVE, SqlLink
from triggers.providers.sqljms.receiving import client_statements, pinning
from triggers.providers.sqljms.sending import statements as sending

#: The name of the limbo among destinations.
LIMBO = "limbo"

#: Kind, name and subscription of a view.
_Key = tuple[str, str, str | None]

#: Both find, or make, destinations, and take numbers.
_BOTH = [*statements_of(destinations), *statements_of(tables), RESERVE]

_SENDING = [*_BOTH, *statements_of(sending)]

#: A receiver also sends: its dead letters.
_RECEIVING = [
    *_SENDING,
    *statements_of(statements),
    *statements_of(client_statements),
    *statements_of(pinning),
]


async def backlogs_of(link: SqlLink, places: Sequence[Place]) -> Sequence[Backlog]:
    """Return the backlogs of these places, in order, then of all others and of limbo; raises as ``link``."""
    admin = Admin(link)
    views = [*await admin.queues(), *await admin.subscriptions()]
    by_key: dict[_Key, SourceView] = {(view.kind, view.name, view.subscription): view for view in views}
    keys = [_key(pair, by_key) for pair in places]
    backlogs = [_backlog(*pair, key, by_key.get(key)) for pair, key in zip(places, keys, strict=True)]
    others = sorted(by_key.keys() - set(keys), key=str)
    backlogs += [_backlog(f"{key[0]}://{key[1]}", key[2], key, by_key[key]) for key in others]
    limbo = await admin.run("counting what is in limbo", _in_limbo)
    return backlogs if limbo is None else [*backlogs, Backlog(destination=LIMBO, waiting=0, later=limbo)]


async def _in_limbo(connection: AnyConnection) -> int | None:
    """Return how many messages wait in limbo; None if the database has none."""
    if not await table_exists(connection, LIMBO_STATE):
        return None
    ((count,),) = await fetch(connection, HOW_MANY, input=None)
    return int(count)


def _key(pair: Place, views: Mapping[_Key, SourceView]) -> _Key:
    """Return where messages wait for a place: for a new subscription, at the subscription of nobody."""
    destination = Destination.parse(pair[0])
    destination_kind, name = destination.kind.value, destination.name
    if destination.kind is DestinationKind.QUEUE:
        return destination_kind, name, None
    own, nobodys = (destination_kind, name, pair[1]), (destination_kind, name, NOBODY)
    return nobodys if destination.retains and own not in views and nobodys in views else own


def _backlog(name: str, subscription: str | None, key: _Key, view: SourceView | None) -> Backlog:
    subscription = None if key[2] is None else subscription
    if view is None:
        return Backlog(destination=name, subscription=subscription)
    return Backlog(
        destination=name,
        subscription=subscription,
        waiting=max(0, view.messages - view.held - view.later),
        held=view.held,
        later=view.later,
        consumers=view.consumers,
        oldest=None if view.oldest is None else datetime.now(UTC) - view.oldest,
    )


async def refusals_in(link: SqlLink, destination: str, *, receives: bool) -> Sequence[Refusal]:
    """Return what the role may not do; see :class:`~triggers.providers.provider.TellingPermissions`."""
    if link.dialect is Dialect.SQLITE:
        return []
    doing = f"receive from {destination}" if receives else f"send to {destination}"
    needs = {doing: needs_of(_RECEIVING if receives else _SENDING, "dms_")}

    async def ask(connection: AnyConnection) -> Sequence[Refusal]:
        return await refusals_of(connection, needs)

    return await link.ask("asking what its role may do", ask)
