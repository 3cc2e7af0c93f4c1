"""Records of the security log about requests: user, address, and result."""

from typing import Any

from starlette.requests import HTTPConnection

from history.beside.security import SecurityEvent, SecurityOutcome, SecurityRecord
from triggers.dashboard.access.sessions import Session


def address_of(connection: HTTPConnection) -> str | None:
    """Return the address that a request comes from: behind a proxy, the proxy's."""
    return None if connection.client is None else connection.client.host


def record_of(
    event: SecurityEvent,
    outcome: SecurityOutcome,
    connection: HTTPConnection,
    session: Session | None = None,
    **facts: Any,
) -> SecurityRecord:
    """Return the record of a request, with the user if somebody has signed in."""
    who = {} if session is None else {"user": session.user, "role": session.role.word}
    return SecurityRecord(event=event, outcome=outcome, source=address_of(connection), **who, **facts)


def denial_of(connection: HTTPConnection, why: str, *, page: str | None = None) -> SecurityRecord:
    """Return the record of a refused request. ``page`` is the path of a page of ours.

    It contains nothing else of the request: a stranger chooses its address.
    """
    return record_of(SecurityEvent.ACCESS, SecurityOutcome.DENIED, connection, why=why, page=page)


def end_of(session: Session, why: str) -> SecurityRecord:
    """Return the record of a session that has ended."""
    return SecurityRecord(
        event=SecurityEvent.SESSION_END,
        outcome=SecurityOutcome.ALLOWED,
        why=why,
        user=session.user,
        role=session.role.word,
        source=session.address,
    )
