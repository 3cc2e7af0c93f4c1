"""Doctor's checks of a provider: only queries; nothing is received, sent or made."""

from collections.abc import Iterator, Sequence
from functools import partial
from time import perf_counter

from history.bridge import drive
from history.support.references import dereferenced
from triggers.cli.checks.findings import Away, Check, CheckFinding, Level, of_refusals
from triggers.cli.checks.lines import of_line
from triggers.cli.checks.rooms import Rooms
from triggers.cli.checks.stores import milliseconds_since
from triggers.cli.shared.embedded import FILE, URL, can_be_made
from triggers.cli.shared.options import connected
from triggers.consumer.options import AnyTrigger
from triggers.providers.provider import (
    Answering,
    Bounded,
    DeliveryLimit,
    GivingUp,
    TellingPermissions,
    capabilities_of,
)


def of_provider(
    away: Away, url: str | None, triggers: Sequence[AnyTrigger], rooms: Rooms
) -> Iterator[CheckFinding]:
    """Check the provider of a consumer of these triggers."""
    of = "provider"
    if url is None and not FILE.exists():
        if not can_be_made():
            problem = f"none is named, and {FILE} cannot be made: this user may not write in this folder"
            yield CheckFinding(of, Level.PROBLEM, problem, "name one, or start in a folder of yours")
            return
        yield CheckFinding(of, Level.OK, f"none is named: messages will be in {FILE}, in this folder")
        return
    yield from away.looked(of, [partial(_of_url, away, of, url or URL, triggers, rooms)])


def _of_url(
    away: Away, of: str, url: str, triggers: Sequence[AnyTrigger], rooms: Rooms
) -> Iterator[CheckFinding]:
    with connected(url) as provider:
        receivers = sum(
            trigger.settings.concurrency * len(trigger.settings.destinations) for trigger in triggers
        )
        can = capabilities_of(provider)
        checks: list[Check] = [
            partial(_room, of, can.bounded, receivers),
            *(partial(_limits, can.giving_up, trigger) for trigger in triggers),
            *(partial(_permissions, of, can.telling_permissions, trigger) for trigger in triggers),
            partial(rooms.noted, provider, of, receivers),
        ]
        yield from of_line(of, dereferenced(url, "--provider"))
        yield from away.looked(
            of, [partial(_answers, of, can.answering), *checks], dereferenced(url, "--provider")
        )


def _answers(of: str, provider: Answering | None) -> Iterator[CheckFinding]:
    if provider is None:
        yield CheckFinding(of, Level.OK, "it was not asked: it cannot be without receiving")
        return
    begun = perf_counter()
    drive(provider.ping())
    yield CheckFinding(of, Level.OK, f"it answers, in {milliseconds_since(begun)}")


def _room(of: str, provider: Bounded | None, receivers: int) -> Iterator[CheckFinding]:
    if provider is not None:
        drive(provider.check_room(receivers))
        some = "the receiver" if receivers == 1 else f"the {receivers} receivers"
        yield CheckFinding(of, Level.OK, f"it has room for {some} of a consumer")


def _permissions(of: str, provider: TellingPermissions | None, trigger: AnyTrigger) -> Iterator[CheckFinding]:
    """Query what the account may not do for a trigger."""
    if provider is None:
        return
    for destination in trigger.settings.destinations:
        ask = partial(provider.refusals, destination, trigger.settings.name)
        yield from of_refusals(of, ask, f"receive from {destination}")


def _limits(provider: GivingUp | None, trigger: AnyTrigger) -> Iterator[CheckFinding]:
    """Check whether the provider gives a message up before the trigger does, which parks it."""
    if provider is None:
        return
    for destination in trigger.settings.destinations:
        limit = drive(provider.delivery_limit(destination, trigger.settings.name))
        if limit is not None:
            yield from _of_limit(trigger, destination, limit)


def _of_limit(trigger: AnyTrigger, destination: str, limit: DeliveryLimit) -> Iterator[CheckFinding]:
    of, most = f"trigger {trigger.name}", trigger.settings.policy.max_delivery_count
    if limit.deliveries is not None and limit.deliveries <= most:
        yield CheckFinding(
            of,
            Level.PROBLEM,
            f"the provider gives a message of {destination} up after {limit.deliveries} deliveries, before "
            f"max_delivery_count ({most}): it is not parked, and raises no event; {limit.then}",
            f"set max_delivery_count to {limit.deliveries - 1} or less, or raise the provider's limit",
        )
        return
    if limit.deliveries is not None:
        yield CheckFinding(
            of,
            Level.OK,
            f"it gives a message of {destination} up after {most} deliveries, before the provider does "
            f"after {limit.deliveries}",
        )
    if limit.unseen:
        yield CheckFinding(
            of,
            Level.OK if limit.is_kept else Level.WARNING,
            f"whether the provider gives a message of {destination} up before {most} deliveries cannot be "
            f"seen from here: {limit.unseen}",
            f"look at the broker: max_delivery_count ({most}) must be below its limit",
        )
