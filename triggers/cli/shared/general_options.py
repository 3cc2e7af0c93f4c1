"""``--json`` and ``--verbose``, which every command takes."""

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any

import typer

from triggers.cli.shared.logs import log_more
from triggers.cli.shared.output import State

_JSON_OPTION: Any = typer.Option(False, "--json", help="Print data as JSON, one document.")
_VERBOSE_OPTION: Any = typer.Option(
    False, "--verbose", "-v", help="Log more, and show the traceback of an error."
)
_GENERAL = (("json", _JSON_OPTION), ("verbose", _VERBOSE_OPTION))


def with_general_options(command: Callable[..., None]) -> Callable[..., None]:
    """Let a command take ``--json`` and ``--verbose``, so that they may stand before and after its name."""

    @wraps(command)
    def run(context: typer.Context, *, json: bool, verbose: bool, **options: Any) -> None:
        state = State.of(context)
        state.as_json |= json
        state.verbose |= verbose
        if state.verbose:
            log_more()
        command(context, **options)

    kind = inspect.Parameter.KEYWORD_ONLY
    added = [inspect.Parameter(name, kind, default=option, annotation=bool) for name, option in _GENERAL]
    signature = inspect.signature(command)
    own = [parameter.replace(kind=kind) for parameter in signature.parameters.values()]
    vars(run)["__signature__"] = signature.replace(parameters=[*own, *added])
    run.__annotations__ = {**command.__annotations__, **dict.fromkeys(dict(_GENERAL), bool)}
    return run
