"""From the name of a module to the triggers it holds."""

import importlib
import os
import sys
import sysconfig
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, cast

from history.errors import ConfigurationError
from history.support.namesakes import OURS, hidden_in, hiding
from history.support.rendering import first_line
from triggers.configuration.nearest import instead_of
from triggers.declaration.decorator import Trigger
from triggers.guards.guard import Guard
from triggers.guards.host import APPLICATIONS, Unguarded

if TYPE_CHECKING:
    from triggers.configuration import Configuration
    from triggers.consumer.options import AnyTrigger


def collect(
    module: str,
    only: Sequence[str] | None = None,
    *,
    configuration: "Configuration | None" = None,
    guards: bool = False,
    tasks: bool = False,
    complete: bool = True,
) -> "list[AnyTrigger]":
    """Import a module, also from the current folder, and return the triggers of its names and its classes.

    Triggers have their configured settings. Unless it is ``complete``, the configuration may also contain
    triggers of other modules. Guards have only the settings of their code: their frameworks read no
    configuration.

    With ``guards``, the module's guards also count as triggers: they are triggers without a provider. With
    ``tasks``, so do triggers that call a guarded task of Celery or another framework with its parked
    arguments.

    Raises:
        ConfigurationError: the module cannot be imported, or has no such trigger, or the configuration is
            invalid. The module's own exception is the ``__cause__``, but a wrong option of a trigger is
            raised as it is.
    """
    before = {id(application) for application in APPLICATIONS}
    values = list(_values_of(_imported(module)))
    triggers = _each_once(value for value in values if isinstance(value, Trigger))  # pyright: ignore[reportUnknownArgumentType]
    triggers = _configured(triggers, configuration, complete=complete)
    if guards:
        known_guards = [value for value in values if isinstance(value, Guard)]
        triggers += _each_once(guard.trigger for guard in [*known_guards, *_http_guards(values)])
    if guards or tasks:
        made = [
            application for application in APPLICATIONS if id(application) not in before
        ]  # made by the import
        triggers += [trigger for application in made for trigger in application.triggers(only_callable=tasks)]
    if not triggers:
        raise ConfigurationError("MODULE", f"{module} has no triggers", "decorate a function with @trigger")
    if not only:
        return triggers
    by_name = {trigger.name: trigger for trigger in triggers}
    for name in only:
        if name not in by_name:
            raise ConfigurationError("--trigger", f"{name!r} is not in {module}", instead_of(name, by_name))
    return [by_name[name] for name in only]


def unguarded(triggers: "Iterable[AnyTrigger]") -> Mapping[str, Unguarded]:
    """Return the tasks that no guard wraps, of the applications of these triggers' guards."""
    names = {trigger.name for trigger in triggers}
    made = [application for application in APPLICATIONS if not names.isdisjoint(application.tasks())]
    return {name: task for application in made for name, task in application.unguarded().items()}


def _configured(
    triggers: "list[AnyTrigger]", configuration: "Configuration | None", *, complete: bool
) -> "list[AnyTrigger]":
    """Return triggers with their configured settings."""
    if configuration is None or not any(
        layer.triggers or layer.defaults or "journal" in layer.values for layer in configuration.layers
    ):
        return triggers
    from triggers.configuration import override  # noqa: PLC0415  (as above)

    return override(triggers, configuration, complete=complete)


def _http_guards(values: Sequence[object]) -> Sequence[Guard]:
    """Return the guards of HTTP applications; a module that did not import any has none."""
    if "triggers.guards.http.middleware" not in sys.modules:
        return []
    from triggers.guards.http.applications import guards_in  # noqa: PLC0415  (few modules need it)

    return guards_in(values)


def _each_once(values: Iterable[object]) -> "list[AnyTrigger]":
    """Return triggers, each once, even if it has two names."""
    return list(dict.fromkeys(cast("Iterable[AnyTrigger]", values)))


def _values_of(module: ModuleType) -> Iterator[object]:
    """Yield what a module's names hold, and what the static methods of its classes hold."""
    for value in vars(module).values():
        yield value
        if isinstance(value, type):
            for attribute in vars(value).values():
                yield attribute.__func__ if isinstance(attribute, staticmethod) else attribute


def look_here() -> None:
    """Also import modules from the current folder."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)


def _imported(module: str) -> ModuleType:
    if module.endswith(".py") or not all(part.isidentifier() for part in module.split(".")):
        raise ConfigurationError("MODULE", f"{module!r} is not a dotted path", _as_dotted(module))
    look_here()
    here = Path.cwd()
    if module.partition(".")[0] in OURS and (problem := hidden_in(here)) is not None:
        raise ConfigurationError("MODULE", *problem.rsplit(": ", 1))
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        _blame_namesakes(error, here)
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise _failed_inside(module, error) from error
        raise ConfigurationError(
            "MODULE", f"there is no module {error.name}", "start where it can be imported, or install it"
        ) from error
    except (Exception, SystemExit) as error:
        if isinstance(error, ConfigurationError) and error.where is not None:
            raise  # it names the option, the remedy and the line
        if isinstance(error, ImportError):
            _blame_namesakes(error, here)
        raise _failed_inside(module, error) from error


def _blame_namesakes(error: ImportError, folder: Path) -> None:
    """Blame a file with the name of a package of ours for a failed import, if there is one."""
    if (problem := hiding() or hidden_in(folder)) is not None:
        raise ConfigurationError("MODULE", *problem.rsplit(": ", 1)) from error


def _as_dotted(module: str) -> str:
    """Turn a file's path, or a function behind a colon, which many users try first, into a dotted path."""
    path, _, function = module.partition(":")
    parts = ".".join(Path(path.removesuffix(".py")).parts).split(".")
    if not all(part.isidentifier() for part in parts):
        return "write it as package.module"
    return f"write it as {'.'.join(parts)}" + "; --trigger names one of its triggers" * bool(function)


def _is_installed(file: str) -> bool:
    """Whether a file belongs to Python or to an installed package."""
    paths = sysconfig.get_paths()
    return file.startswith(("<", *(paths[name] + os.sep for name in ("stdlib", "purelib", "platlib"))))


def _failed_inside(module: str, error: BaseException) -> ConfigurationError:
    frames = traceback.extract_tb(error.__traceback__)
    users = [frame for frame in frames if not _is_installed(frame.filename)]
    where = (users or frames)[-1]  # such as the line that reads os.environ["NAME"], not a line in Python's os
    # A syntax error names its line itself.
    line = "" if isinstance(error, SyntaxError) else f" ({where.filename}, line {where.lineno})"
    text, name = first_line(error), type(error).__name__
    named = text if text == name else f"{name}: {text}"
    return ConfigurationError(
        "MODULE", f"importing {module} raised {named}{line}", "fix it; --verbose shows the traceback"
    )
