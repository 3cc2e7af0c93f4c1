"""Open what a person wants to look into: a store that outlives a process, and exists."""

from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import SplitResult

from history.beside.kept import KeepsBeside
from history.errors import ConfigurationError
from history.memory import MemoryHistory
from history.opening import HISTORY_URLS, open_history
from history.support.references import dereferenced
from history.support.urls import is_of_one_process, origin, split_url
from triggers.providers.opening import PROVIDER_URLS

#: Schemes that outlive a process: a command would find its own memory empty.
LASTING_HISTORIES, LASTING_PROVIDERS = (
    urls.replace(" or memory://", "") for urls in (HISTORY_URLS, PROVIDER_URLS)
)


def open_to_look(option: str, url: str, *, makes: bool = False, dry: bool = False) -> KeepsBeside:
    """Open the history at a URL, which an option named, to look into it.

    Raises:
        ConfigurationError: it cannot be opened, or its file is missing; naming the option. With ``makes`` the
            file may be missing. With ``dry`` it may be missing or empty: an empty history in memory stands
            for it, and the file is not touched.
    """
    with named(option, LASTING_HISTORIES):
        url = dereferenced(url, option)
        if dry and is_absent_file(option, url, or_empty=True):
            return MemoryHistory()
        if not makes:
            refuse_absent_file(option, url)
        return open_history(_at_once(url))


def _at_once(history: str) -> str:
    """Disable the circuit of a server: a command asks once, and reports the problem itself."""
    parts = split_url(history)
    if parts.scheme.startswith("sqlite") or "circuit=" in parts.query:
        return history
    return parts._replace(query="&".join(filter(None, [parts.query, "circuit=off"]))).geturl()


@contextmanager
def named(option: str, remedy: str) -> Generator[None]:
    """Name the option in the errors about its value."""
    try:
        yield
    except ConfigurationError as error:
        if error.setting in {"history", "provider", "limbo"}:
            raise ConfigurationError(option, error.problem, error.remedy) from error
        raise
    except ValueError as error:
        raise ConfigurationError(option, str(error), f"use {remedy}") from error


def is_in_memory(url: str) -> bool:
    """Whether a URL names the memory of a process, which no other process can open."""
    with suppress(ConfigurationError, ValueError):  # opening it says what is wrong
        return is_of_one_process(dereferenced(url, "url"))
    return False


def refuse_memory(option: str, url: str) -> None:
    """Refuse the memory of a process: it would be empty, and nothing would stay in it."""
    _split(option, url)
    if is_of_one_process(url):
        problem = f"{origin(url)} lives in one process only"
        raise ConfigurationError(option, problem, "give a server or a file")


def refuse_absent_file(option: str, url: str) -> None:
    """Refuse a SQLite file that does not exist: opening it would create an empty one."""
    if is_absent_file(option, url):
        problem = f"there is no file {_split(option, url).path.removeprefix('/')}"
        raise ConfigurationError(option, problem, "give the file that the triggers use")


def is_absent_file(option: str, url: str, *, or_empty: bool = False) -> bool:
    """Whether a URL names a SQLite file that does not exist, or has no bytes if ``or_empty``.

    Raises:
        ConfigurationError: it names the memory of a process, or it is not a URL.
    """
    refuse_memory(option, url)
    parts = _split(option, url)
    if not parts.scheme.startswith("sqlite") or parts.netloc:
        return False
    from history.sql.database.paths import file_at  # noqa: PLC0415  (loads SQLAlchemy)

    name = file_at(url)
    if name is None:
        return False
    file = Path(name)
    return not file.exists() or (or_empty and file.stat().st_size == 0)


def _split(option: str, url: str) -> SplitResult:
    try:
        return split_url(url)
    except ValueError as error:  # without the URL, which may hold a password
        raise ConfigurationError(option, f"is not a URL: {error}", "correct it") from None
