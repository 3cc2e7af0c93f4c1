"""The options of ``doubtless parked``: which messages, and how a person decides about them."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any

import typer

from triggers.cli.shared.arguments import duration_of
from triggers.cli.shared.general_options import Options, take
from triggers.cli.shared.options import HISTORY_OPTION, TRIGGER_OPTION, YES_OPTION
from triggers.operations.choosing import KindWord, Selection

LOCAL_OPTION: Any = typer.Option(
    False, "--local", help="Use the messages in this machine's file, not those of the history."
)
_IDS: Any = typer.Argument(
    None, metavar="[PARKED_ID]...", help="Ids, or unique beginnings of ids. Or give filters."
)
_REASON_OPTION: Any = typer.Option(None, "--reason", help="The reason. It is stored with the decision.")
_BY_OPTION: Any = typer.Option(None, "--by", help="Who has decided. By default: the name of the login.")
_DRY_RUN_OPTION: Any = typer.Option(
    False, "--dry-run", help="Only show which messages the command would change."
)

_FILTERS: Options = {
    "trigger": (str | None, TRIGGER_OPTION),
    "kind": (KindWord | None, typer.Option(None, help="Only messages of this kind.")),
    "uuid": (
        str | None,
        typer.Option(None, help='Only uuids of this form, such as "order-*". "?" is any one character.'),
    ),
    "containing": (
        str | None,
        typer.Option(None, help="Only messages with this text in the reason or the error."),
    ),
    "host": (str | None, typer.Option(None, help="Only messages that a worker on this host started.")),
    "older": (
        str | None,
        typer.Option(None, help="Only messages that were parked longer ago than this: 90s, 15m, 2h, 7d."),
    ),
    "newer": (
        str | None,
        typer.Option(None, help="Only messages that were parked within this time: 90s, 15m, 2h, 7d."),
    ),
}

_DECIDING: Options = {
    "parked_ids": (list[str] | None, _IDS),
    "history": (str | None, HISTORY_OPTION),
    "local": (bool, LOCAL_OPTION),
    "reason": (str | None, _REASON_OPTION),
    "by": (str | None, _BY_OPTION),
    "dry_run": (bool, _DRY_RUN_OPTION),
    "yes": (bool, YES_OPTION),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionRequest:
    """The request of a deciding command: its messages, the reason, and whether to ask for confirmation."""

    selection: Selection
    parked_ids: list[str] | None
    history: str | None
    local: bool
    reason: str | None
    by: str | None
    dry_run: bool
    yes: bool


def with_selection(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command options for filters; it receives them as ``selection``."""

    @wraps(command)
    def run(context: typer.Context, **options: Any) -> None:
        selection = _selection(options)
        command(context, selection=selection, **options)

    return take(run, command, _FILTERS, instead_of="selection")


def with_request(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of every decision, with filters; it receives them as ``request``."""

    @wraps(command)
    def run(context: typer.Context, **options: Any) -> None:
        request_options = {name: options.pop(name) for name in _DECIDING}
        request = DecisionRequest(selection=_selection(options), **request_options)
        command(context, request=request, **options)

    return take(run, command, {**_DECIDING, **_FILTERS}, instead_of="request")


def _selection(options: dict[str, Any]) -> Selection:
    """Take the filters out of the options of a command line."""
    filters = {name: options.pop(name) for name in _FILTERS}
    for name in ("older", "newer"):
        filters[name] = None if filters[name] is None else duration_of(f"--{name}", filters[name])
    return Selection(**filters)
