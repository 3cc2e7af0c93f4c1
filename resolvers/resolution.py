"""The resolver: its arguments, its answers, and how to call it.

doubtless asks a resolver when the delivery count and the document history cannot tell whether a message was
processed. It is the user's function, so nothing about it is taken for granted: :func:`asking` reads its
signature once, and every answer is checked before it is used.
"""

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal, Protocol, cast

from history.bridge import settled
from history.errors import ConfigurationError, DoubtlessError
from history.message import Message, Uuid
from history.store.parking import Evidence as Evidence  # noqa: PLC0414  (so checkers see it exported)


class Resolution(StrEnum):
    """The answer of a resolver about a message."""

    NEW = "NEW"  # the service runs
    DUPLICATE = "DUPLICATE"  # the service does not run; the message is done
    IN_DOUBT = "IN_DOUBT"  # the service does not run; the message is parked until somebody decides


@dataclass(frozen=True, slots=True)
class Resolved:
    """A resolution with its reason.

        return Resolved(Resolution.DUPLICATE, "the booking is there")

    doubtless logs the reason, and keeps it with a parked message.
    """

    resolution: Resolution
    reason: str | None = None


#: The evidence without an entry: nothing is known.
NO_EVIDENCE = Evidence()

#: The possible answers of a resolver. The three texts are those of the reference system.
Answer = Resolution | Resolved | Literal["NEW", "DUPLICATE", "IN_DOUBT"]


class NamedResolver(Protocol):
    """A resolver that is called by keyword, so its parameters may have any order."""

    def __call__(self, *, uuid: Uuid, trigger_name: str, message: Message) -> Answer | Awaitable[Answer]:
        """Say what ``message`` is."""
        ...


class EvidenceResolver(Protocol):
    """A resolver that also takes the evidence of the earlier run."""

    def __call__(
        self, *, uuid: Uuid, trigger_name: str, message: Message, evidence: Evidence
    ) -> Answer | Awaitable[Answer]:
        """Say what ``message`` is, in the light of ``evidence``."""
        ...


class PositionalResolver(Protocol):
    """A resolver with other names for its parameters."""

    def __call__(self, uuid: Uuid, trigger_name: str, message: Message, /) -> Answer | Awaitable[Answer]:
        """Say what ``message`` is."""
        ...


class PositionalEvidenceResolver(Protocol):
    """A resolver with other names for its parameters, except ``evidence``."""

    def __call__(
        self, uuid: Uuid, trigger_name: str, message: Message, /, *, evidence: Evidence
    ) -> Answer | Awaitable[Answer]:
        """Say what ``message`` is, in the light of ``evidence``."""
        ...


#: Any of the above, blocking or asynchronous.
Resolver = NamedResolver | EvidenceResolver | PositionalResolver | PositionalEvidenceResolver


class NonsenseAnswerError(DoubtlessError, TypeError):
    """A resolver's answer is not a resolution; this includes None, the forgotten ``return``."""

    def __init__(self, resolver: str, answer: object) -> None:
        super().__init__(
            f"{resolver} answered {_shown(answer)}; return Resolution.NEW, DUPLICATE or IN_DOUBT, "
            "or a Resolved holding one of them"
        )
        self.resolver = resolver
        self.answer = answer


class Asked(Protocol):
    """Gives the last word, with a checked answer."""

    async def ask(
        self, uuid: str, trigger_name: str, message: Message, evidence: Evidence = NO_EVIDENCE
    ) -> Resolved:
        """Return the answer.

        Raises:
            Exception: it gave no valid answer.
        """
        ...


@dataclass(frozen=True, slots=True)
class AskedResolver:
    """A resolver of any shape, called in one way. Made by :func:`asking`; as thread-safe as the resolver."""

    name: str
    _resolver: Callable[..., Any]
    _by_keyword: bool
    _wants_evidence: bool

    @property
    def function(self) -> Callable[..., Any]:
        """The resolver as it was given."""
        return self._resolver

    async def ask(
        self, uuid: str, trigger_name: str, message: Message, evidence: Evidence = NO_EVIDENCE
    ) -> Resolved:
        """Return the resolver's answer, checked. Never suspends unless the resolver does.

        Raises:
            NonsenseAnswerError: the answer is not a resolution.
            Exception: whatever the resolver raised, untouched.
        """
        # A separate message: if a resolver changes the body, the received message stays unchanged.
        offered = {"uuid": uuid, "trigger_name": trigger_name, "message": message.copied()}
        extra = {"evidence": evidence} if self._wants_evidence else {}
        if self._by_keyword:
            answer = self._resolver(**offered, **extra)
        else:
            answer = self._resolver(*offered.values(), **extra)
        return checked(self.name, await settled(answer))


def asking(resolver: Resolver) -> AskedResolver:
    """Find out, once, how to call ``resolver``.

    If it takes ``uuid``, ``trigger_name`` and ``message`` by these names, it is called by keyword, else with
    the three in this order. ``evidence`` is passed if a parameter (or ``**kwargs``) takes it.

    Raises:
        ConfigurationError: ``resolver`` is not callable, or cannot take a resolver's arguments.
    """
    name = resolver_name(resolver)
    function = cast("Callable[..., Any]", resolver)
    signature = _signature(name, function)
    wants_evidence = _takes_evidence(signature)
    extra = {"evidence": None} if wants_evidence else {}
    if _binds(signature, **dict.fromkeys(_NAMES), **extra):
        return AskedResolver(name, function, _by_keyword=True, _wants_evidence=wants_evidence)
    if _binds(signature, *_NAMES, **extra) and not _out_of_order(signature):
        return AskedResolver(name, function, _by_keyword=False, _wants_evidence=wants_evidence)
    raise _misfit(name, f"{signature} cannot take uuid, trigger_name and message")


def resolver_name(resolver: object) -> str:
    """Name a resolver for errors and logs: never by its repr, which may contain a password."""
    named: Any = getattr(resolver, "func", resolver)  # a functools.partial has the name of its function
    if not hasattr(named, "__qualname__"):
        named = cast("Any", type(named))
    return f"{named.__module__ or 'builtins'}.{named.__qualname__}"


_NAMES = ("uuid", "trigger_name", "message")

#: How much of a wrong answer an error repeats, in characters.
_LONGEST_ANSWER = 60


def _signature(name: str, function: Callable[..., Any]) -> inspect.Signature:
    if not callable(function):
        raise ConfigurationError(
            "resolver",
            f"{function!r:.60} is not callable",
            "give a function, or load it by its name with load_resolver(...)",
        )
    try:
        return inspect.signature(function)
    except ValueError as error:
        raise _misfit(name, "its signature cannot be read") from error


def _misfit(name: str, problem: str) -> ConfigurationError:
    return ConfigurationError(
        f"resolver {name}",
        problem,
        "define it as (uuid, trigger_name, message) or with evidence as the fourth",
    )


def _takes_evidence(signature: inspect.Signature) -> bool:
    named = signature.parameters.get("evidence")
    if named is not None and named.kind in (named.POSITIONAL_OR_KEYWORD, named.KEYWORD_ONLY):
        return True
    return any(parameter.kind is parameter.VAR_KEYWORD for parameter in signature.parameters.values())


def _binds(signature: inspect.Signature, *args: object, **kwargs: object) -> bool:
    try:
        signature.bind(*args, **kwargs)
    except TypeError:
        return False
    return True


def _out_of_order(signature: inspect.Signature) -> bool:
    """Whether a positional call would pass, for example, the uuid to a parameter called ``message``."""
    pairs = zip(signature.parameters, _NAMES, strict=False)
    return any(name in _NAMES and name != expected for name, expected in pairs)


def checked(name: str, answer: object) -> Resolved:
    """Return the meaning of an answer.

    Raises:
        NonsenseAnswerError: it is not a resolution.
    """
    # Resolved checks nothing when it is made: an exception from inside the resolver would not name it.
    verdict, reason = _parts(answer) if isinstance(answer, Resolved) else (answer, None)
    if not isinstance(verdict, str) or not isinstance(reason, str | None):
        raise NonsenseAnswerError(name, answer)
    try:
        return Resolved(Resolution(verdict), reason)
    except ValueError:
        raise NonsenseAnswerError(name, answer) from None


def _parts(answer: Resolved) -> tuple[object, object]:
    return answer.resolution, answer.reason


def _shown(answer: object) -> str:
    """Describe a wrong answer; a larger value only by its type, because it may be the message itself."""
    if answer is None or isinstance(answer, str | int | float):
        return f"{answer!r:.{_LONGEST_ANSWER}}"
    if isinstance(answer, Resolved):
        return f"Resolved({_shown(answer.resolution)}, {_shown(answer.reason)})"
    return f"a {type(answer).__qualname__}"
