"""Identities as the digests that a history stores, a column at a time."""

from typing import Any

import numpy as np
import pyarrow as pa  # pyright: ignore[reportMissingTypeStubs]

from history.entry import DIGEST_SIZE, digests
from triggers.spark.rows.arrow import Array, Numbers

_arrow: Any = pa

#: Each byte with its bits in the other direction.
_TURNED = np.array([int(f"{byte:08b}"[::-1], 2) for byte in range(256)], np.uint16)


def digests_of(texts: Array) -> Numbers:
    """Return the digests of a column of texts, a line of bytes for each; none is null."""
    large = _arrow.types.is_large_string(texts.type)
    encoded = texts.cast(_arrow.large_binary() if large else _arrow.binary())
    packed = digests(encoded.to_numpy(zero_copy_only=False))
    return np.frombuffer(packed, np.uint8).reshape(-1, DIGEST_SIZE)


def near(lines: Numbers) -> Numbers:
    """Return the indexes of digests, those that a history keeps together beside each other.

    Redis has them in buckets, chosen by the last bits of the first four bytes, however many bits those are.
    """
    return np.argsort(_TURNED[lines[:, 3]] << 8 | _TURNED[lines[:, 2]], kind="stable")
