"""One item ahead: results in order, the next item read during the work, and errors in their place."""

import threading
from collections.abc import Iterator

import pytest

from triggers.spark.batch.claims.bulk import one_ahead


def test_the_results_come_in_the_order_of_the_items() -> None:
    assert list(one_ahead(lambda number: number * 2, iter(range(5)))) == [0, 2, 4, 6, 8]
    assert list(one_ahead(str, iter(()))) == []


def test_the_next_item_is_read_while_the_thread_works_on_an_item() -> None:
    second_was_read = threading.Event()

    def items() -> Iterator[int]:
        yield 1
        second_was_read.set()
        yield 2

    def work(item: int) -> tuple[int, bool]:
        # Without a second thread, nobody would read the second item during this wait.
        return item, second_was_read.wait(timeout=60)

    assert list(one_ahead(work, items())) == [(1, True), (2, True)]


def test_an_error_is_raised_in_the_place_of_its_result() -> None:
    results = one_ahead(lambda number: 6 // number, iter([1, 2, 0, 3]))

    assert [next(results), next(results)] == [6, 3]
    with pytest.raises(ZeroDivisionError):
        next(results)


def test_a_reader_that_stops_leaves_no_thread_behind() -> None:
    before = set(threading.enumerate())
    results = one_ahead(str, iter(range(3)))
    assert next(results) == "0"

    results.close()

    assert set(threading.enumerate()) <= before
