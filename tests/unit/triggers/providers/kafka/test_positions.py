"""Offsets in SQL: where a consumer begins a partition, and which offsets are settled without effects."""

import logging
from dataclasses import dataclass

import pytest

from history.errors import ConfigurationError
from history.sql.offsets.position import Position
from history.sql.offsets.seen import Place
from triggers.providers.kafka.beginnings import Ends, begin_at
from triggers.providers.kafka.offsets import Partition
from triggers.providers.kafka.positions import first, resumed

PLACE = Place("g", "orders", 0)


@dataclass
class Committed:
    """A committed offset in Kafka, as the driver returns it."""

    offset: int
    metadata: str | None = None
    topic: str = "orders"
    partition: int = 0


class TestWithoutARow:
    @pytest.mark.parametrize(
        ("committed", "start", "begins"),
        [
            (-1001, "earliest", 5),
            (-1001, "latest", 20),
            (5, "latest", 5),
            (12, "latest", 12),
            (20, "earliest", 20),
            (3, "earliest", 5),  # retention deleted them before
            (3, "latest", 5),  # the group has not read the remaining messages
            (21, "earliest", 5),  # the topic was deleted and made again
        ],
    )
    def test_it_begins_where_the_group_has_committed_or_else_by_start(
        self, committed: int, start: str, begins: int
    ) -> None:
        assert begin_at(committed, Ends(5, 20), "latest" if start == "latest" else "earliest") == begins

    def test_what_kafka_knows_to_be_settled_beyond_is_taken_over(self) -> None:
        assert first(Committed(12, "doubtless1 4 1-2"), Ends(0, 20), "earliest") == Position(12, ((13, 14),))

    def test_offset_0_is_committed_too(self) -> None:
        assert first(Committed(0), Ends(0, 20), "latest") == Position(0)


class TestWithARow:
    @pytest.mark.parametrize(
        ("row", "ends", "begins"),
        [
            pytest.param(Position(7, ((9, 9),)), Ends(0, 20), Position(7, ((9, 9),)), id="in the middle"),
            pytest.param(Position(20), Ends(0, 20), Position(20), id="at the end"),
            pytest.param(Position(3, ((3, 11),)), Ends(10, 20), Position(12), id="deleted after it was run"),
        ],
    )
    def test_it_begins_where_the_row_says_and_nothing_is_lost(
        self, caplog: pytest.LogCaptureFixture, row: Position, ends: Ends, begins: Position
    ) -> None:
        assert resumed(PLACE, row, ends) == begins
        assert caplog.text == ""

    def test_a_row_beyond_the_end_is_refused_with_what_to_do(self) -> None:
        with pytest.raises(
            ConfigurationError, match=r"ends at 20, .* up to 21 .*forget_offsets\(URL, group='g'"
        ):
            resumed(PLACE, Position(21), Ends(0, 20))

    def test_what_is_deleted_before_it_was_run_is_counted(self, caplog: pytest.LogCaptureFixture) -> None:
        with caplog.at_level(logging.WARNING):
            position = resumed(PLACE, Position(3, ((5, 6), (12, 12))), Ends(10, 20))

        assert position == Position(10, ((12, 12),))
        assert "orders:0: 5 messages before offset 10 were not run" in caplog.text


class TestPartition:
    def test_settled_messages_are_skipped_and_the_others_are_not(self) -> None:
        partition = Partition.placed("orders", 0, Position(7, ((9, 10),)), begun=0)

        assert [partition.take(offset) for offset in range(7, 12)] == [True, True, None, None, False]

    def test_what_was_handed_out_before_is_delivered_again(self) -> None:
        partition = Partition.placed("orders", 0, Position(7), begun=8)

        assert [partition.take(offset) for offset in (7, 8)] == [True, False]

    def test_offsets_that_are_not_there_are_quietly_settled(self) -> None:
        partition = Partition.placed("orders", 0, Position(7), begun=0)
        for offset in (7, 10, 12):
            partition.take(offset)

        assert partition.quiet == [(8, 9), (11, 11)]
        assert partition.position == Position(7)

    def test_without_rows_nothing_is_kept_for_them(self) -> None:
        partition = Partition.resumed("orders", 0, 7, "")
        partition.take(10)

        assert partition.quiet is None

    def test_what_is_committed_to_kafka_says_what_the_row_says(self) -> None:
        partition = Partition.placed("orders", 0, Position(7, ((9, 10),)), begun=0)
        partition.take(7)

        assert partition.to_commit() == (7, "doubtless1 4 2-3")
        assert Partition.resumed("orders", 0, 7, "doubtless1 4 2-3").position == Position(7, ((9, 10),))
