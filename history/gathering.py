"""One call for the requests that many tasks of an event loop make at the same time."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

Asked = TypeVar("Asked")
Answer = TypeVar("Answer")


class Gathering(Generic[Asked, Answer]):
    """Combines the requests of many tasks into one call.

    If no call is running, a request goes out immediately. Otherwise it waits, and goes out in one call with
    all others that came meanwhile. So a lone task does not wait, and a thousand tasks share a few calls.
    ``call`` returns one answer per request, in order; its error is raised in every task that took part. A
    cancelled task withdraws only its own request. ``most`` is the most requests in a call.

    It belongs to the event loop in which it is first used.
    """

    def __init__(self, call: Callable[[Sequence[Asked]], Awaitable[Sequence[Answer]]], *, most: int) -> None:
        self._call = call
        self._most = most
        self._waiting: deque[tuple[Asked, asyncio.Future[Answer]]] = deque()
        self._calling: asyncio.Task[None] | None = None

    async def ask(self, asked: Asked) -> Answer:
        """Return the answer to one request.

        Raises:
            BaseException: what ``call`` raised.
        """
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append((asked, answer))
        if self._calling is None:
            self._calling = asyncio.create_task(self._call_while_asked())
        return await answer

    async def _call_while_asked(self) -> None:
        try:
            while self._waiting:
                await self._call_once(self._take())
        finally:
            self._calling = None

    def _take(self) -> list[tuple[Asked, "asyncio.Future[Answer]"]]:
        some = [self._waiting.popleft() for _ in range(min(self._most, len(self._waiting)))]
        return [(asked, answer) for asked, answer in some if not answer.done()]

    async def _call_once(self, some: "Sequence[tuple[Asked, asyncio.Future[Answer]]]") -> None:
        if not some:
            return
        try:
            answers_in_order = await self._call([asked for asked, _ in some])
            answers = list(zip((answer for _, answer in some), answers_in_order, strict=True))
        except BaseException as error:
            for _, answer in some:
                _fail(answer, error)
            if not isinstance(error, Exception):
                while self._waiting:
                    _fail(self._waiting.popleft()[1], error)
                raise
            return
        for answer, result in answers:
            if not answer.done():
                answer.set_result(result)


def _fail(answer: "asyncio.Future[Answer]", error: BaseException) -> None:
    """Raise in a waiting task what its call raised; if the call was cancelled, cancel the task."""
    if answer.done():
        return
    if isinstance(error, asyncio.CancelledError):
        answer.cancel()
    else:
        answer.set_exception(error)
