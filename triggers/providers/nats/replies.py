"""Requests on a connection with one wait for all answers: one subscription, not a task for each."""

import asyncio
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

#: The status of an answer that means that nobody listens to the subject.
_NOBODY = "503"


class NobodyError(Exception):
    """Nobody listens to a subject, so no stream has it."""


class ForbiddenError(Exception):
    """The account may not do something; the text is the server's."""


class NatsReplies:
    """The answers to one connection's requests; used on its thread only."""

    def __init__(self, native: Any) -> None:
        self._native = native
        self._inbox = ""
        self._numbers = count(1)
        #: By the address of the answer: the requested subject, and the future that waits.
        self._waiting: dict[str, tuple[str, asyncio.Future[bytes]]] = {}

    async def open(self) -> None:
        """Begin to listen for answers."""
        self._inbox = self._native.new_inbox()
        await self._native.subscribe(f"{self._inbox}.*", cb=self._came)

    async def _came(self, answer: Any) -> None:
        _, future = self._waiting.pop(answer.subject, ("", None))
        if future is None or future.done():
            return
        headers: dict[str, str] = answer.headers or {}
        if headers.get("Status") == _NOBODY:
            future.set_exception(NobodyError)
        else:
            future.set_result(answer.data)

    async def request(
        self, subject: str, payload: bytes, headers: Mapping[str, str] | None = None
    ) -> "asyncio.Future[bytes]":
        """Send a request; return a future that its answer fulfils, or that fails with NobodyError."""
        reply = f"{self._inbox}.{next(self._numbers)}"
        future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._waiting[reply] = (subject, future)
        try:
            await self._native.publish(
                subject, payload, reply=reply, headers=None if headers is None else dict(headers)
            )
        except BaseException:
            del self._waiting[reply]
            raise
        return future

    async def wait(self, futures: "Sequence[asyncio.Future[bytes]]", seconds: float) -> None:
        """Wait until all are answered.

        Raises:
            TimeoutError: some are not answered in that time.
        """
        unanswered = [future for future in futures if not future.done()]
        if not unanswered:
            return
        _, late = await asyncio.wait(unanswered, timeout=seconds)
        for future in late:
            future.cancel()
        if late:
            self._waiting = {
                reply: waiting for reply, waiting in self._waiting.items() if not waiting[1].done()
            }
            raise TimeoutError

    def fail_forbidden(self, text: str) -> bool:
        """Fail the requests that the server's text forbids, because no other answer comes; say if any."""
        named = [reply for reply, (subject, _) in self._waiting.items() if f'"{subject}"' in text]
        for reply in named:
            _, future = self._waiting.pop(reply)
            if not future.done():
                future.set_exception(ForbiddenError(text))
        return bool(named)
