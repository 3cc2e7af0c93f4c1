"""JMS triggers in packages of Integration Server: what their ``node.ndf`` files say.

The names of the properties are those of a real file (``trigger_type`` "jms-trigger", values version 2.0).
That file has no resolver and no monitor, so their properties are found by what their names contain.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from history.errors import ConfigurationError
from triggers.patchbay.wiring.xml_elements import Element, decoded, parse

#: The file of each node of a package, and that of the connection aliases of a server.
NODE, ALIASES = "node.ndf", "jms.cnf"

#: The numbers of transaction types of an alias: none, local and XA.
_TRANSACTED: Final = {"1", "2", "LOCAL_TRANSACTION", "XA_TRANSACTION"}

_TOPIC: Final = "1"

Record = dict[str, Any]

_WHOLE: Final = re.compile(r"-?[0-9]{1,18}")


@dataclass(frozen=True, slots=True)
class JmsTarget:
    """Where messages come from, with the selector that the trigger has there."""

    name: str
    is_topic: bool
    selector: str | None
    subscriber: str | None


@dataclass(frozen=True, slots=True)
class Rule:
    """Which service takes a message; without ``filter``, any message."""

    name: str
    service: str
    filter: str | None


def read_values(text: str, file: str) -> Record:
    """Return the values of a file such as ``node.ndf``, with records as dictionaries and arrays as lists.

    Raises:
        ConfigurationError: it is not well-formed XML, or declares entities; naming the file.
    """
    return _record(parse(text, file))


def _record(element: Element) -> Record:
    named = ((child.attributes.get("name"), child) for child in element.children)
    return {name: _value(child) for name, child in named if name is not None}


def _value(element: Element) -> Any:
    match element.name:
        case "record" | "Values":
            return _record(element)
        case "array" | "list":
            return [_value(child) for child in element.children]
        case "null":
            return None
        case _:  # value, number, Boolean, Date: text says it
            return element.text.strip()


def number_in(values: Record, key: str, default: int = 0) -> int:
    """Return a value as a whole number of up to 18 digits; the default if it is anything else."""
    text = str(values.get(key))
    return int(text) if _WHOLE.fullmatch(text) else default


def walk(value: Any) -> list[Record]:
    """Return all records in a value, itself first."""
    match value:
        case list():
            return [record for part in cast("Sequence[Any]", value) for record in walk(part)]
        case dict():
            record = cast("Record", value)
            return [record, *(inner for part in record.values() for inner in walk(part))]
        case _:
            return []


@dataclass(frozen=True, slots=True)
class JmsTrigger:
    """A JMS trigger. ``values`` are its other properties, with their names there."""

    name: str
    file: str
    alias: str
    destinations: Sequence[JmsTarget]
    rules: Sequence[Rule]
    values: Record

    def text(self, key: str, default: str = "") -> str:
        """Return a property as text."""
        value = self.values.get(key)
        return default if value is None or isinstance(value, dict | list) else str(value)

    def number(self, key: str, default: int = 0) -> int:
        """Return a property as a whole number, which it may not be."""
        return number_in(self.values, key, default)

    def is_on(self, key: str) -> bool:
        """Whether a switch is on."""
        return self.text(key).lower() == "true"

    def service_like(self, *parts: str) -> str | None:
        """Return the service in the first property with one of these parts in its name."""
        for key, value in self.values.items():
            is_service = isinstance(value, str) and ":" in value
            if is_service and any(part in key.lower() for part in parts):
                return str(value)
        return None


@dataclass(frozen=True, slots=True)
class Exported:
    """The triggers in a folder. ``transacted`` are aliases. ``left_out`` are other files, with reasons."""

    triggers: Sequence[JmsTrigger]
    transacted: frozenset[str]
    known_aliases: frozenset[str]
    left_out: Sequence[tuple[str, str]]


def find_triggers(folder: Path) -> Exported:
    """Read all packages in a folder.

    Raises:
        ConfigurationError: it is not a folder, or holds no JMS trigger.
    """
    if not folder.is_dir():
        raise ConfigurationError("DIR", f"{folder} is not a folder", "give an exported package, unpacked")
    triggers: list[JmsTrigger] = []
    left_out: list[tuple[str, str]] = []
    for file in sorted(folder.rglob(NODE)):
        shown = str(file.relative_to(folder))
        try:
            values = read_values(_text(file), shown)
        except ConfigurationError as error:
            left_out.append((shown, f"{error.problem}; {error.remedy}"))
            continue
        if (trigger_type := values.get("trigger_type")) is None:
            continue  # a service, a document type or another node
        if (
            trigger_type == "jms-trigger"
            and values.get("node_nsName")
            and isinstance(values.get("trigger"), dict)
        ):
            triggers.append(_trigger(shown, values))
        else:
            left_out.append((shown, f"a trigger of type {trigger_type}, not a JMS trigger: write it by hand"))
    if not triggers:
        problem = f"{folder} holds no {NODE} of a JMS trigger"
        unread = "".join(f"; {file}: {reason}" for file, reason in left_out[:3])
        raise ConfigurationError("DIR", problem + unread, "give the folder of packages, unpacked")
    aliases = dict(_aliases(folder))
    transacted = frozenset(name for name, is_transacted in aliases.items() if is_transacted)
    return Exported(triggers, transacted, frozenset(aliases), left_out)


def _text(file: Path) -> str:
    try:
        raw = file.read_bytes()
    except OSError as error:
        raise ConfigurationError(str(file), error.strerror or "cannot be read", "make it readable") from error
    return decoded(raw, str(file))


def _trigger(file: str, values: Record) -> JmsTrigger:
    mine = cast("Record", values["trigger"])
    return JmsTrigger(
        name=values["node_nsName"],
        file=file,
        alias=str(mine.get("aliasName") or "default"),
        destinations=[_destination(record) for record in _records(mine, "destinations")],
        rules=[
            Rule(record.get("ruleName") or "", record["serviceName"], record.get("filter") or None)
            for record in _records(mine, "routingRules")
            if record.get("serviceName")
        ],
        values={key: value for key, value in mine.items() if key not in {"destinations", "routingRules"}},
    )


def _records(values: Record, key: str) -> list[dict[str, Any]]:
    return [
        cast("Record", record)
        for record in cast("list[Any]", values.get(key) or [])
        if isinstance(record, dict)
    ]


def _destination(values: dict[str, Any]) -> JmsTarget:
    named = [value for key, value in values.items() if "subscriber" in key.lower() and value]
    return JmsTarget(
        name=str(values.get("destination") or ""),
        is_topic=values.get("destinationType") == _TOPIC,
        selector=values.get("messageSelector") or None,
        subscriber=str(named[0]) if named else None,
    )


def _aliases(folder: Path) -> Iterator[tuple[str, bool]]:
    """Yield the connection aliases, and whether their sessions are transacted."""
    for file in sorted(folder.rglob(ALIASES)):
        try:
            values = read_values(_text(file), str(file))
        except ConfigurationError:
            continue  # nothing is known of its aliases, and the report says so
        for record in walk(values):
            if record.get("aliasName") and "transactionType" in record:
                yield str(record["aliasName"]), str(record["transactionType"]) in _TRANSACTED
