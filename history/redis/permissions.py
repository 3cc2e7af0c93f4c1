"""The Redis commands and keys of each use of a history, to check the account's permissions."""

from collections.abc import Collection, Mapping, Sequence

from history.beside.charts import CHARTS
from history.beside.comments import ASSIGNED, COMMENTS
from history.beside.control import REPORTS
from history.beside.filters import FILTERS
from history.beside.firsts import FIRSTS
from history.beside.joining import DUE, PARTS, PERIODS
from history.beside.parking import DECISIONS, LABELS, MESSAGES, UUIDS
from history.beside.security import SECURITY
from history.redis.assembly import DEFAULT_PACKAGE, script_names
from history.redis.connection.client import TRIGGERS_KEY, RedisClient, keys_of
from history.redis.connection.permissions import Use, commands_of, refusals_of
from history.redis.scripts import text_of
from history.store.inspection import Capability, Refusal
from history.store.records import NO_TRIGGER

#: Scripts, by the beginnings of their names; all other scripts are for messages.
_SCRIPTS: Mapping[Capability, tuple[str, ...]] = {
    Capability.PARKING: ("records/apply", "records/settle"),
    Capability.CONTROL: ("records/apply", "records/view"),
    Capability.UPKEEP: ("entries/pack", "entries/purge"),
    Capability.JOINING: ("records/apply", "records/settle"),
    Capability.RESULTS: ("records/apply",),
    Capability.FINGERPRINTS: ("records/apply",),
    Capability.CHARTS: ("records/apply",),
    Capability.DESK: ("records/apply",),
    Capability.BATCHES: (
        "entries/adopt",
        "entries/claim_batch",
        "entries/renew_batch",
        "entries/settle_batches",
        "records/apply",
        "records/forget",
    ),
    Capability.LOOKING: ("entries/forget", "entries/scan", "entries/stats"),
}

#: Commands that are sent without a script.
_COMMANDS: Mapping[Capability, tuple[str, ...]] = {
    Capability.MESSAGES: ("HGET", "SADD"),
    Capability.PARKING: (
        *("HLEN", "HMGET", "MGET", "SADD", "SSCAN"),
        *("XADD", "XREVRANGE", "ZREVRANGEBYLEX"),
    ),
    Capability.JOURNAL: ("XADD", "XREVRANGE"),
    Capability.SECURITY: ("XADD", "XREVRANGE", "XTRIM"),
    Capability.CONTROL: ("HMGET", "MGET", "ZREVRANGEBYLEX"),
    Capability.JOINING: ("HMGET", "MGET", "ZREVRANGEBYLEX"),
    Capability.RESULTS: ("MGET",),
    Capability.BATCHES: ("HMGET", "ZREVRANGEBYLEX"),
    Capability.CHARTS: ("HMGET", "ZREVRANGEBYLEX"),
    Capability.DESK: ("HMGET", "MGET", "XADD", "XREVRANGE", "ZREVRANGEBYLEX"),
    Capability.LOOKING: ("SSCAN",),
}

#: Uses that wait for replicas, if the user wants that.
_WAITING = frozenset(Capability) - {
    Capability.CONTROL,
    Capability.JOURNAL,
    Capability.SECURITY,
    Capability.LOOKING,
}

#: A trigger's keys, without its prefix.
_KEYS: Mapping[Capability, tuple[str, ...]] = {
    Capability.PARKING: (
        f"{MESSAGES.name}:{'0' * 48}",
        *(f"{kind.name}{part}" for kind in (LABELS, UUIDS) for part in ("", ":keys", ":times")),
        DECISIONS.name,
    ),
    Capability.JOURNAL: ("journal",),
    Capability.JOINING: (
        *("history", "history:origin", DUE.name, f"{DUE.name}:keys", f"{DUE.name}:times"),
        *(f"{kind.name}:{'0' * 32}" for kind in (PERIODS, PARTS, FIRSTS)),
    ),
    Capability.RESULTS: (f"result:{'0' * 32}", f"failure:{'0' * 32}"),
    Capability.FINGERPRINTS: (f"fingerprint:{'0' * 32}",),
    Capability.CHARTS: (CHARTS.name, f"{CHARTS.name}:keys", f"{CHARTS.name}:times"),
    Capability.DESK: (COMMENTS.name, f"{ASSIGNED.name}:{'0' * 32}"),
}


async def refusals_in(
    client: RedisClient, trigger: str, capabilities: Collection[Capability]
) -> Sequence[Refusal]:
    """Return what the account may not do; see :class:`~history.store.inspection.TellingRefusals`."""
    uses = [use_of(client, trigger, one) for one in Capability if one in capabilities]
    return await client.call("asking what its account may do", lambda: refusals_of(client.client, uses))


def use_of(client: RedisClient, trigger: str, capability: Capability) -> Use:
    """Return the commands and keys that a use of a trigger's history needs."""
    scripts = _scripts_of(capability)
    commands = {*commands_of(*map(text_of, scripts)), *_COMMANDS.get(capability, ())}
    if scripts:
        commands.add("EVALSHA")
    keys, patterns = keys_of(trigger, *_KEYS.get(capability, ("history", "history:origin"))), ["~doubtless:*"]
    if capability is Capability.CONTROL:
        keys = keys_of(NO_TRIGGER, REPORTS.name)
    if capability is Capability.SECURITY:
        keys = keys_of(NO_TRIGGER, SECURITY.name)
    if capability is Capability.DESK:
        keys += keys_of(NO_TRIGGER, FILTERS.name, f"{FILTERS.name}:keys", f"{FILTERS.name}:times")
    if "SADD" in commands:
        keys.append(TRIGGERS_KEY)
    if client.durability is not None and capability in _WAITING:
        commands |= {"PUBLISH", "WAIT"}
        patterns.append("&doubtless:*")
    return Use(capability, sorted(commands), keys, patterns)


def _scripts_of(capability: Capability) -> Sequence[str]:
    names = script_names(DEFAULT_PACKAGE)
    if capability is Capability.MESSAGES:
        others = tuple(name for names in _SCRIPTS.values() for name in names)
        return [name for name in names if not name.startswith(others)]
    return [name for name in names if name.startswith(_SCRIPTS.get(capability, ()))]
