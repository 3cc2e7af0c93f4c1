"""Identities of a column as the digests that a history stores."""

from typing import Any

import numpy as np
import pyarrow as pa  # pyright: ignore[reportMissingTypeStubs]
import pytest

from history.entry import digest
from triggers.spark.rows.digests import MetDigests, digests_of, first_of_each, near

_arrow: Any = pa

#: Texts with one, two, three and four bytes per letter, and a text that is longer than a block of the hash.
TEXTS = ["a", "grüße", "日本", "🙂", "x" * 1000, "5f0c6b1e-9f5d-4a70"]


@pytest.mark.parametrize("kind", [_arrow.string(), _arrow.large_string()])
def test_a_column_has_the_digests_that_every_other_history_call_makes(kind: Any) -> None:
    whole = _arrow.array(["before", *TEXTS], kind)

    lines = digests_of(whole[1:])

    assert [line.tobytes() for line in lines] == [digest(text) for text in TEXTS]


def test_an_empty_column_has_none() -> None:
    assert digests_of(_arrow.array([], _arrow.string())).shape == (0, 16)


@pytest.mark.parametrize("buckets", [2, 64, 4096])
def test_digests_of_one_bucket_stand_beside_each_other(buckets: int) -> None:
    lines = digests_of(_arrow.array([f"uuid-{number}" for number in range(2000)]))

    order = near(lines)

    places = [int.from_bytes(line[:4].tobytes()) % buckets for line in lines[order]]
    begun = 1 + int(np.count_nonzero(np.diff(places)))
    assert sorted(order) == list(range(2000))
    assert begun == len(set(places)), "a bucket appears in two places"


def test_of_digests_that_are_the_same_the_first_is_found() -> None:
    lines = digests_of(_arrow.array(["b", "a", "b", "c", "a", "a"]))

    assert first_of_each(lines).tolist() == [0, 1, 0, 3, 1, 1]
    assert first_of_each(lines[:0]).tolist() == []


def test_what_was_met_is_told_however_many_pieces_it_came_in() -> None:
    texts = [f"uuid-{number}" for number in range(3000)]
    met = MetDigests()
    for start in range(0, 2000, 17):
        met.add(digests_of(_arrow.array(texts[start : min(start + 17, 2000)])))
    met.add(digests_of(_arrow.array([], _arrow.string())))

    assert met.has(digests_of(_arrow.array(texts))).tolist() == [True] * 2000 + [False] * 1000


def test_digests_that_share_a_half_are_told_apart() -> None:
    half, others = b"\7" * 8, [bytes([number]) * 8 for number in range(5)]
    lines = np.frombuffer(b"".join(half + other for other in [*others, *others[::-1]]), np.uint8).reshape(
        -1, 16
    )
    met = MetDigests()
    met.add(lines[1:4])

    assert first_of_each(lines).tolist() == [0, 1, 2, 3, 4, 4, 3, 2, 1, 0]
    assert met.has(lines[:5]).tolist() == [False, True, True, True, False]
    assert MetDigests().has(lines[:2]).tolist() == [False, False]
