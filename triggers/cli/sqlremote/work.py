"""The work of ``doubtless sqlremote``; loaded when a command runs, because it loads SQLAlchemy."""

import re
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any

import typer

from history.bridge import drive
from history.errors import ConfigurationError
from history.sql.links.watermark import LinkRow
from history.store.watermark import MAX_OFFSET, Epoch, Offset
from triggers.cli.shared.configured import configuration_of
from triggers.cli.shared.loading import collect, look_here
from triggers.cli.shared.output import CliState
from triggers.cli.sqlremote.running import applying_changes, run_once, run_sender, trigger_of
from triggers.consumer.core import Consumer
from triggers.consumer.drain import DrainSignals
from triggers.consumer.options import AnyTrigger
from triggers.metrics.answering import answering
from triggers.operations.journals import refuse_unknown
from triggers.providers.opening import open_provider
from triggers.providers.provider import ProviderUnavailableError
from triggers.providers.sqlremote.capture.subscribing import extract_awaited, only_receives
from triggers.providers.sqlremote.extraction.extract import extract
from triggers.providers.sqlremote.extraction.load import load
from triggers.providers.sqlremote.inspection import status as status_of
from triggers.providers.sqlremote.links import LINK, Links, fresh_epoch
from triggers.providers.sqlremote.protocol.alarms import awaits_extract
from triggers.providers.sqlremote.protocol.packet import is_epoch
from triggers.providers.sqlremote.publication.log import LinkLog, unsent

_OFFSET = re.compile(r"[0-9]{1,20}")

#: The columns of a table of links; JSON has everything.
COLUMNS = (
    "link",
    "state",
    "log_end",
    "log_sent",
    "confirm_sent",
    "unconfirmed",
    "resend_count",
    "log_received",
    "confirm_received",
    "rereceive_count",
    "inbox",
    "gap",
    "time_sent",
    "time_received",
)


def show_set_up(state: CliState, links: Links, names: Sequence[str]) -> None:
    """Create what links need, the triggers too, and show the links.

    Raises:
        typer.Exit: a peer needs an extract: the exit code is 1.
    """
    for name in names:
        drive(links.setup(name))
        drive(links.capture(name))
    rows = [row_of(links, name) for name in names]
    state.show("links", ["link", "publication", "address", "epoch"], [short(row) for row in rows])
    waiting = [row for row in rows if row.stopped is not None and awaits_extract(row.stopped)]
    for row in waiting:
        state.note(f"{row.link} {_does(row.stopped)}: {row.stopped}")
    if waiting:
        raise typer.Exit(1)


def send_once(state: CliState, links: Links, names: Sequence[str]) -> None:
    """Read reports and send, once."""

    def send(name: str) -> None:
        drive(links.setup(name))
        drive(run_once(links.agent(name, applies=False, batch=True)))

    _each(state, names, send)


def _each(state: CliState, names: Sequence[str], work: Callable[[str], None]) -> None:
    """Do the work of each link. If a carrier is away, the other links still run.

    Raises:
        ProviderUnavailableError: that of the first such link.
    """
    first: ProviderUnavailableError | None = None
    for name in names:
        try:
            work(name)
        except ProviderUnavailableError as error:
            if len(names) > 1:
                state.note(f"{name} did not run: {error}")
            first = first or error
    if first is not None:
        raise first


def once(state: CliState, links: Links, module: str | None, only: list[str] | None, *, sends: bool) -> None:
    """Receive with the triggers of a module, and send if ``sends``, once."""
    names = chosen(links, only)
    triggers = _applying(state, links, module, names)

    def run(name: str) -> None:
        drive(links.setup(name))
        trigger = trigger_of(name, triggers)
        if trigger is not None:
            trigger.use_default_history(links.history)
        elif not sends:
            return
        agent = links.agent(name, applies=trigger is not None, batch=True, sends=sends)
        drive(run_once(agent, trigger))
        if trigger is not None:
            trigger.close()

    _each(state, names, run)
    show_status(state, links, names)


def run_links(
    state: CliState,
    links: Links,
    module: str | None,
    names: Sequence[str],
    until_idle: float | None,
    consumer: str,
    metrics: str | None,
) -> None:
    """Run links until a signal; links without a trigger run in separate threads."""
    triggers = _applying(state, links, module, names)
    ended = threading.Event()
    senders = [name for name in names if trigger_of(name, triggers) is None]
    threads = [_sender(links, name, ended) for name in senders]
    started = partial(state.say_running, names)
    try:
        if triggers:
            applying = Consumer(triggers, links, name=consumer, metrics=metrics)
            applying.run(signals=True, until_idle=until_idle, started=started)
        else:
            started()
            _wait(ended, threads, until_idle, metrics)
    finally:
        ended.set()
        for thread in threads:
            thread.join()
    show_status(state, links, names)


def _applying(
    state: CliState, links: Links, module: str | None, names: Sequence[str]
) -> Sequence[AnyTrigger]:
    """Return the triggers that receive from these links: a module's, and ours for captured tables."""
    declared = [] if module is None else collect(module, configuration=configuration_of(state))
    wanted = {LINK + name for name in names}
    triggers = [trigger for trigger in declared if wanted & set(trigger.destinations)]
    ours = [name for name in names if links.link(name).capture and trigger_of(name, triggers) is None]
    return [*triggers, *(applying_changes(name, links.link(name)) for name in ours)]


def _sender(links: Links, name: str, ended: threading.Event) -> threading.Thread:
    drive(links.setup(name))
    work = run_sender(links.agent(name, applies=False), stopping=ended.is_set, pause=partial(_nap, ended))
    thread = threading.Thread(target=drive, args=[work], name=f"link-{name}", daemon=True)
    thread.start()
    return thread


def _nap(ended: threading.Event, seconds: float) -> None:
    ended.wait(seconds)


def _wait(
    ended: threading.Event, threads: Sequence[threading.Thread], seconds: float | None, metrics: str | None
) -> None:
    """Wait for a signal, or at most ``seconds``."""
    waited = 0.0
    with DrainSignals() as drain, answering(metrics) as watched:
        while drain.received is None and any(thread.is_alive() for thread in threads):
            if seconds is not None and waited >= seconds:
                return
            ended.wait(0.1)
            watched.beat = monotonic()
            waited += 0.1


def show_status(state: CliState, links: Links, names: Sequence[str]) -> None:
    """Show how far links got.

    Raises:
        typer.Exit: a link is stopped: the exit code is 1.
    """
    every = drive(status_of(links))
    left = [row for row in every if row["link"] not in links.settings.links]
    rows = [row for row in every if row["link"] in set(names)]
    if set(names) >= set(links.settings.links):
        rows += [row | {"state": "not in settings"} for row in left]
    state.show("links", COLUMNS, rows, none="no link is set up; see: doubtless sqlremote setup")
    for row in left:
        state.note(
            f"{row['link']} is not in the settings. The log is kept for it; see: doubtless sqlremote revoke"
        )
    for publication, count in drive(unsent(links.history.watermarks)).items():
        state.note(
            f"no link sends the publication {publication}, of which the log has {count} transactions: "
            "correct its name where the program appends, or set up a link for it"
        )
    stopped = [row for row in rows if row["stopped"] is not None]
    for row in stopped:
        state.note(f"{row['link']} {_does(row['stopped'])}: {row['stopped']}")
    if stopped:
        raise typer.Exit(1)


def _does(stopped: str | None) -> str:
    return "only receives" if only_receives(stopped) else "stands still"


@contextmanager
def opened(settings: Path) -> Generator[Links]:
    """Open the links of a settings file; their hooks may be in the current folder."""
    look_here()
    links = Links.from_file(settings, open_provider=open_provider)
    try:
        yield links
    finally:
        drive(links.close())


def chosen(links: Links, only: Sequence[str] | None) -> Sequence[str]:
    """Return the named links, or all."""
    for name in only or ():
        links.link(name)
    return only or list(links.settings.links)


def row_of(links: Links, link: str) -> LinkRow:
    """Return the row of a link.

    Raises:
        ConfigurationError: there is none.
    """
    links.link(link)
    row = drive(links.history.watermarks.read(link))
    if row is None:
        raise ConfigurationError("LINK", f"{link} is not set up", "run: doubtless sqlremote setup")
    return row


def startable(links: Links, link: str) -> LinkRow:
    """Return the row of a link that may run again.

    Raises:
        ConfigurationError: there is none, or its peer needs an extract first.
    """
    row = row_of(links, link)
    if row.stopped is not None and awaits_extract(row.stopped):
        raise ConfigurationError(
            "LINK", f"{link} waits for an extract of its peer", row.stopped.rpartition("; ")[2]
        )
    return row


def started(links: Links, link: str) -> tuple[str | None, str | None]:
    """Let a link go on; return why it was stopped before, and why it does not send now.

    Raises:
        ConfigurationError: it does not exist, or it receives already and its peer needs an extract first.
    """
    before = row_of(links, link).stopped
    after = extract_awaited(before)
    if after is not None and after == before:
        startable(links, link)
    drive(links.history.watermarks.stop(link, after))
    return before, after


def revocable(links: Links, link: str) -> int:
    """Return how many transactions of the log the peer of a link has not confirmed.

    Raises:
        ConfigurationError: the link is still in the settings, or the database does not have it.
    """
    if link in links.settings.links and len(links.settings.links) > 1:  # a file without links is none
        raise ConfigurationError("LINK", f"{link} is in the settings", "remove it there, then revoke it")
    watermarks = links.history.watermarks
    row = drive(watermarks.read(link))
    if row is None:
        every = [other.link for other in drive(watermarks.read_all())]
        left = [name for name in every if name not in links.settings.links]
        refuse_unknown("LINK", "link to revoke", link, left)
        raise ConfigurationError("LINK", f"there is no link {link}", "see: doubtless sqlremote status")
    return drive(LinkLog(watermarks, row.publication, link).unconfirmed(row.watermark.outgoing.confirm_sent))


def revoked(links: Links, link: str) -> int:
    """Forget a link; delete the log that nobody needs any more, and return how many operations that were.

    Raises:
        ConfigurationError: an agent runs it.
    """
    row = drive(links.history.watermarks.read(link))
    if row is not None and not drive(links.history.watermarks.revoke(link)):
        raise ConfigurationError("LINK", f"{link} is running: {row.agent}", "stop that process first")
    if row is None:
        return 0
    # The agents of other links keep what is younger than their keep_log; without any, nobody would delete it.
    others = {other.publication for other in drive(links.history.watermarks.read_all())}
    if row.publication in others:
        return 0
    drive(links.release(row.publication))
    return drive(LinkLog(links.history.watermarks, row.publication, link).prune())


def extracted(
    links: Links, link: str, to: Path, *, tables: Sequence[str], beyond: tuple[Epoch, Offset] | None
) -> dict[str, Any]:
    """Write an extract; return its description."""
    return drive(extract(links, link, to, tables=tables, beyond=beyond)).model_dump(mode="json")


def loaded(links: Links, link: str, file: Path, *, discard: bool) -> dict[str, Any]:
    """Load an extract; return its description."""
    extract = drive(load(links, link, file, discard=discard))
    return {**extract.begin.model_dump(mode="json"), "rows": extract.rows}


def reset(links: Links, link: str, *, peer: tuple[Epoch, Offset] | None, confirmed: int | None) -> LinkRow:
    """Reset a link. If it begins again at the end of the log, the log first gets what was captured."""
    epoch = fresh_epoch() if peer is None and confirmed is None else None
    _ = startable(links, link) if epoch is None else row_of(links, link)
    if epoch is not None:
        drive(LinkLog(links.history.watermarks, links.link(link).publication, link).collect())
    offset = None if confirmed is None else Offset(confirmed)
    return drive(links.history.watermarks.reset(link, epoch=epoch, peer=peer, confirmed=offset))


def begin_of(peer: str, *, option: str = "--peer") -> tuple[Epoch, Offset]:
    """Read the position that ``reset`` or ``load`` has printed at the other end.

    Raises:
        ConfigurationError: no end can have printed it. The messages of the link could not carry it.
    """
    epoch, _, offset = peer.rpartition(":")
    is_offset = _OFFSET.fullmatch(offset) is not None and int(offset) <= MAX_OFFSET
    if not is_epoch(epoch) or not is_offset:
        raise ConfigurationError(option, f"{peer!r} is no EPOCH:OFFSET", "copy what was printed there")
    return Epoch(epoch), Offset(int(offset))


def question(link: str, begin: tuple[Epoch, Offset] | None, confirmed: int | None) -> str:
    """Return the question before a reset."""
    if begin is not None:
        return f"Take {link} as extracted from its peer up to {begin[1]}?"
    if confirmed is not None:
        return f"Send all of {link} again that follows {confirmed}?"
    return f"Begin a new epoch of {link}, and never send what is unsent?"


def short(row: LinkRow) -> dict[str, Any]:
    """Return the fields in which links differ."""
    return {
        "link": row.link,
        "publication": row.publication,
        "address": row.address,
        "epoch": row.watermark.outgoing.epoch,
        "peer_epoch": row.watermark.incoming.epoch,
    }
