"""Give commands options that they do not name themselves: typer reads them from the signature."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

#: The type and typer's information of an option, by the name of its parameter.
Options = Mapping[str, tuple[Any, Any]]


def take(
    run: Callable[..., None], command: Callable[..., None], options: Options, *, instead_of: str | None = None
) -> Callable[..., None]:
    """Give ``run``, which wraps a command, the command's options and these, each by its name.

    ``run`` passes ``instead_of`` to the command, so the command line has no such option.
    """
    kind = inspect.Parameter.KEYWORD_ONLY
    signature = inspect.signature(command)
    own = [
        parameter.replace(kind=kind) for name, parameter in signature.parameters.items() if name != instead_of
    ]
    added = [
        inspect.Parameter(name, kind, default=option, annotation=type_)
        for name, (type_, option) in options.items()
    ]
    vars(run)["__signature__"] = signature.replace(parameters=[*own, *added])
    types = {name: type_ for name, type_ in command.__annotations__.items() if name != instead_of}
    run.__annotations__ = types | {name: type_ for name, (type_, _) in options.items()}
    return run
