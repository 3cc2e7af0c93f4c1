"""Compare the bodies of a partition before its rows are claimed, as a pipeline does with messages.

The history keeps the first fingerprint under a uuid, with one call for many rows. A row with another
fingerprint is not claimed, and it is not a duplicate: it gets a second look, and the table rejects it (row
23).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

import numpy as np

from triggers.pipeline.bodies import keeper_of, lasting_for
from triggers.spark.connections import history_at, patiently
from triggers.spark.rows.arrow import Array, Numbers, first_of_groups, only, texts, valid
from triggers.spark.rows.fingerprints import NOTHING, bytes_of, number_of


@dataclass(slots=True)
class FirstBodies:
    """Finds rows of one partition, with sorted keys, that do not have the first body of their uuid."""

    url: str
    trigger: str
    time_to_live: timedelta
    patience: timedelta
    #: The fingerprint that came first under the last key so far.
    _last: int = NOTHING

    def unlike(self, keys: Array, groups: Numbers, prints: Numbers) -> Numbers:
        """Return which rows of a batch have another body than the first one of their key.

        ``groups`` number the keys: rows of group 0 have the last key of the batch before.
        """
        if not len(groups):
            return np.zeros(0, bool)
        printed = valid(keys) & (prints != NOTHING)
        asked = first_of_groups(groups, printed, begun=self._last != NOTHING)
        firsts = np.zeros(groups[-1] + 1, np.int64)
        firsts[0] = self._last
        if asked.any():
            firsts[groups[asked]] = self._first_of_each(texts(only(keys, asked)), prints[asked])
        self._last = int(firsts[groups[-1]])
        differs: Numbers = printed & (firsts[groups] != prints)
        return differs

    def _first_of_each(self, uuids: Sequence[str], prints: Numbers) -> Sequence[int]:
        bodies = [(uuid, bytes_of(int(one))) for uuid, one in zip(uuids, prints, strict=True)]
        kept, lasting = keeper_of(history_at(self.url)), lasting_for(self.time_to_live)
        found = patiently(self.patience, kept.first_of_each, self.trigger, bodies, lasting)
        return [number_of(one) for one in found]
