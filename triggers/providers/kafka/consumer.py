"""One consumer of a Kafka topic: a wire of the receiver for brokers that push, and a group's receiver."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from datetime import timedelta
from typing import Any, cast

from history.message import UNDEFINED_COUNT, Message
from history.shell import Shell
from triggers.providers.brokers.push_receiver import Inbox, PushReceiver, PushToken
from triggers.providers.brokers.sending import DeadLetter
from triggers.providers.kafka.codec import Consumed, decode, raw_fields
from triggers.providers.kafka.connection import Member
from triggers.providers.kafka.membership import JOINING, LEAVING, PATIENCE, Membership
from triggers.providers.provider import RECEIVE_WAIT, Limits, ProviderUnavailableError, Received

#: Returns a message's delivery count from the broker's number.
CountOf = Callable[[int], int]

#: Returns the identity of a message from its place, if the message has no identity.
KnownBy = Callable[[Consumed], str]


class KafkaConsumer:
    """A member of its group while a caller receives, or a service runs."""

    def __init__(
        self,
        join: Callable[[Inbox], Membership],
        count_of: CountOf,
        shell: Shell,
        *,
        known_by: KnownBy | None = None,
        joining: dict[int, Membership] | None = None,
    ) -> None:
        self._join = join
        #: Members that a caller waits for, of all consumers of a provider.
        self._joining = {} if joining is None else joining
        self._known_by = known_by
        self._count_of = count_of
        self._shell = shell
        self._member: Membership | None = None

    async def open(self, inbox: Inbox) -> None:
        """Join the group, and wait for a share of its partitions."""
        self._leave_soon()
        member = self._join(inbox)
        member.start()
        self._member = member
        await self._wait_for(member, member.ready, "connecting")

    def _leave_soon(self) -> None:
        member, self._member = self._member, None
        if member is not None:
            member.leave()

    async def _wait_for(self, member: Membership, future: "Future[None]", doing: str) -> None:
        self._joining[id(member)] = member
        try:
            await self._wait(future, doing, JOINING)
        finally:
            self._joining.pop(id(member), None)

    async def _wait(self, future: "Future[None]", doing: str, seconds: float = PATIENCE) -> None:
        try:
            await self._shell.result(future, seconds)
        except TimeoutError as error:
            raise ProviderUnavailableError("Kafka", doing) from error

    async def want(self, count: int) -> None:
        """Let the thread bring so many, after it has joined."""
        member = self._living()
        member.want(count)
        if not member.joined().done():
            await self._wait_for(member, member.joined(), "joining its group")

    def want_next(self, count: int) -> None:
        """Let the thread bring so many while a caller works, if it is still a member."""
        member = self._member
        if member is not None and not member.over:
            member.want(count)

    async def stop(self) -> None:
        """Let it bring no more, and wait for what is on its way."""
        await self._wait(self._living().stopped(), "stopping")

    def stop_soon(self) -> None:
        """Let it bring no more."""
        if self._member is not None:
            self._member.stop_soon()

    def accept(self, tokens: Sequence[PushToken]) -> None:
        """Settle these."""
        self._living().settle(tokens)

    def give_back(self, tokens: Sequence[PushToken], delay: timedelta) -> None:
        """Let these be delivered again when the delay has passed, by this consumer or another."""
        self._living().give_back(tokens, delay.total_seconds(), seen=True)

    def release(self, tokens: Sequence[PushToken]) -> None:
        """Let these be delivered again; nobody has seen them."""
        self._living().give_back(tokens, 0.0, seen=False)

    async def hand_out_in_order(self) -> None:
        """Let what was given back come next, in order."""
        await self.stop()
        member = self._living()
        if isinstance(member, Member):
            member.hand_out_in_order()

    def take_moved(self) -> bool:
        """Whether a partition with unsettled messages went to another consumer since the last call."""
        return isinstance(self._member, Member) and self._member.take_moved()

    def take_refusals(self) -> int:
        """Return how many commits were refused since the last call."""
        return self._member.refusals.take() if isinstance(self._member, Member) else 0

    def decode(self, raw: Any, limits: Limits) -> Message:
        """Read a record."""
        consumed: Consumed = raw
        count = consumed.delivery_count
        if count != UNDEFINED_COUNT and (weighed := self._count_of(count)) != count:
            consumed = consumed._replace(delivery_count=weighed)
        message = decode(consumed, limits)
        return message if self._known_by is None else message.known_by(self._known_by(consumed))

    def raw_fields(self, raw: Any) -> Mapping[bytes, bytes]:
        """Return an unreadable record as it came."""
        return raw_fields(cast("Consumed", raw))

    async def close(self, tokens: Sequence[PushToken]) -> None:  # noqa: ARG002  (what is not committed comes again)
        """Commit what is settled, and leave."""
        member, self._member = self._member, None
        if member is not None and not member.over:
            await self._wait(member.leave(), "leaving", LEAVING)

    def _living(self) -> Membership:
        member = self._member
        if member is None or member.over:
            gone = ProviderUnavailableError("Kafka", "using a membership that has ended")
            raise gone from None if member is None else member.ended_by
        return member


class GroupReceiver(PushReceiver):
    """One consumer of a group; it can keep order, because messages of one key are in one partition.

    The member's thread also decodes messages, while the caller waits for its service and its history.
    """

    def __init__(self, consumer: KafkaConsumer, shell: Shell, dead_letter: DeadLetter) -> None:
        super().__init__(consumer, shell, dead_letter, name_of=name_of)
        self._consumer = consumer

    def _new_inbox(self) -> Inbox:
        return Inbox(self._read)

    def _handed_over(self, taken: Sequence[tuple[PushToken, Any]]) -> Sequence[Received]:
        return [received for _, received in taken]

    async def receive(self, limit: int, wait: timedelta = RECEIVE_WAIT) -> Sequence[Received]:
        """Return up to ``limit`` deliveries, and let as many come for the next call.

        Nobody misses these: the partitions are ours, and Kafka's client has fetched their messages anyway.
        """
        received = await super().receive(limit, wait)
        if received:
            self._consumer.want_next(limit)
        return received

    def take_fetched(self, limit: int) -> Sequence[Received]:
        """Return up to ``limit`` deliveries that have come meanwhile, and let as many come for the next call.

        After the end of the session there are none.
        """
        inbox = self._inbox
        if inbox is None or not inbox.size:
            return ()
        inbox.begin()
        taken = inbox.take(limit)
        inbox.end()
        self._consumer.want_next(limit)
        return self._hold(taken)

    async def hand_out_in_order(self) -> None:
        """Let recovered messages come next, in the order of each partition; a new session does so anyway."""
        if self._inbox is not None:
            await self._guarded(self._consumer.hand_out_in_order)

    def take_moved(self) -> bool:
        """Whether a partition with unsettled messages went to another consumer since the last call."""
        return self._consumer.take_moved()

    def take_refusals(self) -> int:
        """Return how many commits of partitions were refused since the last call."""
        return self._consumer.take_refusals()


def name_of(raw: object) -> str:
    """Name a record by its place."""
    return raw.name if isinstance(raw, Consumed) else ""
