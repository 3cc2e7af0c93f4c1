"""``doubtless sqlremote``: links that replicate transactions over anything that carries files or messages."""

from pathlib import Path
from typing import Any

import typer

from history.bridge import drive
from triggers.cli import sqlremote
from triggers.cli.shared.arguments import refuse_unreadable
from triggers.cli.shared.general_options import CommandGroup
from triggers.cli.shared.logs import LogFormat, log_as_consumer
from triggers.cli.shared.options import (
    LOG_FORMAT_OPTION,
    LOG_VERDICTS_OPTION,
    METRICS_OPTION,
    YES_OPTION,
    confirm,
)
from triggers.cli.shared.output import CliState

app = CommandGroup(
    no_args_is_help=True, help="Run and control links: guaranteed, ordered delivery between two databases."
)

_SETTINGS: Any = typer.Argument(help="A TOML file with the links of this database.")
_LINK: Any = typer.Argument(help="The name of the link.")
_ONLY: Any = typer.Option(None, "--link", "-l", help="Only this link. May be repeated.")
_MODULE: Any = typer.Argument(
    None, help="The module with the triggers that apply what arrives; links with capture need none."
)


@app.command()
def setup(context: typer.Context, settings: Path = _SETTINGS, only: list[str] | None = _ONLY) -> None:
    """Create the tables and the rows of the links. Existing rows stay, and get the new settings.

    For links with "capture", also create the triggers that publish changes of their tables. Run it again
    after each change of these tables. If the subscription of a peer changed, its link only receives until
    you extract the peer. A new link stands still until the extract if its log was deleted in part, or if a
    link to its peer was revoked. The exit code is 1 in both cases.
    """
    with sqlremote.work.opened(settings) as links:
        sqlremote.work.show_set_up(CliState.of(context), links, sqlremote.work.chosen(links, only))


@app.command()
def status(context: typer.Context, settings: Path = _SETTINGS, only: list[str] | None = _ONLY) -> None:
    """Show how far each link got: what is sent, confirmed and received, what is missing, and why it stopped.

    The exit code is 1 if a link is stopped.
    """
    with sqlremote.work.opened(settings) as links:
        sqlremote.work.show_status(CliState.of(context), links, sqlremote.work.chosen(links, only))


@app.command()
def stop(
    context: typer.Context,
    settings: Path = _SETTINGS,
    link: str = _LINK,
    reason: str = typer.Option("somebody stopped it", help="The reason. Status shows it."),
) -> None:
    """Stop a link. Its agent notices this within a second or two, between two transactions."""
    with sqlremote.work.opened(settings) as links:
        sqlremote.work.row_of(links, link)
        drive(links.history.watermarks.halt(link, reason))
    CliState.of(context).say(f"{link} is stopped")


@app.command()
def start(context: typer.Context, settings: Path = _SETTINGS, link: str = _LINK) -> None:
    """Start a link again that was stopped, or that halted for a reason that is gone.

    If the peer of the link needs an extract, the link then only receives.
    """
    with sqlremote.work.opened(settings) as links:
        before, after = sqlremote.work.started(links, link)
    may = "may run" if after is None else "may receive"
    was = "it was not stopped" if before is None else f"it was stopped: {before}"
    CliState.of(context).say(f"{link} {may}; {was}")


@app.command()
def revoke(
    context: typer.Context,
    settings: Path = _SETTINGS,
    link: str = typer.Argument(help="The name of the link. It need not be in SETTINGS any more."),
    yes: bool = YES_OPTION,
) -> None:
    """Forget a link for good, so that the log keeps nothing more for its peer.

    Remove the link from SETTINGS first, and stop its agent. The peer does not receive what is unconfirmed. To
    add the link again, extract the peer.
    """
    with sqlremote.work.opened(settings) as links:
        unconfirmed = sqlremote.work.revocable(links, link)
        confirm(
            f"Forget {link}, whose peer has not confirmed {unconfirmed} transactions of the log?", yes=yes
        )
        deleted = sqlremote.work.revoked(links, link)
    document = {"link": link, "unconfirmed": unconfirmed, "deleted_operations": deleted}
    CliState.of(context).report(document, f"{link} is revoked; {deleted} operations of the log are deleted")


@app.command()
def reset(
    context: typer.Context,
    settings: Path = _SETTINGS,
    link: str = _LINK,
    peer: str | None = typer.Option(
        None,
        metavar="EPOCH:OFFSET",
        help="Begin after this position of the peer, if this end was extracted from the peer.",
    ),
    confirmed: int | None = typer.Option(
        None, min=0, help="Send everything after this offset again, if the peer was restored."
    ),
    yes: bool = YES_OPTION,
) -> None:
    """Reset a link after a restore. By default, sending begins again at the end of the log.

    Transactions that were not sent yet stay unsent, so extract the peer from this database at the same
    moment. Then reset the other end as well, with --peer and the position that this command prints.
    """
    begin = None if peer is None else sqlremote.work.begin_of(peer)
    confirm(sqlremote.work.question(link, begin, confirmed), yes=yes)
    with sqlremote.work.opened(settings) as links:
        row = sqlremote.work.reset(links, link, peer=begin, confirmed=confirmed)
    outgoing = row.watermark.outgoing
    position = f"{outgoing.epoch}:{outgoing.log_sent}"
    text = f"{link} goes on behind {outgoing.confirm_sent if begin is None else begin[1]}"
    if begin is None and confirmed is None:
        text = f"at the other end: doubtless sqlremote reset SETTINGS {link} --peer {position}"
    CliState.of(context).report({**sqlremote.work.short(row), "begin": position}, text)


@app.command()
def extract(
    context: typer.Context,
    settings: Path = _SETTINGS,
    link: str = _LINK,
    to: Path = typer.Option(..., "--to", "-o", help="The file to write. It must not exist."),
    table: list[str] | None = typer.Option(
        None,
        "--table",
        "-t",
        help="A table to copy, instead of those in the settings. May be repeated, parents first.",
    ),
    beyond: str | None = typer.Option(
        None, metavar="EPOCH:OFFSET", help="The position of the other end's log, if load asks for it."
    ),
    yes: bool = YES_OPTION,
) -> None:
    """Copy the tables of a link into a file for its peer, and begin again after it, in one transaction.

    Take the file to the other end, and run "doubtless sqlremote load" there. Until then, the link does
    not continue there. Transactions that are committed here in the meantime are sent, and applied after the
    extract.
    """
    where = None if beyond is None else sqlremote.work.begin_of(beyond, option="--beyond")
    confirm(f"Begin anew with {link}, and let the other end load {to}?", yes=yes)
    with sqlremote.work.opened(settings) as links:
        sqlremote.work.row_of(links, link)
        begin = sqlremote.work.extracted(links, link, to, tables=table or (), beyond=where)
    text = f"at the other end: doubtless sqlremote load SETTINGS {link} {to.name}"
    CliState.of(context).report(begin, text)


@app.command()
def load(
    context: typer.Context,
    settings: Path = _SETTINGS,
    link: str = _LINK,
    file: Path = typer.Argument(help="The file that extract has written at the other end."),
    discard: bool = typer.Option(
        False,
        "--discard",
        help="Discard transactions that were published here and that the peer has not confirmed.",
    ),
    yes: bool = YES_OPTION,
) -> None:
    """Replace the rows of the tables in an extract, and continue after it, in one transaction."""
    refuse_unreadable("FILE", file)
    confirm(f"Replace all rows of the tables in {file}?", yes=yes)
    with sqlremote.work.opened(settings) as links:
        sqlremote.work.row_of(links, link)
        description = sqlremote.work.loaded(links, link, file, discard=discard)
    text = f"{link} goes on behind the extract: {description['rows']} rows are loaded"
    CliState.of(context).report(description, text)


@app.command()
def compare(
    context: typer.Context,
    settings: Path = _SETTINGS,
    link: str = _LINK,
    other: str | None = typer.Option(
        None,
        "--with",
        help="The other end: its settings file, the URL of its database, or a file that --to wrote there.",
    ),
    to: Path | None = typer.Option(
        None, "--to", "-o", help="Write the checksums of all rows into this new file, for --with."
    ),
) -> None:
    """Compare the tables of a link at both ends: which rows are missing or differ.

    Without --with, show the number of rows and a checksum of each table. The exit code is 1 if something
    differs. Rows that are on their way differ as well.
    """
    sqlremote.comparing.compare_ends(CliState.of(context), settings, link, other=other, to=to)


@app.command()
def send(context: typer.Context, settings: Path = _SETTINGS, only: list[str] | None = _ONLY) -> None:
    """Read what peers report, send what the schedule allows, and end. Work that arrived is not applied."""
    work = sqlremote.work
    with work.opened(settings) as links:
        work.send_once(CliState.of(context), links, work.chosen(links, only))
        work.show_status(CliState.of(context), links, work.chosen(links, only))


@app.command()
def receive(
    context: typer.Context,
    settings: Path = _SETTINGS,
    module: str | None = _MODULE,
    only: list[str] | None = _ONLY,
) -> None:
    """Apply what has arrived, confirm it, and end. Ask again immediately for what is missing.

    Links with "capture" need no MODULE.
    """
    with sqlremote.work.opened(settings) as links:
        sqlremote.work.once(CliState.of(context), links, module, only, sends=False)


@app.command()
def run(
    context: typer.Context,
    settings: Path = _SETTINGS,
    module: str | None = _MODULE,
    only: list[str] | None = _ONLY,
    batch: bool = typer.Option(False, "--batch", "-b", help="Receive and send once, then end."),
    until_idle: float | None = typer.Option(None, min=0, help="End after this many seconds without work."),
    name: str | None = typer.Option(
        None, help="The name of this consumer. It must be unique among running consumers."
    ),
    metrics: str | None = METRICS_OPTION,
    log_format: LogFormat = LOG_FORMAT_OPTION,
    log_verdicts: bool = LOG_VERDICTS_OPTION,
) -> None:
    """Run links until a signal ends them: receive, apply, report, send.

    Changes of captured tables are applied. Everything else needs triggers of MODULE, or is not applied.
    """
    state = CliState.of(context)
    consumer = log_as_consumer(name, log_format, verdicts=log_verdicts)
    with sqlremote.work.opened(settings) as links:
        if batch:
            sqlremote.work.once(state, links, module, only, sends=True)
        else:
            sqlremote.work.run_links(
                state, links, module, sqlremote.work.chosen(links, only), until_idle, consumer, metrics
            )
