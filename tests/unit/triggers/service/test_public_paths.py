"""Records, headers and pickles name what users see by its public path, ``triggers.FatalError``."""

import copy
import inspect
import pickle
from datetime import timedelta
from typing import Any, cast

import pytest

import triggers
from history import (
    ConfigurationError,
    DoubtlessError,
    Fence,
    HistoryUnavailableError,
    MissingExtraError,
    UnavailableError,
)
from history.store import JoinPart
from history.support.rendering import class_of
from triggers import Delivery, Message, Outcome, Retry, Status


def of_the_face() -> list[type]:
    """Return the classes of the face that are defined in this package."""
    found = [getattr(triggers, name) for name in cast("Any", triggers).__all__]
    return [one for one in found if inspect.isclass(one) and one.__module__.startswith("triggers")]


ERRORS = [one for one in of_the_face() if issubclass(one, BaseException)]

PART = JoinPart(activation="a", destination="orders", fence=Fence(1), message=Message(body="x", uuid="u"))

MADE: list[DoubtlessError] = [
    triggers.FatalError("no such customer"),
    triggers.TransientError("locked"),
    triggers.BodyTooLargeError(3, 2),
    triggers.BodyInvalidError("order", "amount: missing"),
    triggers.LeaseLostError("u", "we", "they"),
    triggers.UnawaitedError("book", 3),
    triggers.FilterAnswerError("filter", 3),
    triggers.UnidentifiedError("body.id", "the message has nothing there"),
    triggers.NoActivationError(),
    triggers.PlaceTakenError(PART),
    ConfigurationError("lease", "must be a timedelta, not 5", "use one"),
    MissingExtraError("redis://", extra="redis", package="redis"),
    UnavailableError("the broker", "sending"),
    HistoryUnavailableError("claiming"),
]


@pytest.mark.parametrize("kind", ERRORS, ids=lambda kind: kind.__name__)
def test_an_error_is_named_by_its_public_path(kind: type[BaseException]) -> None:
    assert class_of(kind.__new__(kind)) == f"triggers.{kind.__name__}"
    assert getattr(triggers, kind.__qualname__) is kind


@pytest.mark.parametrize("error", MADE, ids=lambda error: type(error).__name__)
def test_an_error_comes_back_from_a_pickle_with_what_it_says(error: DoubtlessError) -> None:
    error.add_note("a note")

    for twin in (pickle.loads(pickle.dumps(error)), copy.copy(error)):  # noqa: S301  (our own)
        assert type(twin) is type(error)
        assert str(twin) == str(error)
        assert vars(twin) == vars(error)


VALUES = [
    Retry(max_attempts=3, interval=timedelta(seconds=1)),
    Delivery(uuid="u", fence=1, attempt=1, trigger_name="book"),
    Outcome(status=Status.NEW, executed=True, acknowledge=True, reason="row 7", row=7),
    Status.IN_DOUBT,
    triggers.Cause.SERVICE_FAILED,
    triggers.RetrievalFailureEvent(
        trigger_name="book", destination="orders", delivery_count=1, cause=triggers.Cause.UNREADABLE
    ),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_a_value_comes_back_from_a_pickle_that_names_its_public_path(value: object) -> None:
    pickled = pickle.dumps(value, 0)

    assert b"triggers.service" not in pickled
    assert b"triggers.detection" not in pickled
    assert b"triggers.events" not in pickled
    assert pickle.loads(pickled) == value  # noqa: S301  (our own)
