"""Settled offsets of a partition: never too many, in any order, and the next consumer reads them back."""

import random
from collections.abc import Iterable

import pytest

from triggers.providers.kafka.offsets import ROOM, Partition


def resumed(found: tuple[int, str] | None) -> Partition:
    assert found is not None
    return Partition.resumed("orders", 0, *found)


def taken(offsets: Iterable[int]) -> Partition:
    partition = Partition.resumed("orders", 0, -1, None)
    for offset in offsets:
        assert partition.take(offset) is False
    return partition


class TestCommitting:
    def test_nothing_is_committed_before_a_message_came(self) -> None:
        assert Partition.resumed("orders", 0, -1001, "").to_commit() is None
        assert taken([]).to_commit() is None

    def test_where_a_new_partition_begins_is_committed_before_a_message_came(self) -> None:
        for offset in (0, 7):
            partition = Partition.new("orders", 0, offset)

            assert partition.to_commit() == (offset, "")
            partition.committed((offset, ""))
            assert partition.to_commit() is None

    @pytest.mark.parametrize(
        ("offsets", "settled", "committed"),
        [
            pytest.param(range(5), [0, 1, 3], (2, "doubtless1 3 1"), id="not all are settled"),
            pytest.param(range(3), [2, 0, 1], (3, ""), id="all are settled"),
            # The offsets between were compacted, or mark the end of a transaction.
            pytest.param([4, 9], [4, 9], (10, ""), id="the log has gaps"),
            pytest.param(
                range(2), [7, 0, 0], (1, "doubtless1 1 "), id="one twice, and one that came elsewhere"
            ),
        ],
    )
    def test_the_first_that_is_not_settled_is_where_the_next_consumer_begins(
        self, offsets: Iterable[int], settled: list[int], committed: tuple[int, str]
    ) -> None:
        partition = taken(offsets)
        for offset in settled:
            partition.settle(offset)

        assert partition.to_commit() == committed

    def test_the_same_is_committed_once_unless_it_must_surely_stand(self) -> None:
        partition = taken(range(2))
        partition.settle(0)
        found = partition.to_commit()
        assert found is not None
        partition.committed(found)

        assert partition.to_commit() is None
        assert partition.to_commit(surely=True) == found


class TestResuming:
    def test_what_was_settled_is_skipped_and_what_was_handed_out_comes_again(self) -> None:
        before = taken(range(6))
        for offset in (0, 2, 3):
            before.settle(offset)

        after = resumed(before.to_commit())

        assert [after.take(offset) for offset in range(1, 8)] == [True, None, None, True, True, False, False]

    def test_whatever_the_order_nothing_is_skipped_that_was_not_settled(self) -> None:
        choose = random.Random(7)  # noqa: S311  (no secret)
        for _ in range(200):
            settled: set[int] = set()
            partition, begun = Partition.resumed("orders", 0, -1, None), 0
            for _ in range(choose.randrange(1, 60)):
                if choose.random() < 0.5 or begun == 0:
                    partition.take(begun)
                    begun += 1
                else:
                    offset = choose.randrange(begun)
                    partition.settle(offset)
                    settled.add(offset)
                if choose.random() < 0.1 and (found := partition.to_commit(surely=True)) is not None:
                    partition = resumed(found)
                    for offset in range(found[0], begun):
                        assert (partition.take(offset) is None) is (offset in settled)

            found = partition.to_commit(surely=True)
            assert found is not None
            assert set(range(found[0])) <= settled

    @pytest.mark.parametrize(
        "text",
        [
            *("", "somebody else's", "doubtless2 5 1", "doubtless1 x 1"),
            *("doubtless1 5 1-", "doubtless1 2 1-90000"),
        ],
    )
    def test_a_text_that_is_not_ours_means_that_nothing_beyond_is_known(self, text: str) -> None:
        partition = Partition.resumed("orders", 0, 10, text)

        assert [partition.take(offset) is None for offset in range(10, 14)] == [False] * 4

    def test_a_text_has_room_and_what_does_not_fit_comes_again(self) -> None:
        before = taken(range(10_000))
        for offset in range(1, 10_000, 2):
            before.settle(offset)

        offset, text = before.to_commit() or (-1, "")
        after = Partition.resumed("orders", 0, offset, text)
        skipped = [offset for offset in range(10_000) if after.take(offset) is None]

        assert (offset, len(text) <= ROOM) == (0, True)
        assert len(skipped) > 500
        assert all(offset % 2 for offset in skipped)
