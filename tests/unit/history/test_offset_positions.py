"""The settled offsets of a partition, as a row stores them, compared with a plain set of offsets."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from history.sql.offsets.history import OffsetIdentity
from history.sql.offsets.position import Position, merged, within
from history.sql.offsets.seen import Place, Seen

#: No offset of these tests is greater.
MOST = 40

offsets = st.integers(0, MOST)
ranges = st.lists(st.tuples(offsets, offsets).map(lambda pair: (min(pair), max(pair))), max_size=6)


def settled_in(position: Position) -> set[int]:
    return {offset for offset in range(MOST + 2) if position.has(offset)}


def covered(pieces: list[tuple[int, int]]) -> set[int]:
    return {offset for first, last in pieces for offset in range(first, last + 1)}


@given(offsets, ranges, ranges)
def test_what_is_settled_stays_settled_and_nothing_else_is(
    begin: int, first: list[tuple[int, int]], second: list[tuple[int, int]]
) -> None:
    position = Position(begin).settled(first).settled(second)

    assert settled_in(position) == set(range(begin)) | covered(first) | covered(second)
    assert not position.has(position.next_offset)
    assert Position.read(position.next_offset, position.text) == position


@given(offsets, ranges, offsets)
def test_a_reopened_offset_is_the_only_one_that_is_not_settled_any_more(
    begin: int, pieces: list[tuple[int, int]], again: int
) -> None:
    position = Position(begin).settled(pieces)

    assert settled_in(position.reopened(again)) == settled_in(position) - {again}
    assert position.reopened(again).settled([(again, again)]) == position.settled([(again, again)])


@given(offsets, ranges, offsets)
def test_what_is_missing_is_what_is_not_settled_before(
    begin: int, pieces: list[tuple[int, int]], until: int
) -> None:
    position = Position(begin).settled(pieces)

    assert position.missing(until) == len(set(range(until)) - settled_in(position))


def test_an_offset_before_a_gap_closes_it() -> None:
    position = Position(3).settled([(4, 4), (6, 8)])

    assert (position.next_offset, position.text) == (3, "4,6-8")
    assert position.settled([(3, 3)]) == Position(5, ((6, 8),))


@pytest.mark.parametrize("text", ["x", "4,", "-3", "4-", "4 5", "٣"])
def test_a_text_of_somebody_elses_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="are no offsets"):
        Position.read(1, text)


@given(ranges)
def test_merged_ranges_are_apart_and_in_order(pieces: list[tuple[int, int]]) -> None:
    found = merged(pieces)

    assert covered(found) == covered(pieces)
    assert all(first[1] + 1 < second[0] for first, second in pairwise(found))
    assert {offset for offset in range(MOST + 1) if within(found, offset)} == covered(pieces)


class TestIdentity:
    @pytest.mark.parametrize("group", ["orders:book", "a", "kafka:a:b:1:2", ""])
    def test_it_is_read_back_whatever_the_group_is_called(self, group: str) -> None:
        identity = OffsetIdentity(Place(group, "orders", 3), 1234)

        assert OffsetIdentity.read(identity.uuid) == identity

    @pytest.mark.parametrize(
        "uuid", ["order-1", "kafka:a:b:1", "kafka:a:b:1:x", "kafka:a:b:-1:2", "link:a:b:1:2"]
    )
    def test_any_other_identity_is_none(self, uuid: str) -> None:
        assert OffsetIdentity.read(uuid) is None


class TestSeen:
    place = Place("g", "orders", 0)

    def test_a_row_that_rises_has_not_gone_back(self) -> None:
        seen = Seen()
        seen.begin(self.place, 5)

        assert [seen.note_locked(self.place, offset) for offset in (5, 7, 7)] == [False] * 3
        assert not seen.has_gone_back(self.place)

    @pytest.mark.parametrize("then", [6, None])
    def test_a_row_that_is_lower_or_gone_has_until_it_is_assigned_anew(self, then: int | None) -> None:
        seen = Seen()
        seen.begin(self.place, 5)
        seen.note_locked(self.place, 7)

        assert seen.note_locked(self.place, then)
        assert seen.has_gone_back(self.place)

        seen.begin(self.place, 0)
        assert not seen.has_gone_back(self.place)

    def test_what_a_transaction_has_stored_is_known_once(self) -> None:
        seen = Seen()
        seen.note_stored(self.place, [3])

        assert [seen.take_stored(self.place, 3) for _ in range(2)] == [True, False]
