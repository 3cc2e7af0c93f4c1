"""One consumer of a Redis stream: reads, takes over, gives back."""

import logging
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from itertools import count
from typing import Any, cast

from history.errors import ConfigurationError
from history.store import HistoryStore
from history.store.turning import Place, Turning
from history.support.paging import pieces_of
from triggers.providers.brokers.delivery import read
from triggers.providers.provider import (
    AT_ONCE,
    NO_LIMITS,
    RECEIVE_WAIT,
    Arrival,
    Limits,
    ProviderUnavailableError,
    Received,
)
from triggers.providers.redis_streams.codec import decode, encode
from triggers.providers.redis_streams.link import RedisLink, SubscriptionGoneError
from triggers.providers.redis_streams.settings import StreamKeys, StreamSettings, dead_letters_of, name_in_use

_log = logging.getLogger(__name__)

#: How many ids go to a script at a time: Lua passes at most 8,000 words to one command.
CHUNK = 500

#: How often one consumer trims its stream, in seconds.
TRIM_INTERVAL = 60.0


@dataclass(slots=True)
class _Held:
    """The entries that were handed over and not settled; shared with the thread that keeps them alive.

    Each has a number. It tells an entry that was settled and handed over again from its earlier delivery: an
    answer of the server meanwhile is about the earlier one. An entry that is about to be settled is dropped
    first. Otherwise the server might first tell the other thread that it is not pending any more.
    """

    ids: dict[bytes, int] = field(default_factory=dict[bytes, int])
    lock: threading.Lock = field(default_factory=threading.Lock)
    _numbers: Iterator[int] = field(default_factory=count)

    def add(self, ids: Sequence[bytes]) -> None:
        with self.lock:
            self.ids.update(zip(ids, self._numbers, strict=False))

    def drop(self, ids: Iterable[bytes]) -> None:
        with self.lock:
            for entry_id in ids:
                self.ids.pop(entry_id, None)

    def drop_lost(self, lost: Iterable[bytes], asked: Mapping[bytes, int]) -> list[bytes]:
        """Drop and return lost entries, except entries that were settled or handed over again since then."""
        with self.lock:
            still = [entry_id for entry_id in lost if self.ids.get(entry_id) == asked[entry_id]]
            for entry_id in still:
                del self.ids[entry_id]
            return still

    def all(self) -> dict[bytes, int]:
        with self.lock:
            return self.ids.copy()


class StreamReceiver:
    """A consumer of a consumer group; see :class:`~triggers.providers.redis_streams.RedisStreams`.

    An entry is settled by its id, which is the handle of what :meth:`receive` returns. After ``receive`` or
    an acknowledgement raises ProviderUnavailableError, nothing is held any more: nobody knows what the server
    did. The next ``receive`` takes over what is still pending for this consumer, with a greater count. A
    receiver that serves many tasks takes over only what none of them holds.
    """

    def __init__(
        self,
        link: RedisLink,
        keys: StreamKeys,
        settings: StreamSettings,
        *,
        token: str,
        left: Callable[[], None],
    ) -> None:
        self._link = link
        self._keys = keys
        self._settings = settings
        self._left = left
        self.limits: Limits = NO_LIMITS
        self._claim_idle = _milliseconds(settings.claim_idle)
        self._shared = (keys.group, keys.consumer, token, self._claim_idle)
        #: Whether tasks settle what they hold while it receives for others; set when it is opened.
        self.serves_many = False
        self._held = _Held()
        self._being_answered: set[bytes] = set()
        self._name_lost = self._closed = False
        # Entries that a predecessor of the same name did not settle also count as lost in a reply.
        self._reply_lost = True
        self._reclaim_due = self._alive_due = self._bury_due = self._trim_due = 0.0
        self._abandoned: set[bytes] = set()
        # The entries given back since this consumer took everything over; None if it never did.
        self._given_back: set[bytes] | None = None

    @property
    def keep_alive_interval(self) -> timedelta:
        """A third of ``claim_idle``: two may fail before anything is taken over."""
        return self._settings.claim_idle / 3

    async def open(self) -> None:
        """Create the subscription if it is missing, and take the consumer's name.

        Raises:
            ConfigurationError: a running consumer has the name.
        """
        if not await self._run("open"):
            raise name_in_use(self._keys, self._settings.claim_idle)
        self._alive_due = time.monotonic() + self.keep_alive_interval.total_seconds()

    async def receive(self, limit: int, wait: timedelta = RECEIVE_WAIT) -> Sequence[Received]:
        """Return up to ``limit`` deliveries: those due again first, then new ones."""
        if limit < 1:
            raise ConfigurationError("limit", f"must be 1 or more, not {limit}", "ask for 1 or more")
        deadline = time.monotonic() + wait.total_seconds()
        while True:
            received = await self._take(limit, deadline)
            if received or time.monotonic() >= deadline:
                return received

    async def _take(self, limit: int, deadline: float) -> list[Received]:
        if self._name_lost:
            raise name_in_use(self._keys, self._settings.claim_idle)
        try:
            if time.monotonic() >= self._reclaim_due and (taken := await self._reclaim(limit)):
                return taken
            return await self._read_in_order(await self._read(limit, deadline))
        except SubscriptionGoneError:
            await self._restore()
            return []
        except ProviderUnavailableError:
            self._note_failure()
            raise
        except BaseException:
            # A cancelled wait: the server may have handed over entries that nobody here has seen.
            self._doubt()
            raise

    def _forget(self) -> None:
        self._held.drop(self._held.all())
        self._doubt()

    def _doubt(self) -> None:
        """Take over, with the next call, what is pending for this consumer and not known to it."""
        self._reply_lost, self._reclaim_due = True, 0.0

    def _note_failure(self) -> None:
        """Note that the server did not answer: a receiver that serves one caller holds nothing any more."""
        if self.serves_many:
            self._doubt()
        else:
            self._forget()

    @contextmanager
    def _answering(self, ids: Sequence[bytes]) -> Generator[None, None, None]:
        self._held.drop(ids)
        self._being_answered.update(ids)
        try:
            yield
        except ProviderUnavailableError:
            self._note_failure()
            raise
        finally:
            self._being_answered.difference_update(ids)

    async def _read(self, limit: int, deadline: float) -> list[Received]:
        until = min(deadline, self._reclaim_due)
        block = max(0, round((until - time.monotonic()) * 1000))
        # In Redis, BLOCK 0 means for ever.
        waiting = ("BLOCK", block) if block else ()
        keys = self._keys
        command = ("GROUP", keys.group, keys.consumer, "COUNT", limit, *waiting, "STREAMS", keys.stream, ">")
        streams = await self._link.call("receiving", "XREADGROUP", *command)
        if not streams:
            return []
        entries = _entries_of(streams)
        self._held.add([entry_id for entry_id, _ in entries])
        return [self._received(entry_id, fields, 1) for entry_id, fields in entries]

    async def _reclaim(self, limit: int) -> list[Received]:
        if time.monotonic() >= self._alive_due and self._held.ids:
            # Late: entries that are still worked on here must not be taken over, not even by this consumer.
            await self.keep_alive()
        limit = min(limit, CHUNK)
        operands: list[Any] = (
            ["known", *self._held.all(), *self._being_answered] if self._reply_lost else ["all"]
        )
        company = "among others" if self._given_back is None else "alone"
        reply = await self._run("reclaim", limit, company, *operands)
        if reply is None:
            self._lose_name()
            raise name_in_use(self._keys, self._settings.claim_idle)
        self._reply_lost = False
        entries, gone, pause, more, aside = cast(
            "tuple[list[tuple[bytes, int, list[bytes]]], list[bytes], int, int, list[bytes]]", reply
        )
        self._held.add([entry_id for entry_id, _, _ in entries])
        if self._given_back:
            self._given_back.difference_update([entry_id for entry_id, _, _ in entries], gone)
        if len(entries) < limit and not more:
            interval = self._settings.reclaim_interval.total_seconds()
            self._reclaim_due = time.monotonic() + (min(interval, pause / 1000) if pause >= 0 else interval)
        self._tell_gone(gone)
        for key in aside:
            _log.error(
                "stream %s: a key of ours held something else, which now has the name %s: "
                "find out who writes there, and delete it when nobody needs it",
                self._keys.stream,
                key.decode(errors="backslashreplace"),
                extra={"trigger": self._keys.group},
            )
        return [
            self._received(entry_id, dict(zip(fields[::2], fields[1::2], strict=True)), times)
            for entry_id, times, fields in entries
        ]

    def _tell_gone(self, gone: Sequence[bytes]) -> None:
        if gone:
            _log.error(
                "stream %s: %d unacknowledged entries were deleted or trimmed, and cannot be delivered "
                "again (%s): raise maxlen, or find out who deletes them",
                self._keys.stream,
                len(gone),
                b" ".join(gone[:10]).decode(),
                extra={"trigger": self._keys.group},
            )

    def _received(self, entry_id: bytes, fields: dict[bytes, bytes], times: int) -> Received:
        return read(
            partial(decode, self._keys.stream, entry_id, fields, times, self.limits),
            handle=entry_id,
            delivery_id=partial(str, entry_id, "ascii"),
            raw=fields.copy,
        )

    async def acknowledge(self, received: Sequence[Received]) -> None:
        """Take these out of the pending list, in one call."""
        if received:
            ids = _ids(received)
            with self._answering(ids):
                await self._link.call("acknowledging", "XACK", self._keys.stream, self._keys.group, *ids)

    async def is_beside(self, history: HistoryStore) -> bool:
        """Whether a history is in the same database of the same server."""
        if not isinstance(history, Turning):
            return False
        here, there = await self._link.server(), await history.server()
        return here is not None and here == there

    def leave_at(self, received: Received) -> Place:
        """Return where this one is acknowledged, and stop keeping it alive."""
        entry_id = cast("bytes", received.handle)
        self._held.drop([entry_id])
        return self._keys.stream.encode(), self._keys.group.encode(), entry_id

    def stay(self, received: Received) -> None:
        """Keep one alive again after the history did not acknowledge it."""
        self._held.add([cast("bytes", received.handle)])

    async def recover(self, received: Sequence[Received], delay: timedelta = AT_ONCE) -> None:
        """Give these back; their delivery counts stay until they are taken again."""
        milliseconds = _milliseconds(delay)
        for ids in pieces_of(_ids(received), CHUNK):
            with self._answering(ids):
                gone = cast("list[bytes]", await self._run("recover", milliseconds, *ids))
            self._tell_gone(gone)
            if self._given_back is not None:
                self._given_back.update(set(ids).difference(gone))
        self._reclaim_due = min(self._reclaim_due, time.monotonic() + delay.total_seconds())

    async def dead_letter(self, received: Sequence[Received], reason: str) -> None:
        """Move these to the stream ``{<destination>}:dlq``, with the reason, and acknowledge them."""
        by_id = {cast("bytes", delivery.handle): delivery for delivery in received}
        prefix = f"ID:{self._keys.stream}:"
        for ids in pieces_of(list(by_id), CHUNK):
            with self._answering(ids):
                for missing in await self._run("dead_letter", reason, prefix, *ids):
                    await self._copy_dead_letter(missing, by_id[missing], reason)

    async def _copy_dead_letter(self, entry_id: bytes, received: Received, reason: str) -> None:
        """Write a dead letter from our copy: the entry is no longer in the stream."""
        fields = (
            encode(received.message)
            if isinstance(received, Arrival)
            else [word for pair in received.fields.items() for word in pair]
        )
        added = ("dead-letter-reason", reason, "dead-letter-subscription", self._keys.group)
        await self._link.call(
            "dead-lettering", "XADD", dead_letters_of(self._keys.stream), "*", *fields, *added
        )
        await self._link.call("dead-lettering", "XACK", self._keys.stream, self._keys.group, entry_id)

    async def take_over_all(self) -> None:
        """Take what all others hold, and recovered entries; the next calls of ``receive`` hand them out."""
        start = "-"
        try:
            while start:
                after = await self._run("take_over", start)
                if after is None:
                    self._lose_name()
                    raise name_in_use(self._keys, self._settings.claim_idle)
                start = cast("bytes", after[0]).decode()
                self._tell_gone(after[1])
        except SubscriptionGoneError:
            await self._restore()
        except ProviderUnavailableError:
            self._forget()
            raise
        self._reclaim_due, self._given_back = 0.0, set()

    async def _read_in_order(self, received: list[Received]) -> list[Received]:
        """Return what was read, unless another consumer has read earlier entries: then both come next."""
        if not received or self._given_back is None or not await self._has_rival(self._given_back):
            return received
        await self.recover(received)
        await self.take_over_all()
        return []

    async def _has_rival(self, given_back: set[bytes]) -> bool:
        """Whether more is pending than we know: a silent consumer came back, and read before we did."""
        summary = await self._link.call("taking over", "XPENDING", self._keys.stream, self._keys.group)
        pending = cast("int", summary["pending"])
        return pending > len(self._held.ids) + len(given_back)

    async def keep_alive(self) -> None:
        """Renew the name and the entries that are held; free dead names and trim when it is time."""
        if self._closed:
            return
        unsettled = self._held.all()
        for ids in list(pieces_of(list(unsettled), CHUNK)) or [[]]:
            try:
                reply = await self._run("keep_alive", *ids)
            except SubscriptionGoneError:
                return  # the next receive reports it
            if reply is None:
                self._lose_name()
                return
            robbed, gone = cast("tuple[list[bytes], list[bytes]]", reply)
            self._tell_robbed(self._held.drop_lost(robbed, unsettled), asked=len(ids))
            self._tell_gone(self._held.drop_lost(gone, unsettled))
        self._alive_due = time.monotonic() + self.keep_alive_interval.total_seconds()
        await self._keep_up(time.monotonic())

    async def _keep_up(self, now: float) -> None:
        """Free the names of the dead, and trim."""
        try:
            if now >= self._bury_due:
                self._bury_due = now + self._settings.claim_idle.total_seconds()
                await self._run("bury")
            if self._settings.trims and now >= self._trim_due:
                self._trim_due = now + TRIM_INTERVAL
                _, abandoned = await self._run("trim", _milliseconds(self._settings.trim_age))
                self._tell_abandoned(abandoned)
        except SubscriptionGoneError:
            return

    def _tell_abandoned(self, subscription: bytes) -> None:
        if subscription and subscription not in self._abandoned:
            self._abandoned.add(subscription)
            _log.warning(
                "stream %s: subscription %s is consumed by nobody, and keeps the stream from being trimmed: "
                "if its trigger is gone, end it with `doubtless redis unsubscribe`",
                self._keys.stream,
                subscription.decode(errors="backslashreplace"),
                extra={"trigger": self._keys.group},
            )

    def _tell_robbed(self, robbed: Sequence[bytes], *, asked: int) -> None:
        if robbed:
            _log.warning(
                "stream %s: %d of %d entries were given to other consumers, because %s did not answer within "
                "claim_idle: raise claim_idle if this happens often",
                self._keys.stream,
                len(robbed),
                asked,
                self._keys.consumer,
                extra={"trigger": self._keys.group},
            )

    async def close(self) -> None:
        """Give back unsettled entries, leave the group and free the name."""
        if self._closed:
            return
        self._closed = True
        self._left()
        # Without a subscription nothing can be given back, and the name is free already.
        with suppress(SubscriptionGoneError):
            self._tell_gone(await self._run("leave"))

    def _lose_name(self) -> None:
        self._name_lost = True
        self._held.drop(self._held.all())

    async def _restore(self) -> None:
        _log.error(
            "stream %s: consumer group %s is gone (the server was flushed, or restarted without its data): "
            "creating it again; the stream is read from its beginning",
            self._keys.stream,
            self._keys.group,
            extra={"trigger": self._keys.group},
        )
        self._forget()
        await self.open()

    async def _run(self, name: str, *arguments: Any) -> Any:
        return await self._link.run(name, self._keys.scripted, (*self._shared, *arguments))


def _entries_of(streams: Any) -> list[tuple[bytes, dict[bytes, bytes]]]:
    """Return the entries of one stream; redis-py gives them another form for each protocol of Redis."""
    is_map = isinstance(streams, dict)
    (entries,) = cast("dict[bytes, Any]", streams).values() if is_map else (streams[0][1],)
    listed = entries[0] if isinstance(entries[0], list) else entries
    return cast("list[tuple[bytes, dict[bytes, bytes]]]", listed)


def _ids(received: Sequence[Received]) -> list[bytes]:
    return [cast("bytes", delivery.handle) for delivery in received]


def _milliseconds(duration: timedelta) -> int:
    return round(duration / timedelta(milliseconds=1))
