"""The commands and keys that a consumer and a sender use in Redis, to check their account's permissions."""

from history.redis.assembly import script_names
from history.redis.connection.permissions import Use, commands_of
from triggers.providers.redis_streams.link import script
from triggers.providers.redis_streams.settings import StreamKeys, beside, later_of

_PACKAGE = "triggers.providers.redis_streams"

#: Scripts that no consumer runs: of Spark, of the dashboard, and of "doubtless redis".
_OF_OTHERS = frozenset({"hold", "steps", "subscriptions", "unsubscribe"})

#: Commands that are sent without a script.
_RECEIVING = {"EVALSHA", "XACK", "XADD", "XPENDING", "XREADGROUP"}
_SENDING = {"XADD", "ZADD"}
_WAITING = {"PUBLISH", "WAIT"}


def use_of(destination: str, subscription: str | None, *, waits: bool) -> Use:
    """Return what receiving for a subscription needs, or sending if that is None.

    ``waits`` says whether sending waits for replicas.
    """
    patterns = [f"~{destination}", f"~{beside(destination, '*')}"]
    if subscription is None:
        commands, keys = set(_SENDING), [destination, later_of(destination)]
        if waits:
            commands |= _WAITING
            patterns.append("&doubtless:*")
        return Use(f"send to {destination}", sorted(commands), keys, patterns)
    scripts = [script(name).text for name in script_names(_PACKAGE) if name not in _OF_OTHERS]
    keys = list(StreamKeys(destination, subscription, "doctor").scripted)
    return Use(f"receive from {destination}", sorted({*commands_of(*scripts), *_RECEIVING}), keys, patterns)
