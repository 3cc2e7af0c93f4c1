"""The common part of all searches for an effect, in any place.

A probe looks in one place. It is written once as ``async def``; :class:`BlockingEffectResolver` drives it
over a blocking client, :class:`AsyncEffectResolver` awaits it over an asyncio one.
"""

import string
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Protocol

from history.bridge import drive
from history.errors import ConfigurationError, UnavailableError
from history.message import Message
from resolvers.resolution import Resolution, Resolved

#: Values by which an effect can be searched.
SEARCHED_BY = ("uuid", "trigger_name", "message_id", "correlation_id")

#: Values that differ between messages; a search without them would find the same for every message.
_TELLING = frozenset(SEARCHED_BY) - {"trigger_name"}


class EffectUnavailableError(UnavailableError):
    """The place of the effects did not answer, so nothing is known. Transient."""

    def __init__(self, where: str, uuid: str, problem: str | None = None) -> None:
        doing = f"looking for the effect of {uuid!r:.80}"
        super().__init__(where, doing if problem is None else f"{doing}: {problem}")


@dataclass(frozen=True, slots=True)
class Location:
    """Where to look for effects, the name of the place in a reason, and the meaning of a missing effect.

    ``name`` never contains a password.
    """

    name: str
    searched_by: frozenset[str]
    absent: Resolution

    def __post_init__(self) -> None:
        if self.absent is Resolution.DUPLICATE:
            raise ConfigurationError(
                "absent",
                "DUPLICATE would drop every message without an effect",
                "use NEW, or IN_DOUBT where an absent effect does not prove that nothing happened",
            )

    def has_it(self, detail: str = "") -> Resolved:
        """Answer that the effect happened."""
        return Resolved(Resolution.DUPLICATE, f"the effect is in {self.name}{detail}")

    def lacks_it(self, detail: str = "") -> Resolved:
        """Answer that the effect did not happen, or not yet."""
        return Resolved(self.absent, f"no effect in {self.name}{detail}")

    def unsure(self, why: str) -> Resolved:
        """Answer that nobody knows, and why."""
        return Resolved(Resolution.IN_DOUBT, f"{self.name}: {why}")


class Probe(Protocol):
    """Looks in one place."""

    @property
    def location(self) -> Location:
        """Where it looks."""
        ...

    @property
    def awaits(self) -> bool:
        """Whether its client is an asyncio client."""
        ...

    async def look(self, identities: Mapping[str, str], uuid: str) -> Resolved:
        """Look for the effect of ``uuid`` by ``identities``, a value for each of ``location.searched_by``.

        Raises:
            EffectUnavailableError: the place did not answer.
        """
        ...


@dataclass(frozen=True, slots=True)
class BlockingEffectResolver:
    """A resolver that looks for the effect with a blocking client."""

    probe: Probe

    def __call__(self, uuid: str, trigger_name: str, message: Message) -> Resolved:
        """Say whether the effect of ``message`` exists."""
        return drive(_resolve(self.probe, uuid, trigger_name, message))


@dataclass(frozen=True, slots=True)
class AsyncEffectResolver:
    """A resolver that looks for the effect with an asyncio client."""

    probe: Probe

    async def __call__(self, uuid: str, trigger_name: str, message: Message) -> Resolved:
        """Say whether the effect of ``message`` exists."""
        return await _resolve(self.probe, uuid, trigger_name, message)


async def _resolve(probe: Probe, uuid: str, trigger_name: str, message: Message) -> Resolved:
    values = {
        "uuid": uuid,
        "trigger_name": trigger_name,
        "message_id": message.message_id,
        "correlation_id": message.correlation_id,
    }
    by = probe.location.searched_by
    identities = {name: value for name, value in values.items() if name in by and value is not None}
    # A missing value finds nothing, and finding nothing would read as NEW.
    if lacking := sorted(by - identities.keys()):
        return probe.location.unsure(f"the message has no {' and no '.join(lacking)}")
    return await probe.look(identities, uuid)


def searched_by(setting: str, names: Iterable[str]) -> frozenset[str]:
    """Check the names by which a statement or template searches.

    Raises:
        ConfigurationError: one of them is unknown, or none differs between messages.
    """
    parameters = frozenset(names)
    for name in sorted(parameters - frozenset(SEARCHED_BY)):
        close = get_close_matches(name, SEARCHED_BY, n=1)
        remedy = f"did you mean {close[0]!r}?" if close else f"use one of {', '.join(SEARCHED_BY)}"
        raise ConfigurationError(setting, f"cannot search by {name!r}", remedy)
    if not parameters & _TELLING:
        raise ConfigurationError(
            setting,
            "searches by nothing that differs between messages, so all of them would get the same answer",
            f"search by one of {', '.join(sorted(_TELLING))}",
        )
    return parameters


def placeholders(setting: str, template: str) -> frozenset[str]:
    """Return the names in ``{braces}`` of a template, checked as by :func:`searched_by`."""
    try:
        parsed = list(string.Formatter().parse(template))
    except ValueError as error:
        raise ConfigurationError(setting, f"its braces do not match ({error})", "write {uuid}") from error
    if any(field is not None and (form or conversion) for _, field, form, conversion in parsed):
        raise ConfigurationError(
            setting, "its placeholders have a format or conversion", "write {uuid} alone"
        )
    return searched_by(setting, (field for _, field, _, _ in parsed if field is not None))
