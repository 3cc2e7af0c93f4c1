"""The triggers: their consumers, counts and guarantees; and commands to their consumers."""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from starlette.responses import Response

from history.beside.security import SecurityEvent
from history.store.control import Counts, Verb
from triggers.configuration.hiding import shown
from triggers.consumer.options import AnyTrigger
from triggers.dashboard.access.roles import Role
from triggers.dashboard.pages.overview import charts_of, facts, last_survey
from triggers.dashboard.visit import Visit
from triggers.operations.guarantees import guarantee_of
from triggers.operations.journals import UnknownNameError
from triggers.operations.status import NO_CONSUMER, named_counts, order_and_wait, status_rows

#: How long a command waits for the consumers, in seconds.
WAIT = 3.0

#: The role for each command: a command that lasts beyond a restart needs a higher role.
ROLES = {
    Verb.SUSPEND: Role.OPERATOR,
    Verb.RESUME: Role.OPERATOR,
    Verb.DISABLE: Role.ADMIN,
    Verb.ENABLE: Role.ADMIN,
}


def triggers(visit: Visit) -> Response:
    """Show all triggers."""
    return visit.show("triggers.html", **facts(visit.operations))


def trigger(visit: Visit) -> Response:
    """Show one trigger."""
    name = visit.trigger("name") or ""
    pulse = visit.operations.pulse
    overview, source = pulse.known().overview, pulse.source_of(name)
    survey = last_survey(visit.operations)
    loaded = visit.operations.triggers.get(name)
    counts = overview.statistics.get(name)
    rows = list(status_rows(name, overview))
    return visit.show(
        "trigger.html",
        name=name,
        rows=rows,
        has_consumers=any(row["state"] != NO_CONSUMER for row in rows),
        stale=[source] if source.problem is not None else [],
        is_known=source.reading is not None,
        counts={} if source.reading is None else named_counts(counts or Counts()),
        size=(survey.sizes or {}).get(name),
        parked=visit.operations.parked(name, survey.counts()),
        unseen=visit.operations.unseen(name),
        forecast=visit.operations.forecast(name),
        charts=charts_of(visit.operations, [name]),
        waiting=visit.operations.places.waiting().get(name),
        guarantee=None if loaded is None else guarantee_of(loaded),
        settings=None if loaded is None else list(settings_of(loaded)),
        orders=[verb for verb, role in ROLES.items() if visit.session.role >= role],
    )


def order(visit: Visit) -> Response:
    """Send a command to the consumers of a trigger, and show which have obeyed."""
    name, word, reason = (
        visit.given("name") or "",
        visit.given("order"),
        (visit.given("reason") or "").strip(),
    )
    verb = next((verb for verb in ROLES if verb.value == word), None)
    if verb is None:
        raise UnknownNameError("order", "order", word or "", [verb.value for verb in ROLES])
    pulse = visit.operations.pulse
    names = [] if (reading := pulse.look()) is None else reading.triggers
    if name not in names:
        raise UnknownNameError("name", "trigger", name, names)
    if visit.session.role < ROLES[verb]:
        text = f"To {verb} a trigger needs the role {ROLES[verb].word}."
        visit.refused(f"this needs the role {ROLES[verb].word}", SecurityEvent(verb.value), trigger=name)
        return visit.problem(403, "Not allowed", text)
    if not reason:
        return visit.problem(422, "Not done", "Give a reason: the consumers show and log it.")
    by = f"{reason} ({visit.session.user})"
    with visit.recorded([visit.record_of(SecurityEvent(verb.value), trigger=name)]):
        rows = order_and_wait(pulse.store_of(name).control, verb, [name], by, WAIT)
    return visit.show("ordered.html", name=name, verb=verb, rows=rows)


def settings_of(trigger: AnyTrigger) -> Iterator[tuple[str, str]]:
    """Yield the name of each setting of a trigger, and its value in words."""
    for field in fields(trigger.settings):
        value = getattr(trigger.settings, field.name)
        if field.name == "policy":
            yield from (
                (inner.name, in_words(inner.name, getattr(value, inner.name))) for inner in fields(value)
            )
        elif field.name != "name":
            yield field.name, in_words(field.name, value)


def in_words(name: str, value: Any) -> str:  # noqa: PLR0911  (one for each type)
    """Return the value of a setting as people read it."""
    match value:
        case None | "" | ():
            return "not set"
        case bool():
            return "yes" if value else "no"
        case int() | float():
            return f"{value:,}"
        case str() | timedelta() | Path():
            return str(shown(name, value))
        case tuple() | list() | frozenset():
            return ", ".join(in_words(name, item) for item in value)  # pyright: ignore[reportUnknownVariableType]
        case type():
            return value.__name__
        case _ if is_dataclass(value):
            inner = ((setting.name, getattr(value, setting.name)) for setting in fields(value))
            return ", ".join(
                f"{key.replace('_', ' ')} {in_words(key, inner_value)}" for key, inner_value in inner
            )
        case _:
            return str(getattr(value, "__qualname__", type(value).__name__))
