"""From the environment and a TOML file to a :class:`~triggers.configuration.Configuration`."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from history.errors import ConfigurationError
from triggers.configuration.layers import FILE, INTO, PREFIX, Configuration, Layer, variable_of

if TYPE_CHECKING:
    from pydantic import BaseModel

#: The variable with the path of the file.
FILE_VARIABLE = f"{PREFIX}CONFIG"

#: How variables begin that lead into a table.
_TABLES = tuple(f"{PREFIX}{table}{INTO}" for table in ("TRIGGERS", "DEFAULTS"))


def read_configuration(file: Path | str | None = None) -> Configuration:
    """Read the environment, and ``file``: by default the one in DOUBTLESS_CONFIG, else ``doubtless.toml``.

    Only that last one, in the current folder, may be missing.

    Raises:
        ConfigurationError: a file cannot be read, a key is unknown, or a value is impossible. The error names
            the file or variable, and for an unknown key the nearest known one.
    """
    named = file or os.environ.get(FILE_VARIABLE)
    path = FILE if os.path.lexists(FILE) else None  # a link to a file that is missing is an error
    setting = str(FILE)
    if named:
        path, setting = Path(named), "--config" if file else FILE_VARIABLE
    is_in_environment = any(name.upper().startswith(PREFIX) and value for name, value in os.environ.items())
    if path is None and not is_in_environment:
        return Configuration()  # nothing is configured, so the library for it is not loaded
    layers = [_from_environment()]
    if path is not None:
        layers.append(_from_file(path, setting))
    return Configuration(layers)


def _from_environment() -> Layer:
    from pydantic_settings import EnvSettingsSource, SettingsError  # noqa: PLC0415  (else there is nothing to read)

    from triggers.configuration.model import Variables  # noqa: PLC0415  (as above)

    try:
        said = EnvSettingsSource(Variables)()
    except RecursionError as error:
        raise _not_a_table("is nested too deeply") from error
    except SettingsError:  # without its cause, which may quote what is set
        raise _not_a_table("must be a table") from None
    return _layer(None, said)


def _not_a_table(problem: str) -> ConfigurationError:
    """Return the error of a table whose variable holds something else, such as text."""
    names = {name.upper() for name in os.environ}
    is_defaults = variable_of("defaults") in names and not any(
        name.startswith(_TABLES[0][:-2]) for name in names
    )
    name, below = (variable_of("defaults"), "KEY") if is_defaults else (variable_of("triggers"), "NAME__KEY")
    return ConfigurationError(name, problem, f"set {name}{INTO}{below}")


def _from_file(file: Path, setting: str) -> Layer:
    """Read a file that a setting has named; an error in it names the file and its key."""
    import tomllib  # noqa: PLC0415  (as above)

    named = "" if setting == str(file) else f"{file}: "
    try:
        said = tomllib.loads(file.read_text(encoding="utf-8-sig"))  # editors of Windows mark it
    except FileNotFoundError as error:
        raise ConfigurationError(setting, f"there is no file {file}", "give one that is there") from error
    except OSError as error:
        raise ConfigurationError(setting, f"{named}{error.strerror}", "give a readable file") from error
    except UnicodeDecodeError as error:
        raise ConfigurationError(setting, f"{named}is not UTF-8: {error}", "save it as UTF-8") from error
    except ValueError as error:  # tomllib's error, or that of a number with thousands of digits
        remedy = "correct it; text stands in quotes"
        raise ConfigurationError(setting, f"{named}is no TOML: {error}", remedy) from error
    except RecursionError as error:
        raise ConfigurationError(setting, f"{named}is nested too deeply", "write tables as [a.b]") from error
    return _layer(file, said)


def _layer(file: Path | None, said: Mapping[str, Any]) -> Layer:
    from pydantic import ValidationError  # noqa: PLC0415  (as above)

    from triggers.configuration.model import Keys, complaint  # noqa: PLC0415  (as above)

    empty = Layer(file, {}, {})
    try:
        keys = Keys.model_validate(said)
    except ValidationError as error:
        raise complaint(
            error, empty.origin, in_variables=file is None
        ) from None  # its text may quote a password
    values = {name: getattr(keys, name) for name in keys.model_fields_set - {"triggers", "defaults"}}
    triggers = {name: dict(_flat(table)) for name, table in keys.triggers.items()}
    return Layer(file, values, triggers, dict(_flat(keys.defaults)))


def _flat(table: "BaseModel", above: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values that are set in a table, and in the tables in it, with dotted keys."""
    for name in type(table).model_fields:
        if name not in table.model_fields_set:
            continue
        value = getattr(table, name)
        if hasattr(value, "model_fields_set"):
            yield from _flat(value, f"{above}{name}.")
        else:
            yield f"{above}{name}", value


def strange_variables() -> Iterator[tuple[str, str]]:
    """Yield variables of the environment that look like typing errors, each with its probable meaning.

    They are not errors: others use the environment, and a URL such as env:DOUBTLESS_PASSWORD may name one.
    """
    from difflib import get_close_matches  # noqa: PLC0415  (few ask)

    from triggers.configuration.model import Keys  # noqa: PLC0415  (as above)

    variables = {FILE_VARIABLE, *(f"{PREFIX}{key.upper()}" for key in Keys.model_fields)}
    for name in sorted(os.environ):
        if name.startswith(PREFIX) and name not in variables and not name.startswith(_TABLES):
            for near in get_close_matches(name, variables, n=1, cutoff=0.8):
                yield name, near
