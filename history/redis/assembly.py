"""Lua scripts, assembled from the files in a package's folder ``lua``.

A line ``--include NAME`` inserts the file ``NAME.lua`` of the same folder, with its own includes. A line
``--body of NAME`` inserts a file that is also a script by itself. To see a script as Redis gets it, or the
names of all scripts::

    python -m history.redis.assembly entries/claim
    python -m history.redis.assembly --package triggers.providers.redis_streams reclaim
    python -m history.redis.assembly
"""

import re
import sys
from argparse import ArgumentParser
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from history.errors import ConfigurationError

#: The package that is used if the caller names none.
DEFAULT_PACKAGE = "history.redis"

_INCLUDE = re.compile(r"^ *--include ([\w/]+)$", re.MULTILINE)
_PART = re.compile(r"^ *--(?:include|body of) ([\w/]+)$", re.MULTILINE)


@cache
def assembled(package: str, name: str) -> str:
    """Return the text of ``lua/<name>.lua`` of a package, with the files that it includes.

    Raises:
        ConfigurationError: the file does not exist.
    """
    return _PART.sub(lambda part: assembled(package, part[1]), _read(package, name))


def script_names(package: str) -> Sequence[str]:
    """Return the names of a package's scripts, sorted: the files that no other file includes."""
    names = set(_names_in(files(package) / "lua"))
    included = {part for name in names for part in _INCLUDE.findall(_read(package, name))}
    return sorted(names - included)


def _read(package: str, name: str) -> str:
    try:
        return (files(package) / "lua" / f"{name}.lua").read_text(encoding="utf-8")
    except FileNotFoundError as error:
        remedy = f"list them with python -m history.redis.assembly --package {package}"
        raise ConfigurationError("script", f"{package} has no lua/{name}.lua", remedy) from error


def _names_in(folder: Traversable, above: str = "") -> Iterator[str]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _names_in(entry, f"{above}{entry.name}/")
        elif entry.name.endswith(".lua"):
            yield above + entry.name.removesuffix(".lua")


def main(arguments: Sequence[str] | None = None) -> None:
    """Print one script, or the names of all."""
    parser = ArgumentParser(
        prog="python -m history.redis.assembly", description="Print a Lua script as Redis gets it."
    )
    parser.add_argument("name", nargs="?", help="such as entries/claim; without it, the names are listed")
    parser.add_argument("--package", default=DEFAULT_PACKAGE, help="the package of the scripts (%(default)s)")
    options = parser.parse_args(arguments)
    if options.name is None:
        sys.stdout.write("".join(f"{name}\n" for name in script_names(options.package)))
    else:
        sys.stdout.write(assembled(options.package, options.name))


if __name__ == "__main__":
    main()
