"""Work on one batch of rows while Spark prepares the next batch."""

from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Given = TypeVar("Given")
Made = TypeVar("Made")


def one_ahead(work: Callable[[Given], Made], items: Iterator[Given]) -> Generator[Made]:
    """Yield the result for each item, in order; one thread works on an item while the next item arrives.

    At most one item waits for the thread. If the work on an item fails, its error is raised in its place.
    """
    with ThreadPoolExecutor(1, "doubtless-claims") as thread:
        begun: Future[Made] | None = None
        for item in items:
            following = thread.submit(work, item)
            if begun is not None:
                yield begun.result()
            begun = following
        if begun is not None:
            yield begun.result()
