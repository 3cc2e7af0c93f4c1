"""A member of a consumer group, with its own thread that polls: the edge to confluent-kafka.

The thread asks for messages while a caller wants some, and keeps the membership alive whatever a service
does. It does more than a simple poll loop:

- It commits a message only when this message, and everything before it, is settled.
- It commits a partition before the partition is taken away.
- A slow service does not give a partition to others.
- A consumer that wants nothing for a while leaves, so that others get its partitions.
"""

import heapq
import logging
import time
from collections.abc import Iterable, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any

from triggers.providers.brokers.push_receiver import Inbox, PushToken
from triggers.providers.kafka.beginnings import Losses, committed_by, resumed
from triggers.providers.kafka.codec import Consumed
from triggers.providers.kafka.driver import driver, made
from triggers.providers.kafka.errors import AT_END, Refusals
from triggers.providers.kafka.membership import LOOK, PATIENCE, SHARING, Membership, record_of
from triggers.providers.kafka.offsets import Partition
from triggers.providers.kafka.settings import Start
from triggers.providers.provider import ProviderUnavailableError

if TYPE_CHECKING:  # it loads SQLAlchemy
    from triggers.providers.kafka.positions import Positions

_log = logging.getLogger(__name__)

#: How often settled offsets are committed, in seconds; also when a partition is taken away.
_COMMITTING = 0.2

#: After so many seconds in which nobody wants a message, Kafka's client stops fetching.
_PAUSING = 0.5

#: How many messages one poll brings at most.
_MOST = 500

#: The due time of what waits until somebody wants it: before that of all that comes again.
_LEFT = 0.0

#: The partition of a delivery, and the record itself: it is handed out again from here.
HandedRecord = tuple[Partition, Consumed]


class Member(Membership):
    """One consumer in its group, from joining to leaving."""

    def __init__(
        self,
        settings: dict[str, Any],
        topic: str,
        inbox: Inbox,
        *,
        positions: "Positions | None" = None,
        start: Start = "earliest",
    ) -> None:
        super().__init__(settings, topic, inbox)
        self._start: Start = start
        self._losses = Losses()
        #: Where its partitions begin, if that is kept in SQL.
        self._positions = positions
        self._partitions: dict[int, Partition] = {}
        self._handed: set[PushToken] = set()
        #: Handed out, and not in the inbox yet: what comes together goes there together.
        self._ready: list[tuple[PushToken, Consumed]] = []
        #: Due time, offset, and a number, so that two messages never compare equal.
        self._waiting: list[tuple[float, int, int, HandedRecord]] = []
        self._numbers = count()
        self._shared = self._moved = False
        #: Its first partitions, until each has said that it has no message, or one has brought one.
        self._unheard: set[int] = set()
        self._joined = self._paused = False
        self._committed_at = time.monotonic()
        self.refusals = Refusals(topic)

    # Called by the receiver's thread.

    def settle(self, tokens: Sequence[PushToken]) -> None:
        """Note that these are settled; they are committed within a moment."""
        positions = self._positions
        with self._lock:
            self._handed.difference_update(tokens)
            for token in tokens:
                handed: HandedRecord = token.tag
                partition, came = handed
                partition.settle(came.offset)
                if positions is not None:
                    positions.settle(partition, came.offset)

    def give_back(self, tokens: Sequence[PushToken], seconds: float, *, seen: bool) -> None:
        """Hand these out again, not before so many seconds have passed; what nobody has seen comes next."""
        due = time.monotonic() + seconds if seen else _LEFT
        with self._lock:
            for token in tokens:
                self._handed.discard(token)
                handed: HandedRecord = token.tag
                self._wait(handed, due, seen=seen)
        self._wake.set()

    def _wait(self, entry: HandedRecord, due: float, *, seen: bool) -> None:
        partition, was = entry
        if partition.gone:
            return  # another consumer has it
        again = was._replace(again=was.again or seen)
        # Messages that are due together come in the order of their partition.
        heapq.heappush(self._waiting, (due, was.offset, next(self._numbers), (partition, again)))

    def hand_out_in_order(self) -> None:
        """Hand out waiting messages next, each partition in order; the caller has awaited :meth:`stopped`."""
        with self._lock:
            unseen = [token for token, _ in self._inbox.take(self._inbox.size)]
            self._handed.difference_update(unseen)
            waiting = [entry for *_, entry in self._waiting] + [token.tag for token in unseen]
            self._waiting.clear()
            for entry in waiting:
                self._wait(entry, _LEFT, seen=False)

    def take_moved(self) -> bool:
        """Whether a partition with unsettled messages went away since the last call."""
        with self._lock:
            moved, self._moved = self._moved, False
        return moved

    # Runs on the thread.

    def _begin(self) -> None:
        callbacks = {
            "error_cb": self._on_error,
            "on_commit": self._on_commit,
        }
        self._consumer = made(driver.Consumer, self._settings | callbacks)
        self._find_topic()
        self._join()
        self._look_into_its_share()

    def _client(self) -> Any:
        return self._consumer

    def _look_into_its_share(self) -> None:
        """Wait for partitions of the group, and for their answers: no queue looks empty before.

        A caller who consumes until nothing comes would otherwise end before its broker has answered.
        """
        deadline = time.monotonic() + SHARING
        while not (self._has_looked or self._closing or self._error) and time.monotonic() < deadline:
            self._take(self._consumer.poll(LOOK))
        if not (self._shared or self._closing or self._error):
            _log.warning(
                "topic %s: Kafka has not shared out the group's partitions for %.0f s; this consumer waits",
                self._topic,
                SHARING,
            )

    @property
    def _has_looked(self) -> bool:
        return self._shared and not self._unheard

    def _join(self) -> None:
        self._joined = True
        self._consumer.subscribe(
            [self._topic], on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
        )

    def _turn(self) -> None:
        with self._lock:
            self._answer_all()
            wanted = self._credit
        if wanted > 0:
            self._receive()
        else:
            self._rest()
        self._commit_now_and_then()
        if self._positions is not None:
            self._positions.check(list(self._partitions.values()))
        self._leave_when_idle()

    def _receive(self) -> None:
        if not self._joined:
            self._join()
        if self._paused:
            self._fetch(wanted=True)
        self._hand_out_again()
        wanted = self._credit
        if wanted <= 0:
            return
        first = self._consumer.poll(self._until_due())
        if first is None:
            return
        self._take_one(first)
        if wanted > 1:
            # After that: a rebalance during this call commits what came before it.
            for message in self._consumer.consume(min(wanted - 1, _MOST), 0):
                self._take_one(message)
        self._push()

    def _until_due(self) -> float:
        with self._lock:
            if self._asked:
                return 0.0
            return min(LOOK, max(0.0, self._waiting[0][0] - time.monotonic())) if self._waiting else LOOK

    def _hand_out_again(self) -> None:
        with self._lock:
            while self._credit > 0 and self._waiting and self._waiting[0][0] <= time.monotonic():
                *_, (partition, came) = heapq.heappop(self._waiting)
                if not partition.gone:
                    self._hand_out(partition, came)
        self._push()

    def _hand_out(self, partition: Partition, came: Consumed) -> None:
        token = PushToken((partition, came))
        self._handed.add(token)
        self._credit -= 1
        self._ready.append((token, came))

    def _push(self) -> None:
        ready, self._ready = self._ready, []
        self._inbox.push_all(ready)

    def _take(self, message: Any | None) -> None:
        """Hand out what one poll has brought."""
        if message is not None:
            self._take_one(message)
            self._push()

    def _take_one(self, message: Any) -> None:
        if (error := message.error()) is not None:
            if error.code() == AT_END:
                self._unheard.discard(message.partition())
            else:
                self._on_error(error)
            return
        self._unheard.clear()
        number, offset = message.partition(), message.offset()
        partition = self._partitions.get(number)
        if partition is None:
            return  # no longer ours
        if offset != partition.next_offset:
            if partition.is_begun_anew_by(offset):
                partition = self._begin_anew(partition, offset)
            self._losses.look(self._consumer, partition, offset)
        with self._lock:
            again = partition.take(offset)
            if again is None:
                return  # settled by its previous consumer
            came = Consumed(partition.topic, number, offset, record_of(message), again)
            if self._credit > 0 and not self._has_left:
                self._hand_out(partition, came)
            else:  # nobody wants it any more, or not before those; it has been fetched, and waits here
                heapq.heappush(self._waiting, (_LEFT, offset, next(self._numbers), (partition, came)))

    @property
    def _has_left(self) -> bool:
        """Whether messages wait that nobody wanted when they came: all that come later follow them."""
        return bool(self._waiting) and self._waiting[0][0] == _LEFT

    def _begin_anew(self, partition: Partition, offset: int) -> Partition:
        """Forget a partition's position if its log goes back: the committed offset means nothing in it."""
        origin = (partition.topic, partition.number, offset, partition.position.next_offset)
        _log.error(
            "%s:%s goes back to offset %s, after %s messages were settled: the topic was recreated, or has "
            "lost messages; what it has is read from there",
            *origin,
        )
        with self._lock:
            partition.gone = True
            self._moved = self._moved or partition.has_open
            begun = self._partitions[partition.number] = Partition.new(*origin[:3])
        if self._positions is not None:  # its row decides what to do, when the partition is assigned
            self._error = ProviderUnavailableError("Kafka", "receiving from a topic that was recreated")
        return begun

    def _rest(self) -> None:
        """Fetch nothing for a while, but notice events of the group, including the loss of membership."""
        if self._joined and not self._paused and time.monotonic() - self._wanted_at > _PAUSING:
            self._fetch(wanted=False)
        if self._paused or not self._joined:
            self._take(self._consumer.poll(0))
        self._wake.wait(LOOK)
        self._wake.clear()

    def _leave_when_idle(self) -> None:
        unasked = self._inbox.take_unasked() if self._joined else None
        if unasked is None:
            return
        with self._lock:
            self._credit = 0
            if unasked:
                self.give_back(unasked, 0.0, seen=False)
            if self._handed:
                return
        if not self._commit(list(self._partitions.values()), waiting=True):
            return  # the group is rebalancing; the callback comes in a moment
        with self._lock:
            self._waiting.clear()
        self._joined = False
        self._fetch(wanted=True)
        self._consumer.unsubscribe()

    def _fetch(self, *, wanted: bool) -> None:
        """Let Kafka's client fetch from all that is assigned, or from none of it."""
        self._paused = not wanted
        assigned = self._consumer.assignment()
        (self._consumer.resume if wanted else self._consumer.pause)(assigned)

    def _commit_now_and_then(self) -> None:
        if self._joined and time.monotonic() - self._committed_at >= _COMMITTING:
            self._committed_at = time.monotonic()
            self._commit(list(self._partitions.values()), waiting=False)

    def _commit(self, partitions: Iterable[Partition], *, waiting: bool) -> bool:
        """Commit what is settled; return whether it was sent, or with ``waiting`` whether Kafka took it."""
        partitions = list(partitions)
        self._store_quiet(partitions, now=waiting)
        offsets: list[Any] = []
        with self._lock:
            for partition in partitions:
                commit = partition.to_commit(surely=waiting)
                if commit is not None and not partition.gone:
                    partition.committed(commit)
                    offset, text = commit
                    offsets.append(driver.TopicPartition(partition.topic, partition.number, offset, text))
        if not offsets:
            return True
        try:
            answered = self._consumer.commit(offsets=offsets, asynchronous=not waiting)
        except driver.KafkaException as error:
            self._on_commit(error.args[0], offsets)
            return False
        return not self._on_commit(None, answered) if waiting else True

    def _store_quiet(self, partitions: Sequence[Partition], *, now: bool) -> None:
        if self._positions is not None:
            with self._lock:
                ranges = self._positions.take_quiet(partitions, now=now)
            self._positions.store(self._topic, ranges)

    def _on_commit(self, error: Any, partitions: Sequence[Any]) -> bool:
        """Commit again what was refused, unless the partition went to others; return whether any was."""
        refused = self.refusals.note(error, partitions)
        with self._lock:
            for number in refused:
                if (partition := self._partitions.get(number)) is not None:
                    partition.committed((-1, ""))
        return bool(refused)

    def _on_assign(self, consumer: Any, partitions: Sequence[Any]) -> None:
        """Continue where the group has committed, or the rows say; see :meth:`_resume`, :meth:`_place`."""
        is_first, self._shared = not self._shared, True
        if not partitions or self._closing or self._error is not None:
            return
        try:
            assigned = (
                self._resume(consumer, partitions)
                if self._positions is None
                else self._place(self._positions, consumer, partitions)
            )
        except BaseException as error:  # noqa: BLE001 (a callback's driver errors are not Exceptions)
            # This ends the membership. What librdkafka fetches now is handed out to nobody.
            self._error = self._translated(error, "reading where to begin")
            return
        if is_first:
            self._unheard = {partition.partition for partition in assigned}
        consumer.incremental_assign(assigned)
        # librdkafka remembers from an earlier assignment whether it fetches a partition.
        (consumer.pause if self._paused else consumer.resume)(assigned)
        _tell(self._topic, assigned, "are ours now")

    def _resume(self, consumer: Any, partitions: Sequence[Any]) -> Sequence[Any]:
        """Return where the group has committed; without an answer, librdkafka finds that itself.

        For a new group that begins at the end it cannot: then this fails.
        """
        listed = committed_by(consumer, partitions, start=self._start)
        begun = {its.partition: resumed(consumer, its, self._start) for its in listed}
        with self._lock:
            self._partitions |= begun
        return [
            driver.TopicPartition(its.topic, its.partition, self._first_of(its, begun[its.partition]))
            for its in listed
        ]

    def _first_of(self, listed: Any, partition: Partition) -> int:
        """Return the offset to fetch first; if the start is "earliest", librdkafka finds it."""
        if listed.offset >= 0:
            return int(listed.offset)
        late = self._start == "latest"
        return partition.position.next_offset if late else int(driver.OFFSET_STORED)

    def _place(self, positions: "Positions", consumer: Any, partitions: Sequence[Any]) -> Sequence[Any]:
        """Return where the rows say; this fails if they cannot be read."""
        placed = positions.assigned(consumer, consumer.committed(list(partitions), PATIENCE))
        with self._lock:
            self._partitions |= placed
        return [
            driver.TopicPartition(self._topic, number, partition.position.next_offset)
            for number, partition in placed.items()
        ]

    def _on_revoke(self, consumer: Any, partitions: Sequence[Any]) -> None:
        taken = [
            self._partitions[listed.partition]
            for listed in partitions
            if listed.partition in self._partitions
        ]
        self._commit(taken, waiting=True)
        self._forget(partitions)
        consumer.incremental_unassign(list(partitions))
        _tell(self._topic, partitions, "are no longer ours")

    def _on_lost(self, consumer: Any, partitions: Sequence[Any]) -> None:
        self._forget(partitions)
        consumer.incremental_unassign(list(partitions))
        _tell(self._topic, partitions, "are no longer ours: the group took this consumer for dead")

    def _forget(self, partitions: Sequence[Any]) -> None:
        with self._lock:
            for listed in partitions:
                self._unheard.discard(listed.partition)
                if (partition := self._partitions.pop(listed.partition, None)) is not None:
                    partition.gone = True
                    if self._positions is not None:
                        self._positions.end(partition)
                    self._moved = self._moved or partition.has_open
            # Others run what the receiver has not seen yet.
            self._push()
            self._handed.difference_update(self._inbox.drop(_went_away))

    def _leave(self) -> None:
        self._commit(list(self._partitions.values()), waiting=True)
        self._forget([driver.TopicPartition(self._topic, number) for number in list(self._partitions)])
        self._consumer.close()


def _went_away(token: PushToken) -> bool:
    handed: HandedRecord = token.tag
    return handed[0].gone


def _tell(topic: str, partitions: Sequence[Any], what: str) -> None:
    if partitions:  # a rebalance also calls back without anything for us
        numbers = ", ".join(map(str, sorted(partition.partition for partition in partitions)))
        _log.info("topic %s: partitions %s %s", topic, numbers, what)
