"""If RabbitMQ does not tell the arguments of a queue, its limit is unknown, and the reason is reported."""

from collections.abc import Awaitable, Callable, Mapping

import pytest

from history.bridge import drive
from history.errors import ConfigurationError, NotPermittedError
from triggers.providers.rabbitmq.limits import limit_of, limit_of_queue


def answering(*answers: Exception | None) -> Callable[[Mapping[str, object]], Awaitable[object]]:
    """Return a function that declares a queue; it gives these answers in turn, and then the last for ever."""
    left = list(answers)

    async def declare(arguments: Mapping[str, object]) -> None:
        assert {"x-queue-type": "doctor"}.items() <= arguments.items() or arguments[
            "x-delivery-limit"
        ] == "doctor"
        answer = left.pop(0) if len(left) > 1 else left[0]
        if answer is not None:
            raise answer

    return declare


def refused(text: str) -> ConfigurationError:
    return ConfigurationError("destination", f"RabbitMQ refuses it: PRECONDITION_FAILED - {text}", "-")


@pytest.mark.parametrize(
    ("answers", "unseen"),
    [
        ([NotPermittedError("destination", "ACCESS_REFUSED", "-")], "its account may not declare"),
        (
            [refused("inequivalent arg 'x-max-length' for queue 'q': received none but current is '5'")],
            "not say",
        ),
        ([None], "does not say"),
    ],
)
def test_what_cannot_be_seen_is_said(answers: list[Exception | None], unseen: str) -> None:
    limit = drive(limit_of_queue(answering(*answers), 4))

    assert limit is not None
    assert (limit.deliveries, limit.is_kept) == (None, False)
    assert unseen in limit.unseen


def test_another_refusal_means_that_there_is_no_such_queue() -> None:
    assert drive(limit_of_queue(answering(refused("invalid arg 'x-queue-type' for queue 'q'")), 4)) is None


@pytest.mark.parametrize(("limit", "deliveries"), [(-1, None), (0, 1), (7, 8)])
def test_a_limit_counts_what_comes_again(limit: int, deliveries: int | None) -> None:
    found = limit_of({"x-queue-type": "quorum", "x-delivery-limit": limit}, 4)

    assert found is not None
    assert found.deliveries == deliveries
