"""One consumer of a queue of SQS: it asks for messages, and settles each."""

import logging
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from math import ceil
from typing import Any, cast

from history.errors import ConfigurationError
from history.shell import Shell
from history.support.paging import pieces_of
from triggers.providers.brokers.delivery import read
from triggers.providers.brokers.sending import DeadLetter
from triggers.providers.provider import (
    AT_ONCE,
    NO_LIMITS,
    RECEIVE_WAIT,
    Limits,
    ProviderUnavailableError,
    Received,
)
from triggers.providers.sqs.codec import SqsDelivered, decode, raw_fields
from triggers.providers.sqs.link import MOST, QueueGoneError, SqsLink, failed_of

_log = logging.getLogger(__name__)

#: How long one request waits for a message, in seconds, at most.
_LONGEST_WAIT = 20

#: How long a message can be hidden, in seconds, in all: SQS counts from the time of receipt.
LONGEST_HOLD = 43_200


class SqsReceiver:
    """A consumer. Its messages are hidden from others for ``visibility`` seconds, and renewed before.

    Twelve hours after a message was received, SQS does not renew it any more. Then a warning is logged, and
    the message goes to another consumer, which finds in the history that it is running.

    After a call raises ProviderUnavailableError, nothing is held any more, except after ``keep_alive``.
    """

    def __init__(
        self, link: SqsLink, queue: str, dead_letter: DeadLetter, shell: Shell, *, visibility: int
    ) -> None:
        self._link = link
        self._queue = queue
        self._dead_letter = dead_letter
        self._shell = shell
        self._visibility = visibility
        self._lock = threading.Lock()
        #: By the handle that settles it: until when the message can be held.
        self._held: dict[str, float] = {}
        self._renewed_at = time.monotonic()
        self.keep_alive_interval = timedelta(seconds=visibility / 3)
        self.limits: Limits = NO_LIMITS

    async def open(self) -> None:
        """Find the queue, or make it."""
        await self._call(partial(self._link.address_of, self._queue))

    async def _call(self, work: Callable[[], Any]) -> Any:
        return await self._shell.call("doubtless-sqs", work)

    async def receive(self, limit: int, wait: timedelta = RECEIVE_WAIT) -> Sequence[Received]:
        """Return up to ``limit`` deliveries; SQS waits for whole seconds, so a short wait becomes longer."""
        if limit < 1:
            raise ConfigurationError("limit", f"must be 1 or more, not {limit}", "ask for 1 or more")
        seconds = min(_LONGEST_WAIT, max(0, ceil(wait.total_seconds())))
        with self._forgetting():
            came: Sequence[SqsDelivered] = await self._call(partial(self._fetch, limit, seconds))
        limits = self.limits
        return [
            read(
                partial(decode, message, limits),
                handle=message,
                delivery_id=partial(_name_of, message),
                raw=partial(raw_fields, message),
            )
            for message in came
        ]

    @contextmanager
    def _forgetting(self) -> Generator[None]:
        """Hold nothing if SQS does not answer: the worker drops the rest, and SQS delivers it again."""
        try:
            yield
        except ProviderUnavailableError:
            with self._lock:
                self._held.clear()
            raise

    def _fetch(self, limit: int, seconds: int) -> Sequence[SqsDelivered]:
        """Ask once, and again while requests come back full."""
        messages: list[SqsDelivered] = []
        while True:
            asked = min(MOST, limit - len(messages))
            try:
                came = self._ask(asked, 0 if messages else seconds)
            except ProviderUnavailableError:
                if not messages:
                    raise
                return messages
            messages += came
            if len(came) < asked or len(messages) >= limit:
                return messages

    def _ask(self, count: int, seconds: int) -> list[SqsDelivered]:
        try:
            answer = self._link.call(
                "receiving",
                "receive_message",
                QueueUrl=self._link.address_of(self._queue),
                MaxNumberOfMessages=count,
                WaitTimeSeconds=seconds,
                VisibilityTimeout=self._visibility,
                MessageAttributeNames=["All"],
                AttributeNames=["All"],
            )
        except QueueGoneError:
            self._link.forget(self._queue)
            raise
        until = time.monotonic() + LONGEST_HOLD
        came = [SqsDelivered.of(self._queue, message) for message in answer.get("Messages") or ()]
        with self._lock:
            self._held.update((message.receipt, until) for message in came)
        return came

    def _mine(self, received: Sequence[Received]) -> list[SqsDelivered]:
        """Remove these from what is held: whatever SQS answers, they are not renewed any more."""
        came = [cast("SqsDelivered", delivery.handle) for delivery in received]
        with self._lock:
            return [message for message in came if self._held.pop(message.receipt, None) is not None]

    async def acknowledge(self, received: Sequence[Received]) -> None:
        """Delete these."""
        mine = self._mine(received)
        if mine:
            with self._forgetting():
                await self._call(partial(self._delete, mine))

    def _delete(self, came: Sequence[SqsDelivered]) -> None:
        for chunk in pieces_of(came, MOST):
            entries = [{"Id": str(n), "ReceiptHandle": message.receipt} for n, message in enumerate(chunk)]
            self._batch("acknowledging", "delete_message_batch", entries)

    async def recover(self, received: Sequence[Received], delay: timedelta = AT_ONCE) -> None:
        """Make these visible again when the delay has passed; after twelve hours at the latest."""
        mine = self._mine(received)
        if mine:
            seconds = min(LONGEST_HOLD - 1, max(0, ceil(delay.total_seconds())))
            with self._forgetting():
                await self._call(partial(self._hide, [delivery.receipt for delivery in mine], seconds))

    def _hide(self, receipts: Sequence[str], seconds: int) -> None:
        for chunk in pieces_of(receipts, MOST):
            entries = [
                {"Id": str(n), "ReceiptHandle": receipt, "VisibilityTimeout": seconds}
                for n, receipt in enumerate(chunk)
            ]
            self._batch("giving back", "change_message_visibility_batch", entries)

    def _batch(self, doing: str, method: str, entries: Sequence[Mapping[str, Any]]) -> None:
        answer = self._link.call(
            doing, method, QueueUrl=self._link.address_of(self._queue), Entries=list(entries)
        )
        for failed in failed_of(answer):
            if not failed.get("SenderFault"):
                raise ProviderUnavailableError("SQS", f"{doing} ({failed.get('Code')})")
            # The handle is too old, or the message is deleted: another consumer has it, or nobody.
            _log.info("SQS: %s: %s (%s)", doing, failed.get("Message"), failed.get("Code"))

    async def dead_letter(self, received: Sequence[Received], reason: str) -> None:
        """Copy these, with the reason, then delete them: a crash in between leaves both."""
        with self._lock:
            mine = [
                delivery
                for delivery in received
                if cast("SqsDelivered", delivery.handle).receipt in self._held
            ]
        if mine:
            with self._forgetting():
                await self._dead_letter(mine, reason)
            await self.acknowledge(mine)

    async def keep_alive(self) -> None:
        """Hide what is held for the same time again."""
        now = time.monotonic()
        with self._lock:
            over = [receipt for receipt, until in self._held.items() if until < now + self._visibility]
            for receipt in over:
                del self._held[receipt]
            receipts = list(self._held)
        if over:
            _log.warning(
                "%d messages of the queue %s were held for twelve hours, which SQS does not prolong: they go "
                "to another consumer when %d s have passed",
                *(len(over), self._queue, self._visibility),
            )
        if receipts:
            await self._call(partial(self._hide, receipts, self._visibility))

    async def close(self) -> None:
        """Make unsettled messages visible again."""
        with self._lock:
            receipts, self._held = list(self._held), {}
        if receipts:
            await self._call(partial(self._hide, receipts, 0))


def _name_of(came: SqsDelivered) -> str:
    return f"{came.queue}:{came.message_id}"
