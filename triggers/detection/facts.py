"""The facts about a delivery that the decision table reads.

Every Python worker of Spark imports this module, so it imports nothing of ours.
"""

from enum import Enum


class Known(Enum):
    """A fact about a delivery. Looked up for every message, so its members hash as plain objects do."""

    __hash__ = object.__hash__


class Count(Known):
    """The information in a delivery count."""

    OVER = "> max_delivery_count"
    FIRST = "1"
    AGAIN = "> 1"
    UNDEFINED = "-1"


class HistoryUse(Known):
    """Whether the document history took part."""

    OFF = "off"
    ON = "on"
    UNREACHABLE = "unreachable"


class Found(Known):
    """The document history's knowledge of the uuid."""

    NOTHING = "absent"
    FORGOTTEN = "forgotten: absent, redelivered, and so old that its entry may be deleted"
    COMPLETED_OK = "COMPLETED ok"
    COMPLETED_FAILED = "COMPLETED failed"
    STARTED = "STARTED, lease over or no lease"
    IN_PROGRESS = "STARTED, lease alive"
    OTHER_BODY = "any, and `fingerprint` shows that an earlier copy had another body"


class Word(Known):
    """The resolver's answer."""

    NONE = "none"
    NOT_ASKED = "not called"
    NEW = "NEW"
    DUPLICATE = "DUPLICATE"
    IN_DOUBT = "IN_DOUBT"
    TRANSIENT = "raises transient"
    BROKEN = "raises anything else, or answers nonsense"
