"""The statements on clients, and on what ends with them."""

from history.sql.statements.dialects import Dialect, statement
from triggers.providers.sqljms.statements import COMMON, for_each_kind

# A client by its name, and whether it is alive. Nobody else may take it meanwhile.
_FIND = """SELECT client_id, incarnation, place_id, lease_until > {now} AS alive FROM dms_client
    WHERE client_name = :name"""
FIND = statement(sqlite=_FIND, postgresql=_FIND + " FOR UPDATE")

# Add a client.
ADD = statement(
    "INSERT INTO dms_client (client_name, client_id) VALUES (:name, :client) ON CONFLICT DO NOTHING"
)

# Begin a life, for so long.
LIVE = statement(
    "UPDATE dms_client SET incarnation = :incarnation, lease_until = {now} + :lease, place_id = :place"
    " WHERE client_id = :client"
)

# Renew a life; nothing happens if another incarnation has the name, the reaper came, or an operator deleted
# the queue or the subscription.
RENEW = statement(
    "UPDATE dms_client SET lease_until = {now} + :lease"
    " WHERE client_id = :client AND incarnation = :incarnation"
    " AND (EXISTS (SELECT 1 FROM dms_queue WHERE queue_id = place_id)"
    " OR EXISTS (SELECT 1 FROM dms_topic_sub WHERE subscriber_id = place_id)) RETURNING client_id"
)

# Leave for good.
LEAVE = statement(
    "DELETE FROM dms_client WHERE client_id = :client AND incarnation = :incarnation RETURNING client_id"
)

# Clients with an ended lease; on PostgreSQL one reaper at a time has each.
_DEAD = "SELECT client_id FROM dms_client WHERE lease_until < {now} AND incarnation IS NOT NULL"
REAP = statement(
    "UPDATE dms_client SET incarnation = NULL WHERE client_id {dead} RETURNING client_id, place_id",
    words={
        "dead": {
            Dialect.SQLITE: f"IN ({_DEAD})",
            Dialect.POSTGRESQL: f"= ANY (ARRAY({_DEAD} FOR UPDATE SKIP LOCKED))",
        }
    },
)

# Whether there is anything to reap, without a lock.
ANY_DEAD = statement(_DEAD + " LIMIT 1")

# Forget clients that have been silent for too long.
FORGET = statement("DELETE FROM dms_client WHERE incarnation IS NULL AND lease_until < {now} - :afterlife")

# The receivers of a queue.
ADD_RECEIVER = statement(
    "INSERT INTO dms_queue_recv (client_id, receiver_id, queue_id) VALUES (:client, :client, :queue)"
    " ON CONFLICT DO NOTHING"
)
REMOVE_RECEIVERS = statement("DELETE FROM dms_queue_recv WHERE client_id {among clients}", words=COMMON)

# The subscription of a client's place, if it is one.
SUBSCRIPTION = statement(
    sqlite="SELECT durable FROM dms_topic_sub WHERE subscriber_id = :place",
    postgresql="SELECT durable FROM dms_topic_sub WHERE subscriber_id = :place FOR UPDATE",
)

# Expired messages, for any reader.
EXPIRED = statement(
    "SELECT msg_id FROM dms_msg WHERE expiration <> 0 AND expiration <= {now} ORDER BY expiration LIMIT 1000"
)
DELETE_EXPIRED = for_each_kind(
    "DELETE FROM {entry} WHERE read_state = 0 AND msg_id {among ids} RETURNING msg_id"
)

# Whether another client is alive there.
SHARED = statement("SELECT 1 FROM dms_client WHERE place_id = :place AND incarnation IS NOT NULL LIMIT 1")

# A subscription by the names.
NAMED = statement(
    "SELECT s.subscriber_id FROM dms_topic_sub AS s JOIN dms_topic AS t ON t.topic_id = s.topic_id"
    " WHERE t.topic_name = :topic AND s.subscriber_name = :name"
)

# Mark a subscription: nobody is attached any more.
DETACH = statement("UPDATE dms_topic_sub SET active = 0 WHERE subscriber_id = :place")

# Delete all entries of a place.
EMPTY = for_each_kind("DELETE FROM {entry} WHERE {place} = :place RETURNING msg_id")

# End a subscription.
UNSUBSCRIBE = statement("DELETE FROM dms_topic_sub WHERE subscriber_id = :place")

# The temporary destinations of clients.
TEMPORARY_QUEUES = statement("SELECT queue_id FROM dms_queue WHERE temp_id {among clients}", words=COMMON)
DROP_RECEIVERS = statement("DELETE FROM dms_queue_recv WHERE queue_id = :place")
DROP_QUEUE = statement("DELETE FROM dms_queue WHERE queue_id = :place")
