"""Doctor's checks of a store: a history, or a place for parked messages or a journal."""

from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from time import perf_counter
from typing import Protocol, runtime_checkable
from uuid import uuid4

from history.beside.kept import KeepsBeside, beside_of
from history.bridge import drive
from history.entry import Settlement
from history.message import Uuid
from history.store import HistoryStore
from history.store.inspection import Capability, TellingRefusals
from history.store.owners import owner_token
from triggers.cli.checks.findings import Away, Check, CheckFinding, Level, of_refusals
from triggers.service.settings import Settings

#: The difference between the clocks of this machine and of a history from which on it is a finding.
CLOCKS_APART = timedelta(seconds=5)

#: A history that takes longer for one call, in seconds, makes every message wait for it.
SLOW = 0.05

#: Permissions that no trigger needs of a history, but others with its account may.
OF_OTHERS: Mapping[str, str] = {
    Capability.BATCHES: "only Spark does that",
    Capability.CHARTS: "without it, only the dashboard's charts are missing",
    Capability.DESK: "only the dashboard and the commands of operators do that",
    Capability.SECURITY: "only the dashboard and the commands of operators do that",
    Capability.LOOKING: 'only "doubtless history" and the dashboard do that',
}


@runtime_checkable
class Remarking(Protocol):
    """A history that reports common settings with which it may lose something."""

    async def remarks(self) -> Sequence[str]:
        """Return a sentence for each of them, with the safer setting."""
        ...


def capabilities_of(settings: Settings) -> Sequence[Capability]:
    """Return the capabilities of its history that a trigger with these settings needs."""
    wanted = {
        Capability.MESSAGES: True,
        Capability.PARKING: settings.parking is None,
        Capability.CONTROL: True,
        Capability.UPKEEP: True,
        Capability.JOURNAL: settings.journal is True,
        Capability.JOINING: settings.join != "any",
        Capability.RESULTS: settings.keep is not None or settings.policy.transacted,
        Capability.FINGERPRINTS: settings.fingerprint is not None,
    }
    return [capability for capability, is_wanted in wanted.items() if is_wanted]


def of_history(
    away: Away, of: str, store: HistoryStore, settings: Settings, last: Check
) -> Iterator[CheckFinding]:
    """Check the history of a trigger; ``last`` is checked if it answers."""
    wanted, kept = capabilities_of(settings), beside_of(store)
    yield from away.looked(
        of,
        [
            partial(_warnings, of, store),
            partial(_remarks, of, store),
            partial(_uses, of, store, settings.name, wanted),
            last,
        ],
        None if kept is None else kept.control.address,
    )


def of_place(
    away: Away, of: str, store: KeepsBeside, trigger: str, capability: Capability, last: Check
) -> Iterator[CheckFinding]:
    """Check a store that is used only for one purpose; ``last`` is as in :func:`of_history`."""
    yield from away.looked(
        of,
        [partial(_warnings, of, store), partial(_permissions, of, store, trigger, [capability]), last],
        store.control.address,
    )


def _warnings(of: str, store: HistoryStore) -> Iterator[CheckFinding]:
    for warning in drive(store.check()):
        yield CheckFinding(of, Level.WARNING, warning, "change that setting, unless this is what you want")


def _remarks(of: str, store: HistoryStore) -> Iterator[CheckFinding]:
    if isinstance(store, Remarking):
        for remark in drive(store.remarks()):
            yield CheckFinding(of, Level.OK, remark)


def _permissions(
    of: str, store: HistoryStore, trigger: str, wanted: Sequence[Capability]
) -> Generator[CheckFinding, None, Collection[str]]:
    """Query what the account may not do, and return it; other users' needs are not this trigger's problem."""
    if not isinstance(store, TellingRefusals):
        return []
    others: Mapping[str, str] = OF_OTHERS if Capability.MESSAGES in wanted else {}
    ask = partial(store.refusals, trigger, [*wanted, *map(Capability, others)])
    return (yield from of_refusals(of, ask, ", ".join(wanted), others))


def _uses(of: str, store: HistoryStore, trigger: str, wanted: Sequence[Capability]) -> Iterator[CheckFinding]:
    refused = yield from _permissions(of, store, trigger, wanted)
    if Capability.MESSAGES not in refused:
        yield from _claims(of, trigger, store)


def _claims(of: str, name: str, store: HistoryStore) -> Iterator[CheckFinding]:
    """Claim a random uuid, read it, and release it: each message needs these calls; report their time."""
    uuid, owner = f"doctor-{uuid4()}", owner_token()
    begun = perf_counter()
    (claim,) = drive(store.claim(name, [uuid], owner, time_to_live=timedelta(minutes=1)))
    (entry,) = drive(store.lookup(name, [uuid]))
    asked_at = datetime.now(UTC)
    drive(store.settle(name, [Settlement(Uuid(uuid), claim.fence, None, owner)]))
    calls, seconds = 3, perf_counter() - begun
    slow = seconds / calls > SLOW
    yield CheckFinding(
        of,
        Level.WARNING if slow else Level.OK,
        f"it makes and releases claims, in {milliseconds_since(begun, calls)} a call",
        "every message waits for two calls: move it nearer, or use batch= or concurrency=" if slow else "",
    )
    apart = timedelta(0) if entry is None else abs(entry.read_at - asked_at)
    if apart > CLOCKS_APART:
        yield CheckFinding(
            of,
            Level.WARNING,
            f"its clock and this machine's are {apart.total_seconds():.0f} s apart",
            "let both follow one time server: JMSExpiration and forgotten= compare them",
        )


def milliseconds_since(begun: float, calls: int = 1) -> str:
    """Return the time of one of some calls since an instant of ``perf_counter``."""
    return f"{1000 * (perf_counter() - begun) / calls:.1f} ms"
