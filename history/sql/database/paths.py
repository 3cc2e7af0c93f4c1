"""The address of a database, and the file of a SQLite URL.

A path names the file, or a URI, which is SQLite's own kind of file name.
"""

from os.path import realpath
from pathlib import Path
from urllib.parse import parse_qsl, unquote

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError


def file_at(url: str) -> str | None:
    """Return the whole path of the file at a SQLite URL; None if it is in memory, or not a URL."""
    try:
        return file_of(make_url(url))
    except (ArgumentError, ValueError):
        return None


def file_of(url: URL) -> str | None:
    """Return the whole path of a URL's file; None if its database is in memory."""
    name = str(url.database or "")
    if not url.query.get("uri"):
        return file_named(name) if not name.startswith("file:") else str(Path(name).absolute())
    options = "&".join(f"{key}={value}" for key, value in url.query.items())
    return file_named(f"{name}{'&' if '?' in name else '?'}{options}" if name.startswith("file:") else name)


def address_of(url: URL) -> str:
    """Name the tables of a URL: equal for a blocking and an asyncio engine, and for each name of a file.

    Two schemas of a database have two names.
    """
    if url.get_backend_name() == "sqlite":
        file = file_of(url)
        return f"sqlite in memory:{id(url)}" if file is None else f"sqlite:///{realpath(file)}"
    places = {name: value for name, value in url.query.items() if _says_where(name, str(value))}
    return url.set(drivername=url.get_backend_name(), password=None, query=places).render_as_string()


def _says_where(option: str, value: str) -> bool:
    return option in {"host", "port"} or (option == "options" and "search_path" in value)


def file_named(name: str) -> str | None:
    """Return the whole path of a file name for a driver, a path or a URI; None if it means memory."""
    if name in {"", ":memory:"}:
        return None
    if not name.startswith("file:"):
        return str(Path(name).absolute())
    path, options = _parts_of(name)
    if path.startswith("//"):  # a machine follows, which can only be this one
        path = "/" + path[2:].partition("/")[2]
    path = unquote(path)
    if path in {"", ":memory:"} or options.get("mode") == "memory" or options.get("vfs") == "memdb":
        return None
    return str(Path(path).absolute())


def makes_file(name: str) -> bool:
    """Whether a driver that opens this name makes the file if it does not exist."""
    return not name.startswith("file:") or _parts_of(name)[1].get("mode", "rwc") == "rwc"


def _parts_of(name: str) -> tuple[str, dict[str, str]]:
    path, _, more = name.removeprefix("file:").partition("#")[0].partition("?")
    return path, dict(parse_qsl(more))
