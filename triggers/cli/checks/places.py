"""Doctor's checks of places for parked messages, journals and events outside the history."""

import os
from collections.abc import Coroutine, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from history.beside.parking import Parking
from history.bridge import drive
from history.opening import local_parking_file
from history.store.inspection import Capability, Refusal
from history.support.references import dereferenced
from history.support.urls import split_url
from triggers.cli.checks.findings import Away, CheckFinding, Level, of_refusals
from triggers.cli.checks.lines import of_line
from triggers.cli.checks.rooms import Rooms
from triggers.cli.checks.stores import of_place
from triggers.cli.shared.embedded import URL as EMBEDDED
from triggers.cli.shared.options import connected
from triggers.cli.shared.sinks import opened_sink
from triggers.consumer.options import AnyTrigger
from triggers.operations.looking import open_to_look
from triggers.providers.provider import Provider, capabilities_of
from triggers.service.settings import Settings
from triggers.sinks.dead_letter import DeadLetterSink
from triggers.sinks.sink import Sink


@runtime_checkable
class SinkTellingRefusals(Protocol):
    """A sink that can report what its account may not do there."""

    def refusals(self) -> Coroutine[Any, Any, Sequence[Refusal]]:
        """Return it; write nothing.

        Raises:
            UnavailableError: the place is unavailable.
        """
        ...


def of_parking(away: Away, settings: Settings, rooms: Rooms) -> Iterator[CheckFinding]:
    """Check the place that ``parking=`` names; nothing without this option."""
    of = f"parking of {settings.name}"
    parking = settings.parking
    if isinstance(parking, str):
        yield from away.looked(of, [partial(_of_url, away, of, "parking", parking, settings.name, rooms)])
    elif parking is not None:
        yield from away.looked(of, [partial(_of_lot, of, parking, settings.name)])


def of_journal(away: Away, settings: Settings, rooms: Rooms) -> Iterator[CheckFinding]:
    """Check the place that ``journal=`` names; nothing if it is the history or there is none."""
    of, journal = f"journal of {settings.name}", settings.journal
    if isinstance(journal, str):
        yield from away.looked(of, [partial(_of_url, away, of, "journal", journal, settings.name, rooms)])


_CAPABILITIES = {"parking": Capability.PARKING, "journal": Capability.JOURNAL}


def _of_url(
    away: Away, of: str, setting: str, url: str, trigger: str, rooms: Rooms
) -> Iterator[CheckFinding]:
    url = dereferenced(url, setting)
    parts = split_url(url)
    file = Path(parts.path.removeprefix("/"))
    if parts.scheme == "memory":
        finding = "it is in memory: what is kept there is lost with the process, and no command sees it"
        yield CheckFinding(of, Level.WARNING, finding, f"give {setting}= the URL of a file or a server")
    elif parts.scheme.startswith("sqlite") and parts.path.strip("/") and not file.exists():
        yield of_file(of, file, f"correct {setting}=, or make a folder that this user may write to")
    else:
        yield from of_line(of, url)
        store = open_to_look(setting, url)
        try:
            last = partial(rooms.noted, store, of, 1)
            yield from of_place(away, of, store, trigger, _CAPABILITIES[setting], last)
        finally:
            drive(store.close())


def _of_lot(of: str, lot: Parking, trigger: str) -> Iterator[CheckFinding]:
    count = drive(lot.count(trigger=trigger))
    text = f"it answers, and has {count} messages; it was not asked what may be written"
    yield CheckFinding(of, Level.OK, text)


def of_local_file(file: Path | None) -> Iterator[CheckFinding]:
    """Check whether messages could be parked on this machine while no server takes them."""
    file = file or local_parking_file()
    folder = file.parent  # it will be made
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    path = file if file.exists() else folder
    if os.access(path, os.W_OK) and (path is file or folder.is_dir()):
        yield CheckFinding("local parking file", Level.OK, f"{file} can be written")
        return
    yield CheckFinding(
        "local parking file",
        Level.PROBLEM,
        f"{path} cannot be written: what is given up while the history is away would be given back",
        "set local_parking_file= or XDG_STATE_HOME to a folder that this user may write to",
    )


def of_file(of: str, file: Path, remedy: str) -> CheckFinding:
    """Check whether a file can be written, or made in its folder."""
    path = file if file.exists() else file.parent
    if not path.exists():
        return CheckFinding(of, Level.PROBLEM, f"there is no folder {path}", remedy)
    if os.access(path, os.W_OK) and (path is file or path.is_dir()):
        return CheckFinding(of, Level.OK, f"{file} can be written")
    return CheckFinding(of, Level.PROBLEM, f"{path} cannot be written", remedy)


def of_sink(
    away: Away, number: int, url: str, provider: str | None, triggers: Sequence[AnyTrigger]
) -> Iterator[CheckFinding]:
    """Check one place for events."""
    of = f"sink {number}"
    url = dereferenced(url, "--sink")
    parts = split_url(url)
    file = Path(parts.path.removeprefix("/"))
    if parts.scheme.startswith("sqlite") and parts.path.strip("/") and not file.exists():
        yield of_file(of, file, "correct its URL, or make a folder that this user may write to")
        return
    with connected(provider or EMBEDDED) as link:
        sink = opened_sink(url, link)
        try:
            server = (
                dereferenced(provider or EMBEDDED, "--provider") if parts.scheme == "dead-letter" else url
            )
            yield from away.looked(of, [partial(_of_opened, of, sink, link, triggers)], server)
        finally:
            sink.close()


def _of_opened(of: str, sink: Sink, link: Provider, triggers: Sequence[AnyTrigger]) -> Iterator[CheckFinding]:
    telling = capabilities_of(link).telling_permissions
    if isinstance(sink, DeadLetterSink) and telling is not None:
        names = dict.fromkeys(
            sink.letters_of(name) for trigger in triggers for name in trigger.settings.destinations
        )
        for name in names:
            ask = partial(telling.refusals, name, None)
            yield from of_refusals(of, ask, f"send to {name}")
    elif isinstance(sink, SinkTellingRefusals):
        yield from of_refusals(of, sink.refusals, "write there")
    else:
        yield CheckFinding(of, Level.OK, "its URL can be used; it was not asked")
