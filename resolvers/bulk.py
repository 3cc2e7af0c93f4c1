"""Resolvers for many messages at a time, for pipelines; the names of their parameters show their shape.

==================================  ==================================================================
``(uuid, trigger_name, message)``   a resolver as in :mod:`resolvers.resolution`, called row by row
``(uuids, trigger_name, messages)`` gets sequences of one length, and returns a sequence of that length
``(rows, trigger_name)``            gets a DataFrame of Spark, and returns a DataFrame
==================================  ==================================================================

The last one is called on the driver. ``rows`` has the stream's columns and ``doubtless_uuid``, the identity;
the answer has ``doubtless_uuid``, ``resolution`` (NEW, DUPLICATE or IN_DOUBT) and, optionally, ``reason``. A
row without an answer, or with a wrong one, is In Doubt. A sequence resolver may also take ``evidences``.
"""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol, cast

from history.bridge import settled
from history.errors import ConfigurationError
from history.message import Message
from history.support.user_code import makes_coroutine, makes_generator
from resolvers.loading import load_resolver
from resolvers.resolution import (
    Answer,
    AskedResolver,
    Evidence,
    NonsenseAnswerError,
    Resolved,
    Resolver,
    asking,
    checked,
    resolver_name,
)

#: The column with the identity of a row.
UUID_COLUMN = "doubtless_uuid"


class AnswerShape(Enum):
    """How many messages a resolver takes at a time."""

    ROW = "row"
    SEQUENCE = "sequence"
    DATAFRAME = "dataframe"


class SequenceResolver(Protocol):
    """A resolver of many messages; it returns one answer for each, in their order."""

    def __call__(
        self, uuids: Sequence[str], trigger_name: str, messages: Sequence[Message]
    ) -> Sequence[Answer]:
        """Say what each message is."""
        ...


class DataFrameResolver(Protocol):
    """A resolver of many rows; both DataFrames are Spark's."""

    def __call__(self, rows: Any, trigger_name: str) -> Any:
        """Say what each row is."""
        ...


#: Any resolver for a pipeline.
BulkResolver = Resolver | SequenceResolver | DataFrameResolver


@dataclass(frozen=True, slots=True)
class AskedInBulk:
    """A resolver of any shape. Made by :func:`asking_in_bulk`."""

    name: str
    shape: AnswerShape
    _resolver: Callable[..., Any]
    _row: AskedResolver | None = None
    _wants_evidence: bool = False

    @property
    def function(self) -> Callable[..., Any]:
        """The user's resolver itself."""
        return self._resolver

    @property
    def shipped(self) -> "AskedInBulk":
        """The same without the part that only the driver can call."""
        if self.shape is not AnswerShape.DATAFRAME:
            return self
        return AskedInBulk(self.name, self.shape, _ask_the_driver)

    async def ask(
        self,
        uuids: Sequence[str],
        trigger_name: str,
        messages: Sequence[Message],
        evidences: Sequence[Evidence],
    ) -> Sequence[Resolved | Exception]:
        """Return an answer for each message, checked, or the exception instead of it.

        An exception of a sequence resolver is the answer for all of its messages.
        """
        if self._row is not None:
            asked = zip(uuids, messages, evidences, strict=True)
            return [await _one(self._row, uuid, trigger_name, *rest) for uuid, *rest in asked]
        extra = {"evidences": evidences} if self._wants_evidence else {}
        try:
            own = [message.copied() for message in messages]
            called = self._resolver(uuids=uuids, trigger_name=trigger_name, messages=own, **extra)
            answers = list(await settled(called))
            if len(answers) != len(uuids):
                return [
                    NonsenseAnswerError(self.name, f"{len(answers)} answers for {len(uuids)} uuids")
                ] * len(uuids)
        except Exception as error:  # noqa: BLE001  (the resolver is user code)
            return [error] * len(uuids)
        return [_checked(self.name, answer) for answer in answers]

    def ask_rows(self, rows: Any, trigger_name: str) -> Any:
        """Return the DataFrame that a DataFrame resolver answers.

        Raises:
            ConfigurationError: it answers something else, or lacks a column.
        """
        answers = self._resolver(rows=rows, trigger_name=trigger_name)
        there = {name.lower() for name in getattr(answers, "columns", ())}
        missing = [name for name in (UUID_COLUMN, "resolution") if name not in there]
        if missing:
            raise ConfigurationError(
                f"resolver {self.name}",
                f"its answer has no column {missing[0]!r}",
                f"return a DataFrame with the columns {UUID_COLUMN} and resolution",
            )
        return answers


def asking_in_bulk(resolver: BulkResolver | str | None) -> AskedInBulk | None:
    """Find out how to call ``resolver``, which may be a name; None for none.

    Raises:
        ConfigurationError: it cannot be loaded, has none of the three shapes, or a call runs nothing of it.
    """
    loaded = cast("Any", load_resolver(cast("Any", resolver)))
    if loaded is None:
        return None
    name = resolver_name(loaded)
    parameters = _parameters(name, loaded)
    if {"rows", "trigger_name"} <= parameters.keys():
        if makes_coroutine(loaded) or makes_generator(loaded):
            raise ConfigurationError(
                f"resolver {name}",
                "a call of it runs nothing: it is a coroutine function or a generator function",
                "write a plain function that returns a DataFrame",
            )
        return AskedInBulk(name, AnswerShape.DATAFRAME, loaded)
    if {"uuids", "trigger_name", "messages"} <= parameters.keys():
        return AskedInBulk(name, AnswerShape.SEQUENCE, loaded, None, "evidences" in parameters)
    return AskedInBulk(name, AnswerShape.ROW, loaded, asking(loaded))


def _parameters(name: str, resolver: Any) -> dict[str, inspect.Parameter]:
    try:
        return dict(inspect.signature(resolver).parameters)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(
            f"resolver {name}", "its signature cannot be read", "wrap it in a function"
        ) from error


def _ask_the_driver(**_: Any) -> Any:
    raise ConfigurationError(
        "resolver", "a resolver of DataFrames works on the Spark driver only", "call it there"
    )


async def _one(
    resolver: AskedResolver, uuid: str, trigger_name: str, message: Any, evidence: Any
) -> Resolved | Exception:
    try:
        return await resolver.ask(uuid, trigger_name, message, evidence)
    except Exception as error:  # noqa: BLE001  (the resolver is user code)
        return error


def _checked(name: str, answer: object) -> Resolved | Exception:
    try:
        return checked(name, answer)
    except NonsenseAnswerError as error:
        return error
