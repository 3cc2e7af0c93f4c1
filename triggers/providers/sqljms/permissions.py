"""The statements of consumers and senders in PostgreSQL, to check the privileges of their role."""

from collections.abc import Sequence

from history.sql.database.engine import AnyConnection
from history.sql.database.permissions import needs_of, refusals_of, statements_of
from history.sql.statements.dialects import Dialect
from history.store.inspection import Refusal
from triggers.providers.sqljms import destinations, statements, tables
from triggers.providers.sqljms.link import RESERVE, SqlLink
from triggers.providers.sqljms.receiving import client_statements, pinning
from triggers.providers.sqljms.sending import statements as sending

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


async def refusals_in(link: SqlLink, destination: str, *, receives: bool) -> Sequence[Refusal]:
    """Return what the role may not do; see :class:`~triggers.providers.provider.TellingPermissions`."""
    if link.dialect is Dialect.SQLITE:
        return []
    doing = f"receive from {destination}" if receives else f"send to {destination}"
    needs = {doing: needs_of(_RECEIVING if receives else _SENDING, "dms_")}

    async def ask(connection: AnyConnection) -> Sequence[Refusal]:
        return await refusals_of(connection, needs)

    return await link.ask("asking what its role may do", ask)
