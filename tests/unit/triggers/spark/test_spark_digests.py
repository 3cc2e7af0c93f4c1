"""Identities of a column as the digests that a history stores."""

from typing import Any

import numpy as np
import pyarrow as pa  # pyright: ignore[reportMissingTypeStubs]
import pytest

from history.entry import digest
from triggers.spark.rows.digests import digests_of, near

_arrow: Any = pa

#: Texts of one, two, three and four bytes a letter, and one that is longer than a block of the hash.
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
    assert begun == len(set(places)), "a bucket is come back to"
