"""The findings of ``doubtless doctor``; one problem does not prevent the other checks."""

import re
from collections.abc import Callable, Collection, Coroutine, Generator, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

from history.bridge import drive
from history.errors import ConfigurationError, NotPermittedError, UnavailableError
from history.store.inspection import Refusal
from history.support.rendering import first_line, text_of


class Level(StrEnum):
    """How bad it is."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "PROBLEM"


class CheckFinding(NamedTuple):
    """A finding: its level, its subject, and what to do."""

    of: str
    level: Level
    finding: str
    remedy: str = ""


#: The ports of servers that a URL names only by their host.
_PORTS = {"redis": 6379, "rediss": 6379, "postgresql": 5432, "postgres": 5432}


def server_of(address: str) -> str:
    """Return the server in a URL, or in the address of a history: its host and port, or the whole."""
    scheme, _, rest = address.partition(":")
    host = re.split("[/?#]", rest.removeprefix("//"), maxsplit=1)[0].rpartition("@")[2]
    port = _PORTS.get(scheme.partition("+")[0])
    return f"{host}:{port}" if host and ":" not in host and port else host or address


#: A check of one subject; any exception that it raises is also a finding.
Check = Callable[[], Iterable[CheckFinding]]


class Away:
    """The servers that did not answer: the checks wait for each only once, and report it once."""

    def __init__(self) -> None:
        self._said: dict[str, str] = {}

    def looked(self, of: str, checks: Sequence[Check], server: str | None = None) -> Iterator[CheckFinding]:
        """Return the findings of some checks, each once; if the first meets no server, it is the last."""
        server = None if server is None else server_of(server)
        if server is not None and server in self._said:
            text = f"it was not looked at: its server did not answer, see {self._said[server]}"
            yield CheckFinding(of, Level.PROBLEM, text)
            return
        said = set[tuple[Level, str]]()
        for number, check in enumerate(checks):
            try:
                for finding in check():
                    yield from _unsaid(finding, said)
            except UnavailableError as error:
                yield _of_absence(of, error)
                if number:
                    continue
                if server is not None:
                    self._said[server] = of
                return
            except Exception as error:  # noqa: BLE001  (any error: the other checks go on)
                yield from _unsaid(_of_error(of, error), said)


def _unsaid(finding: CheckFinding, said: set[tuple[Level, str]]) -> Iterator[CheckFinding]:
    """Yield a finding unless it was reported before, even by another check."""
    statement = (finding.level, re.sub(r" \(while [^)]*\)", "", finding.finding))
    if statement not in said:
        said.add(statement)
        yield finding


def of_refusals(
    of: str,
    ask: Callable[[], Coroutine[Any, Any, Sequence[Refusal]]],
    allowed: str,
    others: Mapping[str, str] | None = None,
) -> Generator[CheckFinding, None, Collection[str]]:
    """Query what an account may not do, and return it; ``allowed`` is the text if nothing is refused.

    ``others`` may be refused without a problem, and why; reported if nothing else is refused.
    """
    others = others or {}
    try:
        refusals = drive(ask())
    except NotPermittedError as error:
        finding = f"what its account may do could not be asked: {error.problem}"
        yield CheckFinding(of, Level.WARNING, finding, error.remedy)
        return []
    refused = {refusal.doing for refusal in refusals} - set(others)
    if not refused:
        yield CheckFinding(of, Level.OK, f"its account may {allowed}")
    for doing, what, remedy in refusals:
        if refused and doing in others:
            continue
        level, note = (Level.OK, f" ({others[doing]})") if doing in others else (Level.PROBLEM, "")
        yield CheckFinding(of, level, f"it may not {doing}{note}: {what}", remedy)
    return refused


def _of_absence(of: str, error: UnavailableError) -> CheckFinding:
    why = f" ({first_line(error.__cause__)})" if error.__cause__ is not None else ""
    remedy = "start the server, or correct its address in the URL; triggers wait for it until then"
    return CheckFinding(of, Level.PROBLEM, f"{text_of(error)}{why}", remedy)


def _of_error(of: str, error: Exception) -> CheckFinding:
    if isinstance(error, ConfigurationError):
        return CheckFinding(of, Level.PROBLEM, f"{error.setting}: {error.problem}", error.remedy)
    return CheckFinding(of, Level.PROBLEM, f"{type(error).__name__}: {text_of(error)}", "see --verbose")
