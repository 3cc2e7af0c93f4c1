"""The statements on ``sysremoteuser``; an agent's writes compare the token with which it took the link."""

from collections.abc import Mapping
from typing import Final

from history.sql.statements.dialects import Statement, statement

#: The columns of the publisher's half, by the names of :class:`~history.store.watermark.Outgoing`.
OUTGOING: Final = {
    "epoch": "doubtless_epoch",
    "log_send": "log_send",
    "log_sent": "log_sent",
    "confirm_sent": "confirm_sent",
    "send_count": "send_count",
    "resend_count": "resend_count",
    "time_sent": "time_sent",
    "message_size": "doubtless_message_size",
    "chain": "doubtless_sent_chain",
}

#: The columns of the subscriber's half, by the names of :class:`~history.store.watermark.Incoming`.
INCOMING: Final = {
    "epoch": "doubtless_peer_epoch",
    "log_received": "log_received",
    "confirm_received": "confirm_received",
    "receive_count": "receive_count",
    "rereceive_count": "rereceive_count",
    "time_received": "time_received",
    "chain": "doubtless_received_chain",
}


def _save(columns: Mapping[str, str], more: str = "", unless: str = "") -> Statement:
    sets = ", ".join(f"{column} = :{name}" for name, column in columns.items())
    return statement(
        f"UPDATE sysremoteuser SET {sets}{more} "  # noqa: S608  (names of columns)
        f"WHERE doubtless_link = :link AND doubtless_agent = :agent{unless} RETURNING user_id"
    )


# Store the publisher's half, if the agent still has the link.
SAVE_OUTGOING = _save(OUTGOING)

# Store the subscriber's half in the same way. An agent that does not know what was applied must not undo it.
SAVE_INCOMING = _save(INCOMING, unless=" AND log_received = :log_received")

# Store the subscriber's half with the work that it counts; the watermark only rises.
SAVE_APPLIED = _save(
    INCOMING,
    ", doubtless_received_digest = :digest, doubtless_failed = NULL, "
    "doubtless_skipped = doubtless_skipped + :skipped",
    unless=" AND log_received < :log_received",
)

# Note which transaction failed, so that it is given up when it comes again.
SAVE_FAILED = statement(
    "UPDATE sysremoteuser SET doubtless_failed = :offset "
    "WHERE doubtless_link = :link AND doubtless_agent = :agent RETURNING user_id"
)

READ = statement("SELECT * FROM sysremoteuser WHERE doubtless_link = :link")

# Nobody else moves the row until this transaction ends; on SQLite, BEGIN IMMEDIATE does this already.
LOCK = statement(
    sqlite="SELECT * FROM sysremoteuser WHERE doubtless_link = :link",
    postgresql="SELECT * FROM sysremoteuser WHERE doubtless_link = :link FOR UPDATE",
)

#: In place of a link's name: work that triggers must not capture. No link has a colon in its name.
NOT_CAPTURED: Final = ":"

# Say to the triggers that capture changes from which link the work of this transaction came; NULL: from none.
# PostgreSQL forgets this at the end of the transaction.
MARK = statement(
    sqlite="UPDATE doubtless_link_work SET number = number + 1, origin = :origin WHERE id = 1",
    postgresql="SELECT set_config('doubtless.origin', COALESCE(CAST(:origin AS TEXT), ''), TRUE)",
)

# LOCK and MARK in one round trip.
LOCK_AND_MARK = statement(
    sqlite="SELECT * FROM sysremoteuser WHERE doubtless_link = :link",
    postgresql="SELECT *, set_config('doubtless.origin', CAST(:link AS TEXT), TRUE) "
    "FROM sysremoteuser WHERE doubtless_link = :link FOR UPDATE",
)

READ_ALL = statement("SELECT * FROM sysremoteuser ORDER BY user_id")

ADD = statement(
    """INSERT INTO sysremoteuser (
        consolidate, type_id, address, frequency, send_time, log_send, log_sent, confirm_sent, send_count,
        resend_count, log_received, receive_count, rereceive_count, doubtless_link, doubtless_publication,
        doubtless_epoch, doubtless_peer_epoch, doubtless_skipped, doubtless_subscription
    ) VALUES (
        :consolidate, :type_id, :address, :frequency, :send_time, :start, :start, :start, 0,
        0, 0, 0, 0, :link, :publication, :epoch, :peer_epoch, 0, :subscription
    ) ON CONFLICT (doubtless_link) DO UPDATE SET
        consolidate = excluded.consolidate, type_id = excluded.type_id, address = excluded.address,
        frequency = excluded.frequency, send_time = excluded.send_time,
        doubtless_subscription = excluded.doubtless_subscription
    RETURNING *"""
)

# Take a link without an agent, or with one that expired, died here, or is the caller.
TAKE = statement(
    """UPDATE sysremoteuser SET doubtless_agent = :agent, doubtless_agent_until = {now} + :lease
    WHERE doubtless_link = :link AND (doubtless_agent IS NULL OR doubtless_agent_until < {now}
        OR doubtless_agent = :agent OR doubtless_agent = :dead)
    RETURNING *"""
)

# Stay the agent, and read what others wrote meanwhile.
STAY = statement(
    """UPDATE sysremoteuser SET doubtless_agent_until = {now} + :lease
    WHERE doubtless_link = :link AND doubtless_agent = :agent RETURNING *"""
)

LEAVE = statement(
    "UPDATE sysremoteuser SET doubtless_agent = NULL "
    "WHERE doubtless_link = :link AND doubtless_agent = :agent"
)

# Stop the link for a reason, or (NULL) let it go on.
STOP = statement("UPDATE sysremoteuser SET doubtless_stopped = :reason WHERE doubtless_link = :link")

# Stop the link for one more reason, which comes first.
STOP_ALSO = statement(
    """UPDATE sysremoteuser SET doubtless_stopped = CASE
        WHEN doubtless_stopped IS NULL THEN :reason
        WHEN substr(doubtless_stopped, 1, length(:reason)) = :reason THEN doubtless_stopped
        ELSE :reason || '; ' || doubtless_stopped END
    WHERE doubtless_link = :link"""
)

# Note the rows that the peer of a link gets.
SUBSCRIBE = statement(
    "UPDATE sysremoteuser SET doubtless_subscription = :subscription WHERE doubtless_link = :link"
)

# Forget a link that no agent runs.
REVOKE = statement(
    """DELETE FROM sysremoteuser
    WHERE doubtless_link = :link AND (doubtless_agent IS NULL OR doubtless_agent_until < {now})
    RETURNING doubtless_link, address"""
)

# Note what a new link may not ignore.
NOTE_PAST = statement(
    "INSERT INTO doubtless_link_past (kind, name) VALUES (:kind, :name) ON CONFLICT DO NOTHING"
)

# Read which of these notes concern a new link.
READ_PAST = statement(
    """SELECT kind FROM doubtless_link_past WHERE (kind = 'publication' AND name = :publication)
    OR (kind = 'link' AND name = :link) OR (kind = 'address' AND name = :address)"""
)

# Write both halves, whoever runs the link; its agent notices the loss.
RESET = statement(
    "UPDATE sysremoteuser SET "  # noqa: S608  (names of columns)
    + ", ".join(f"{column} = :o_{name}" for name, column in OUTGOING.items())
    + ", "
    + ", ".join(f"{column} = :i_{name}" for name, column in INCOMING.items())
    + ", doubtless_agent = NULL, doubtless_stopped = NULL, doubtless_failed = NULL, "
    "doubtless_received_digest = NULL WHERE doubtless_link = :link"
)

_SUBSCRIPTION: Final = "(SELECT doubtless_subscription FROM sysremoteuser WHERE doubtless_link = :link)"

#: Which operations of the log a link's peer gets: not what came from it, nor rows of other subscribers.
FOR_LINK: Final = f"""(origin IS NULL OR origin <> :link) AND (subscriber IS NULL
        OR subscriber IN ('=' || {_SUBSCRIPTION}, '>' || {_SUBSCRIPTION})
        OR ({_SUBSCRIPTION} IS NULL AND substr(subscriber, 1, 1) <> '>'))"""

READ_END = statement("SELECT last_offset, deleted_to FROM doubtless_link_end WHERE id = 1")
