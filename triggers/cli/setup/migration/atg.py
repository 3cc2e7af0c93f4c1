"""From the XML of ATG's Patch Bay to a wiring that ``doubtless patchbay check`` accepts.

The reader and the conversion are those of the Patch Bay itself. Each component gets a stub in one module.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Final

from triggers.cli.patchbay import converted, to_toml
from triggers.cli.setup.migration.jms_triggers import walk
from triggers.cli.setup.migration.mapping import Fit, Names, Note, quoted
from triggers.cli.setup.migration.reporting import notes_table, plain
from triggers.patchbay.wiring.checks import is_local, is_sql, provider_name
from triggers.patchbay.wiring.model import (
    Component,
    DestinationEntry,
    InputDestination,
    PatchBayFile,
    SinkEntry,
)
from triggers.patchbay.wiring.toml_reader import read_text
from triggers.patchbay.wiring.xml_reader import guess_notes

#: The file of the wiring, and the module with the components.
WIRING, COMPONENTS = "patchbay.toml", "jms_components"

#: The history of a wiring whose providers are not databases.
_HISTORY: Final = "sqlite:///history.db"

_MODULE: Final = '''"""The components of {wiring}.

Write each of them. Until then, a source fails, and so does each message of a sink.
Check them with: doubtless patchbay check {wiring}
"""

from doubtless import Message
from doubtless.patchbay import MessageContext


def _missing(component: str) -> NotImplementedError:
    return NotImplementedError(f"{{component}} is not written yet")
'''

_SOURCE: Final = '''

def {name}(context: MessageContext) -> None:
    """{component}: sends by {sends}."""
    raise _missing({quoted})
'''

_SINK: Final = '''

def {name}(port: str, message: Message, context: MessageContext) -> None:
    """{component}: receives by {receives}{sends}."""
    raise _missing({quoted})
'''

#: What holds for every wiring.
_EVERYWHERE: Final = (
    Note(Fit.SAFER, "a copy of a message runs again", "each input has a history: a copy is a duplicate"),
    Note(Fit.SAFER, "a limbo for each server", "all processes share one limbo"),
    Note(Fit.SAFER, "limboMaxDeliveryAttempts, then discarded", "after release_attempts: parked"),
)


@dataclass(frozen=True, slots=True)
class Wiring:
    """A migrated wiring: its content as written and as read, and what was left out or presumed."""

    raw: Mapping[str, Any]
    file: PatchBayFile
    notes: Sequence[str]


def read_wiring(files: Sequence[Path], urls: Mapping[str, str]) -> Wiring:
    """Read XML files as one wiring, whose components are in :data:`COMPONENTS`.

    Raises:
        ConfigurationError: a file cannot be read, or the wiring cannot work here.
    """
    raw, notes = converted(files, urls, argument="FILES")
    guesses = {name: f"sqlite:///{_file_name(name)}.db" for name in _without_place(raw)}
    raw["providers"] |= {name: {"url": url} for name, url in guesses.items()}
    names = Names()
    for component in chain.from_iterable(raw.get(section, ()) for section in ("source", "sink", "filter")):
        path, _, last = component["name"].rpartition("/")
        component["component"] = f"{COMPONENTS}:{names.of(f'{path}:{last}')}"
    places = [provider["url"] for provider in raw["providers"].values()]
    history = next((url for url in places if is_sql(url)), _HISTORY)
    raw["patchbay"] = {"history": history, **raw.get("patchbay", {})}
    file, weak = read_text(to_toml(raw), WIRING)
    return Wiring(raw, file, [*notes, *guess_notes(guesses, ()), *weak])


def _without_place(raw: Mapping[str, Any]) -> Sequence[str]:
    """Return the providers that a destination names, and that have no URL."""
    named = [part["provider"] for part in walk(dict(raw)) if "destination" in part and "provider" in part]
    return [name for name in dict.fromkeys(named) if name not in raw["providers"]]


def _file_name(provider: str) -> str:
    return re.sub(r"\W+", "_", provider, flags=re.ASCII).strip("_") or "provider"


def components_of(wiring: Wiring) -> str:
    """Return the module with a stub for each component."""
    return _MODULE.format(wiring=WIRING) + "".join(
        _stub(wiring, component) for component in wiring.file.components
    )


def _stub(wiring: Wiring, component: Component) -> str:
    sends = ", ".join(map(plain, wiring.file.outputs(component)))
    common = {
        "name": component.component.partition(":")[2],
        "component": plain(component.name),
        "quoted": quoted(component.name),
    }
    if not isinstance(component, SinkEntry):
        return _SOURCE.format(**common, sends=sends)
    receives = ", ".join(plain(port.port) for port in component.input)
    return _SINK.format(**common, receives=receives, sends=f"; sends by {sends}" if sends else "")


def report_of_wiring(wiring: Wiring) -> str:
    """Return the report in Markdown."""
    lines = ["# Patch Bay", "", f"{len(wiring.file.components)} components are migrated.", ""]
    for title, notes in noted(wiring):
        lines += [f"## {title}", "", *notes_table(notes)]
    return "\n".join(lines)


def noted(wiring: Wiring) -> Iterator[tuple[str, Sequence[Note]]]:
    """Yield the sections of the report: the whole wiring, then each component."""
    chosen = Note(
        Fit.CHECK, "the database of SQL JMS", f"holds the history and limbo: [patchbay] in {WIRING}"
    )
    yield "The whole wiring", [*(_note_of(text) for text in wiring.notes), chosen, *_EVERYWHERE]
    for component in wiring.file.components:
        yield component.name, list(_notes_of(wiring, component))


def _note_of(text: str) -> Note:
    there, _, here = text.partition(": ")
    return Note(Fit.MISSING if "left out" in here else Fit.CHECK, there, here)


def _notes_of(wiring: Wiring, component: Component) -> Iterator[Note]:
    stub = component.component.replace(":", ".")
    yield Note(Fit.CHECK, f"the Java class of {component.name}", f"write {stub}")
    if isinstance(component, SinkEntry):
        for entry in component.input:
            for source in entry.sources:
                yield from _input_notes(wiring, f"input-port {entry.port}", source)
    for name, port in wiring.file.outputs(component).items():
        for leads_to in port.to:
            yield _destination_note(wiring, f"port {name}, to", leads_to)


def _input_notes(wiring: Wiring, port: str, source: InputDestination) -> Iterator[Note]:
    yield _destination_note(wiring, f"{port}, from", source)
    if source.selector is not None:
        yield Note(Fit.SAME, f"message-selector {source.selector}", f"selector = {source.selector!r}")
    if source.durable_subscriber is not None:
        name = source.durable_subscriber
        yield Note(Fit.SAME, f"durable-subscriber-name {name}", f"durable_subscriber = {name!r}")
    if not source.durable:
        yield Note(Fit.SAME, f"{source.destination}: no durable-subscriber-name", "durable = false")
    if (terms := source.redelivery) is not None:
        there = f"redelivery: {terms.max_attempts} attempts, then {terms.failure_port}"
        yield Note(Fit.SAFER, there, "an attempt counts when it begins, so also if the process dies")
    elif not is_local(wiring.file.providers[provider_name(wiring.file, source)].url):
        there = f"{source.destination}: without redelivery, a message that fails comes again forever"
        yield Note(Fit.SAFER, there, "parked after a fatal failure, or after max_delivery_count")


def _destination_note(wiring: Wiring, port: str, entry: DestinationEntry) -> Note:
    provider = provider_name(wiring.file, entry)
    return Note(Fit.SAME, f"{port} {entry.type} {entry.destination}", f"provider {provider}: the same")
