"""The points of a micro-batch between which the driver may die, in the order in which they are reached."""

from collections.abc import Callable
from enum import IntEnum


class BatchStep(IntEnum):
    """The last completed step; :mod:`triggers.spark.foreach_batch` says what a later run finds."""

    BEGUN = 1
    CLAIMED = 2
    KEPT_ASIDE = 3
    ENTERED = 4
    RUN = 5
    COMPLETED = 6
    NOTED = 7


#: Receives every step that is reached, for example for the crash tests.
BatchObserver = Callable[[BatchStep], None]
