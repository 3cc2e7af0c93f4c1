"""The conformance suite of resolvers: run it before you trust messages to a resolver.

A resolver's author subclasses :class:`ResolverContract` in a test module and provides three fixtures::

    class TestAlreadyBooked(ResolverContract):
        @pytest.fixture
        def resolver(self) -> Resolver: ...

        @pytest.fixture
        def done(self) -> Message: ...      # the service ran to its end: its effect exists

        @pytest.fixture
        def undone(self) -> Message: ...    # the service never ran: it has left nothing

Every check is an ``async def``, so pytest-asyncio runs it (``asyncio_mode = "auto"``); if a check asks many
times at a time, it asks a blocking resolver from threads. For readable failures, add
``pytest.register_assert_rewrite("resolvers.contract")`` to ``conftest.py``.

A resolver may always answer IN_DOUBT for a message that is not done, and, without evidence, for a done one.
"""

import asyncio
import inspect
from datetime import UTC, datetime

from history.bridge import drive
from history.errors import MissingExtraError
from history.message import Message
from resolvers.resolution import NO_EVIDENCE, Evidence, Resolution, Resolved, Resolver, asking

try:
    import pytest
except ModuleNotFoundError as error:
    raise MissingExtraError(
        "the conformance suite of resolvers", extra="contract", package="pytest"
    ) from error

#: Evidence of a run that ended long ago: no resolver needs to wait for it.
OLD_EVIDENCE = Evidence(
    owner="worker-1", started_at=datetime(2020, 1, 1, tzinfo=UTC), fence=1, delivery_count=2
)

#: Identities that a careless search takes for a pattern, a path, or a piece of a statement.
STRANGE_IDENTITIES = (
    "' OR '1'='1",
    '"; DROP TABLE bookings; --',
    "%",
    "_",
    "*",
    "..",
    "../",
    "a/b?c=d#e",
    "{uuid}",
    "%s%n",
    " ",
    "line\nbreak",
    "Straße 日本 \U0001f4e6",
    "x" * 1000,
)

#: How many questions at a time: as a trigger with that concurrency, after its history did not answer.
AT_ONCE = 8


class ResolverContract:
    """The checks for every resolver; subclass it with the three fixtures."""

    #: The trigger name in the questions. Override it for a resolver that serves only one trigger.
    trigger_name = "resolver-contract"

    async def test_a_message_that_is_done_is_a_duplicate(self, resolver: Resolver, done: Message) -> None:
        """Answering NEW here would run the service twice."""
        answer = await self.ask(resolver, done, OLD_EVIDENCE)

        assert answer.resolution is Resolution.DUPLICATE

    async def test_a_message_that_is_not_done_is_no_duplicate(
        self, resolver: Resolver, undone: Message
    ) -> None:
        """Answering DUPLICATE here would lose the message."""
        answer = await self.ask(resolver, undone, OLD_EVIDENCE)

        assert answer.resolution is not Resolution.DUPLICATE

    async def test_without_evidence_a_message_that_is_done_is_not_new(
        self, resolver: Resolver, done: Message
    ) -> None:
        """A history that is off or unreachable has no evidence to give."""
        answer = await self.ask(resolver, done, NO_EVIDENCE)

        assert answer.resolution is not Resolution.NEW

    async def test_without_evidence_a_message_that_is_not_done_is_no_duplicate(
        self, resolver: Resolver, undone: Message
    ) -> None:
        """As above: missing knowledge is not a reason to lose a message."""
        answer = await self.ask(resolver, undone, NO_EVIDENCE)

        assert answer.resolution is not Resolution.DUPLICATE

    async def test_asked_twice_it_answers_the_same(
        self, resolver: Resolver, done: Message, undone: Message
    ) -> None:
        """A message comes back if the answer could not be used, so asking must not consume the answer."""
        for message in (done, undone):
            first = await self.ask(resolver, message, OLD_EVIDENCE)
            second = await self.ask(resolver, message, OLD_EVIDENCE)

            assert second.resolution is first.resolution

    async def test_it_leaves_the_message_as_it_was(
        self, resolver: Resolver, done: Message, undone: Message
    ) -> None:
        """A JSON body can be changed in place, and then the service would get the changed body."""
        for message in (done, undone):
            before = message.model_copy(deep=True)

            await self.ask(resolver, message, OLD_EVIDENCE)

            assert message == before

    @pytest.mark.parametrize("identity", STRANGE_IDENTITIES)
    async def test_a_strange_identity_is_no_duplicate_and_no_error(
        self, resolver: Resolver, undone: Message, identity: str
    ) -> None:
        """The sender of a message chooses its identity."""
        changed = {"uuid": identity, "message_id": identity, "correlation_id": identity}
        properties = {**undone.properties, "uuid": identity}
        message = undone.model_copy(update={**changed, "properties": properties})

        answer = await self.ask(resolver, message, OLD_EVIDENCE)

        assert answer.resolution is not Resolution.DUPLICATE

    async def test_many_at_once_get_the_answers_of_one(
        self, resolver: Resolver, done: Message, undone: Message
    ) -> None:
        """A trigger may run several services at a time, and so ask several times in parallel."""
        messages = [done, undone] * AT_ONCE

        answers = await asyncio.gather(*(self._ask_elsewhere(resolver, message) for message in messages))

        for message, answer in zip(messages, answers, strict=True):
            assert (answer.resolution is Resolution.DUPLICATE) == (message is done)

    async def ask(self, resolver: Resolver, message: Message, evidence: Evidence) -> Resolved:
        """Ask as a trigger does; nonsense raises."""
        return await asking(resolver).ask(message.uuid or "", self.trigger_name, message, evidence)

    async def _ask_elsewhere(self, resolver: Resolver, message: Message) -> Resolved:
        asked = self.ask(resolver, message, OLD_EVIDENCE)
        if inspect.iscoroutinefunction(resolver) or inspect.iscoroutinefunction(type(resolver).__call__):
            return await asked
        return await asyncio.to_thread(drive, asked)
