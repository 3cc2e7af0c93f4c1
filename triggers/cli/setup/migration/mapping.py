"""Each property of a JMS trigger becomes an option here, or a note in the report."""

import json
import keyword
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import chain, count
from typing import Final, cast

from triggers.cli.setup.migration.filters import selector_of
from triggers.cli.setup.migration.jms_triggers import Exported, JmsTarget, JmsTrigger, Record, number_in


class Fit(StrEnum):
    """How a property is here."""

    SAME = "same"
    SAFER = "safer"
    CHECK = "check"
    MISSING = "missing"


@dataclass(frozen=True, slots=True)
class Note:
    """A line of the report about a property."""

    kind: Fit
    there: str
    here: str


@dataclass(frozen=True, slots=True)
class MappedRule:
    """A service that a rule calls. ``filter`` is ours; ``original`` is there if it was not translated."""

    service: str
    filter: str | None = None
    original: str | None = None


@dataclass(slots=True)
class Mapped:
    """A trigger here: ``options`` are Python as it is written in the decorator, by name.

    ``resolver`` and ``monitor`` are services there.
    """

    source: JmsTrigger
    destinations: Sequence[str]
    options: dict[str, str] = field(default_factory=dict[str, str])
    rules: Sequence[MappedRule] = ()
    resolver: str | None = None
    monitor: str | None = None
    notes: list[Note] = field(default_factory=list[Note])

    def note(self, fit: Fit, there: str, here: str) -> None:
        """Add a line to the report."""
        self.notes.append(Note(fit, there, here))


#: The numbers of join types, as far as they are known: a trigger with one destination has another one.
_JOINS: Final[Mapping[str, str]] = {"0": "all", "1": "any", "2": "one"}

#: The acknowledgement modes of the JMS API.
_MODES: Final[Mapping[str, str]] = {"1": "auto", "3": "dups_ok"}

_SOAP: Final = "1"
_SUSPEND: Final = "1"


def mapped(packages: Exported) -> list[Mapped]:
    """Map all triggers, in the order of their names."""
    return [
        _mapped(trigger, packages) for trigger in sorted(packages.triggers, key=lambda trigger: trigger.name)
    ]


def _mapped(trigger: JmsTrigger, packages: Exported) -> Mapped:
    made = Mapped(trigger, [_destination_of(destination) for destination in trigger.destinations])
    made.options["name"] = quoted(trigger.name)
    _map_destinations(made)
    transacted = _map_transaction(made, packages)
    _map_processing(made, transacted=transacted)
    _map_failures(made, transacted=transacted)
    _map_duplicates(made)
    _map_rules(made)
    if trigger.text("jmsTriggerType", "0") == _SOAP:
        made.note(Fit.MISSING, "a SOAP over JMS trigger", "write it by hand, behind an HTTP guard")
    if trigger.text("enabled", "true").lower() != "true":
        made.note(Fit.CHECK, "disabled", f"doubtless disable {trigger.name!r} before the first start")
    if user := trigger.text("executeUser"):
        made.note(Fit.MISSING, f"execution user {user}", "the service runs as the user of the process")
    return made


def _destination_of(destination: JmsTarget) -> str:
    if not destination.is_topic:
        return destination.name
    if destination.subscriber is None:
        return f"topic:{destination.name}?durable=false"
    return f"topic:{destination.name}?subscriber={destination.subscriber}"


def _map_destinations(made: Mapped) -> None:
    trigger = made.source
    selectors = {destination.selector for destination in trigger.destinations if destination.selector}
    if len(trigger.destinations) == 1 and selectors:
        made.options["selector"] = quoted(selectors.pop())
        made.note(Fit.SAME, "message selector", "selector=")
    elif selectors:
        texts = "; ".join(
            f"{destination.name}: {destination.selector}"
            for destination in trigger.destinations
            if destination.selector
        )
        made.note(Fit.MISSING, f"a selector for each destination: {texts}", "one selector= for all of them")
    for destination in trigger.destinations:
        if destination.subscriber is not None:
            problem = f"durable subscriber {destination.subscriber}"
            made.note(
                Fit.CHECK, problem, "add &client_id= of the connection alias to go on with its messages"
            )
    shown = ", ".join(destination.name for destination in trigger.destinations)
    made.note(
        Fit.CHECK,
        f"destinations {shown}",
        f"if connection alias {trigger.alias} uses JNDI, write jndi:NAME instead of NAME or topic:NAME",
    )
    if len(trigger.destinations) > 1:
        number = trigger.text("joinType")
        join = _JOINS.get(number, "any")
        made.options["join"] = quoted(join)
        made.note(Fit.CHECK, f"join type {number}", f"join={quoted(join)}: compare it with Designer")
        if timeout := trigger.number("joinTimeout"):
            made.options["join_timeout"] = _milliseconds(timeout)


def _map_transaction(made: Mapped, packages: Exported) -> bool:
    alias = made.source.alias
    if alias in packages.transacted:
        made.options["transacted"] = "True"
        made.note(Fit.SAME, f"transacted connection alias {alias}", "transacted=True")
        return True
    if alias not in packages.known_aliases:
        made.note(
            Fit.CHECK,
            f"connection alias {alias}",
            "transacted=True, if its transaction type is not NO_TRANSACTION",
        )
    return False


def _map_processing(made: Mapped, *, transacted: bool) -> None:
    trigger = made.source
    if trigger.is_on("concurrent"):
        made.options["concurrency"] = str(max(trigger.number("maxConcurrentThreads", 1), 1))
        made.note(Fit.SAME, "concurrent processing", "concurrency=")
    else:
        made.options["concurrency"] = "1"
        made.note(Fit.SAFER, "serial processing", "concurrency=1; with ordered=True, one consumer at a time")
    if (prefetch := trigger.number("prefetchSize")) > 0:
        made.options["prefetch"] = str(prefetch)
    if (batch := trigger.number("batchSize")) > 1:
        made.options["batch"] = str(batch)
        made.note(Fit.SAME, "batch processing", "batch=: the service takes a list of messages")
    if (connections := trigger.number("connectionCount", 1)) > 1:
        made.note(Fit.SAME, f"connection count {connections}", f"doubtless run --processes {connections}")
    mode = _MODES.get(trigger.text("acknowledgeMode"))
    if mode is not None and not transacted:
        made.options["acknowledge_mode"] = quoted(mode)
        made.note(Fit.CHECK, f"acknowledgement mode {mode}", "without it, duplicates are detected")


def _map_failures(made: Mapped, *, transacted: bool) -> None:
    trigger = made.source
    options = cast("Record", trigger.values.get("redeliveryOptions") or {})
    most, pause = number_in(options, "max"), number_in(options, "delayInterval")
    if most < 0:
        made.note(Fit.CHECK, "retry until success", 'on_retry_failure="suspend", or more max_delivery_count')
    elif most and transacted:
        made.note(Fit.SAME, f"{most} retries", "a transacted trigger is tried again by redelivery")
    elif most:
        made.options["retry"] = f"Retry(max_attempts={most}, interval={_milliseconds(max(pause, 1))})"
        made.note(Fit.SAME, "max retry attempts, retry interval", "retry=Retry(...)")
    if str(options.get("onRedeliveryFailure")) == _SUSPEND:
        option, value = (
            ("on_rollback", "suspend_and_recover") if transacted else ("on_retry_failure", "suspend")
        )
        made.options[option] = quoted(value)
        made.note(Fit.SAME, "suspend and retry later", f"{option}={quoted(value)}")
    if trigger.is_on("serialSuspendOnError"):
        made.options["suspend_on_error"] = "True"
        made.note(Fit.SAME, "suspend on error", "suspend_on_error=True")
    if (monitor := trigger.service_like("monitor")) is not None:
        made.monitor = monitor
        made.note(Fit.CHECK, f"resource monitoring service {monitor}", "monitor=: write it")


def _map_duplicates(made: Mapped) -> None:
    trigger = made.source
    resolver = trigger.service_like("resol", "resolver")
    if resolver is not None:
        made.resolver = resolver
        made.note(Fit.CHECK, f"document resolver service {resolver}", "resolver=: write it")
    if made.options.get("acknowledge_mode"):
        return
    if not trigger.is_on("inDoubtDetection"):
        made.note(
            Fit.SAFER,
            "no exactly-once processing",
            "duplicates are detected; detect_duplicates=False is as there",
        )
    elif not trigger.is_on("resolveWithHistory"):
        made.note(Fit.SAFER, "detection without history", "the history is always used")
    elif (kept := trigger.number("resolutionHistoryTTL")) > 0:
        made.options["history_time_to_live"] = _milliseconds(kept)
        made.note(Fit.SAME, "history time to live", "history_time_to_live=")


def _map_rules(made: Mapped) -> None:
    rules: list[MappedRule] = []
    for rule in made.source.rules:
        ours = None if rule.filter is None else selector_of(rule.filter)
        lost = rule.filter if rule.filter is not None and ours is None else None
        rules.append(MappedRule(rule.service, ours, lost))
        if lost is not None:
            made.note(
                Fit.CHECK,
                f"filter {lost}",
                "write it: until then, each message is parked with FILTER_FAILED",
            )
        elif ours is not None:
            made.note(
                Fit.SAME,
                f"filter {rule.filter}",
                f"filter={quoted(ours)}; a comparison with a missing field is false",
            )
    plain = len(rules) == 1 and rules[0].filter is None and rules[0].original is None
    single = made.options.get("batch") or made.options.get("join") == quoted("all")
    if single and not plain:
        made.note(
            Fit.CHECK, "routing rules", "with batch= or join='all' there is one service: the first rule"
        )
        rules = [MappedRule(rules[0].service)] if rules else []
    if not rules:
        made.note(Fit.MISSING, "no routing rule with a service", "write the service")
        rules = [MappedRule(made.source.name)]
    made.rules = rules


class Names:
    """Python names for services and triggers, each given once; the same thing always has the same name."""

    def __init__(self) -> None:
        self._given: dict[str, str] = {}

    def of(self, service: str) -> str:
        """Return the name of a service: ``book_order`` of "shop.services:bookOrder", if it is not taken."""
        if service not in self._given:
            taken = set(self._given.values())
            candidates = chain(
                (_python_name(service.rpartition(":")[2]), _python_name(service)),
                (f"{_python_name(service)}_{number}" for number in count(2)),
            )
            self._given[service] = next(name for name in candidates if name not in taken)
        return self._given[service]


def _python_name(text: str) -> str:
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", text)
    name = re.sub(r"\W+", "_", snake, flags=re.ASCII).strip("_").lower() or "service"
    return f"{name}_" if keyword.iskeyword(name) else f"_{name}" if name[0].isdecimal() else name


def parameters_of(made: Mapped) -> tuple[str, str]:
    """Return the parameter of the service of a trigger, and its type."""
    if made.options.get("join") == quoted("all"):
        return "joined", "Joined"
    return ("messages", "list[Message]") if "batch" in made.options else ("message", "Message")


def quoted(text: str) -> str:
    """Return text as Python writes it in double quotes."""
    return json.dumps(text, ensure_ascii=False)


def _milliseconds(number: int) -> str:
    for unit, size in (("days", 86_400_000), ("hours", 3_600_000), ("minutes", 60_000), ("seconds", 1000)):
        if number % size == 0:
            return f"timedelta({unit}={number // size})"
    return f"timedelta(milliseconds={number})"
