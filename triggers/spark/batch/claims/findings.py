"""The findings under a uuid and the verdicts on a row, as the small numbers that tasks work with."""

from enum import IntEnum

import numpy as np

from history.identity import UNDEFINED_COUNT
from triggers.detection.facts import Found
from triggers.spark.rows.arrow import Numbers


class RowVerdict(IntEnum):
    """The verdict on a row; rows from ASIDE on need a second look, with all their columns.

    ADOPTED is also NEW: an earlier run of the batch had claimed it, or an abandoned run. DONE is a duplicate
    that an earlier run of the same batch has completed, if the sink is rewritten. RESOLVED is a row that was
    looked at again, and that this run now owns. LEFT_OUT comes with a batch that the sink has committed, and
    may not have been handed to the sink. OTHER_BODY does not have the first body of its uuid.
    """

    NEW = 0
    ADOPTED = 1
    DUPLICATE = 2
    DONE = 3
    ASIDE = 4
    ASKED = 5
    REPLAYED = 6
    RESOLVED = 7
    LEFT_OUT = 8
    OTHER_BODY = 9


#: Added to the verdict on the first row of a uuid, for each further row.
AGAIN = 16

#: The possible findings for a row, and whether its entry belongs to an earlier run of the same batch.
KINDS: tuple[tuple[Found, bool], ...] = (
    (Found.NOTHING, False),
    (Found.COMPLETED_OK, False),
    (Found.COMPLETED_FAILED, False),
    (Found.STARTED, False),
    (Found.IN_PROGRESS, False),
    (Found.COMPLETED_OK, True),
    (Found.STARTED, True),
)

#: The next index: a row of a batch that the sink has committed, perhaps without this row.
LEFT_OUT = len(KINDS)

#: The next index: an entry that this run takes over, of a row for the function.
ADOPTED = LEFT_OUT + 1


def classes_of(counts: Numbers) -> Numbers:
    """Return the class of each delivery count, as an index of the table."""
    return np.where(counts == UNDEFINED_COUNT, 0, np.where(counts == 1, 1, 2))
