"""A publication as a log: reads the commits in their order, and notices commits that were deleted unread."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from sqlalchemy import Engine, text

from history.bridge import drive
from history.errors import ConfigurationError
from history.sql.links.history import LinkHistory
from tests.fixtures.databases import engine_at
from tests.integration.helpers.logs import read_all
from tests.integration.providers.sqlremote.link_ends import ORDERS
from triggers.providers.sqlremote.publication.log import LinkLog
from triggers.providers.sqlremote.publication.publication import Publication
from triggers.spark.sources import PublicationSource
from triggers.spark.sources.log import EntriesLostError
from triggers.spark.sources.publication import PublicationLog, PublicationLogSettings

Open = Callable[..., PublicationLog]
OTHERS = Publication("others")


@pytest.fixture
def url(link_databases: Sequence[str]) -> str:
    return link_databases[0]


@pytest.fixture
def opened(url: str) -> Iterator[Open]:
    logs: list[PublicationLog] = []

    def make(**settings: Any) -> PublicationLog:
        told: dict[str, Any] = {"url": url, "publication": "orders", "rows_of_a_span": 4, "patience": 0.0}
        logs.append(PublicationLog(PublicationLogSettings(**(told | settings))))
        return logs[-1]

    yield make
    for log in logs:
        log.close()


@pytest.fixture
def engine(url: str, opened: Open) -> Iterator[Engine]:
    opened().begin()  # makes the tables
    with engine_at(url) as engine:
        yield engine


def test_spans_are_the_log_in_order_and_read_the_same_each_time(engine: Engine, opened: Open) -> None:
    append(engine, "abc", "d", "efg")
    log = opened()
    begin = log.begin()

    positions = log.walk(begin, until=None, rows=None)

    assert [position.count for position in positions] == [4, 7]
    first, again = read_all(log, begin, positions), read_all(opened(), begin, positions)
    assert first == again
    assert [(one.offset, one.position, one.origin, one.operation) for one in first[2:5]] == [
        (1, 2, None, '"c"'),
        (2, 0, None, '"d"'),
        (3, 0, None, '"e"'),
    ]


def test_a_batch_ends_where_a_transaction_does_and_at_its_target(engine: Engine, opened: Open) -> None:
    append(engine, "abc", "d", "efghij")
    log = opened()
    target, begin = log.end(), log.begin()
    append(engine, "k")

    first = log.walk(begin, until=target, rows=4)
    second = log.walk(first[-1], until=target, rows=5)

    assert [position.offset for position in (first[-1], second[-1])] == ["2/1", "3/6"]
    assert [position.count for position in second] == [8, 10]
    assert log.walk(second[-1], until=target, rows=5) == []
    assert opened().plan(first[-1], second[-1]) == second


def test_what_an_open_transaction_appends_is_not_read_and_not_skipped(engine: Engine, opened: Open) -> None:
    append(engine, "a")
    log = opened()
    begin = log.begin()
    with engine.begin() as connection:
        ORDERS.append(connection, "b")
        before = log.walk(begin, until=None, rows=None)

    after = log.walk(before[-1], until=None, rows=None)

    assert [one.operation for one in read_all(log, begin, [*before, *after])] == ['"a"', '"b"']


def test_a_new_query_begins_before_what_is_there_or_behind_it(engine: Engine, opened: Open) -> None:
    append(engine, "a", publication=OTHERS)
    nothing = opened().begin()
    append(engine, "b")
    log, latest = opened(), opened(from_the_end=True)
    begin, end = log.begin(), latest.begin()
    append(engine, "c")

    from_nothing = read_all(log, nothing, log.walk(nothing, until=None, rows=None))
    from_the_first = read_all(log, begin, log.walk(begin, until=None, rows=None))
    from_the_end = read_all(log, end, latest.walk(end, until=None, rows=None))

    assert [one.operation for one in from_nothing] == ['"b"', '"c"']
    assert from_nothing == from_the_first
    assert [one.operation for one in from_the_end] == ['"c"']


def test_what_is_deleted_after_it_was_read_is_no_loss(engine: Engine, url: str, opened: Open) -> None:
    append(engine, "a", "b")
    log = opened()
    position = log.walk(log.begin(), until=None, rows=None)[-1]
    prune(url)
    append(engine, "c")

    assert [one.operation for one in read_all(log, position, log.walk(position, until=None, rows=None))] == [
        '"c"'
    ]


def test_what_is_deleted_unread_is_an_error(engine: Engine, url: str, opened: Open) -> None:
    append(engine, "a", "b", "c")
    log = opened()
    begin = log.begin()
    position = log.walk(begin, until=None, rows=1)[-1]
    last = log.walk(begin, until=None, rows=None)
    prune(url)
    append(engine, "d")

    with pytest.raises(
        EntriesLostError, match=r"deleted up to 3, and what was read ends before 2.*failOnData"
    ):
        log.walk(position, until=None, rows=None)
    with pytest.raises(EntriesLostError, match="3 operations of the batch"):
        log.plan(begin, last[-1])
    with pytest.raises(EntriesLostError, match="3 of 3 operations"):
        read_all(log, begin, last)
    tolerant = opened(fail_on_loss=False)
    assert [
        one.operation for one in read_all(tolerant, position, tolerant.walk(position, until=None, rows=None))
    ] == ['"d"']


def test_a_deletion_of_another_publication_accuses_nobody_who_watched(
    engine: Engine, url: str, opened: Open
) -> None:
    append(engine, "a")
    log = opened()
    position = log.walk(log.begin(), until=None, rows=None)[-1]
    append(engine, "b", publication=OTHERS)

    assert log.walk(position, until=None, rows=None) == []
    prune(url)
    prune(url, OTHERS)
    append(engine, "c")

    assert [one.operation for one in read_all(log, position, log.walk(position, until=None, rows=None))] == [
        '"c"'
    ]


def test_a_log_that_ends_before_what_was_read_is_another_one(engine: Engine, opened: Open) -> None:
    append(engine, "a", "b")
    log = opened()
    position = log.walk(log.begin(), until=None, rows=None)[-1]
    with engine.begin() as connection:
        connection.execute(text("UPDATE doubtless_link_end SET last_offset = 1"))
        connection.execute(text("DELETE FROM doubtless_link_log WHERE commit_offset = 2"))

    with pytest.raises(EntriesLostError, match="ends at 1: this is another log"):
        log.walk(position, until=None, rows=None)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"publication": ""}, "has no publication"),
        ({"body": "string"}, "has no option body"),
        ({"url": "redis://127.0.0.1"}, "cannot use redis"),
    ],
    ids=["publication", "body", "url"],
)
def test_options_that_cannot_be_are_refused(options: dict[str, str], words: str) -> None:
    source = PublicationSource({"url": "sqlite://", "publication": "orders"} | options)

    with pytest.raises(ConfigurationError, match=words):
        source.log().begin()


def append(engine: Engine, *transactions: str, publication: Publication = ORDERS) -> None:
    """Commit transactions. Each letter is an operation."""
    for operations in transactions:
        with engine.begin() as connection:
            publication.append(connection, *operations)


def prune(url: str, publication: Publication = ORDERS) -> None:
    """Delete the whole log of a publication, which has no peer."""
    history = LinkHistory.from_url(url)
    drive(LinkLog(history.watermarks, publication.name, "peer").prune())
    drive(history.close())
