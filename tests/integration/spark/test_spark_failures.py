"""Java throws the failures of a sink's Spark job. Some of them may succeed in another try."""

from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (as everybody calls it)

from history.store.parking import ParkedKind
from tests.fixtures.servers.spark import SPARK
from tests.integration.helpers.batches import Batches
from triggers import on_retrieval_failure
from triggers.events import RetrievalFailureEvent
from triggers.spark import causes_of

pytestmark = SPARK


@pytest.fixture
def batches(spark: SparkSession, redis_url: str) -> Batches:
    return Batches(spark, redis_url)


def is_away(error: Exception) -> bool:
    return any(
        "SparkRuntimeException: [USER_RAISED_EXCEPTION] the sink is away" in one for one in causes_of(error)
    )


def fail(new: DataFrame, _: int) -> None:
    new.select(F.raise_error(F.lit("the sink is away"))).collect()


def test_a_function_that_sees_what_java_has_thrown_tells_what_is_transient(batches: Batches) -> None:
    made = batches.make(fail, transient=is_away)
    with pytest.raises(PySparkException, match="the sink is away"):
        made(batches.rows(["a", "b"]), 7)

    report = batches.run(["a", "b"])

    assert (report.new, report.in_doubt) == (2, 0)


def test_a_failure_of_python_is_told_by_its_classes() -> None:
    error = ValueError("no rows")
    error.__cause__ = ConnectionError("refused")

    assert causes_of(error) == ["builtins.ValueError: no rows", "builtins.ConnectionError: refused"]


@pytest.mark.parametrize("heard", [True, False])
def test_a_batch_that_is_given_up_is_parked_whether_or_not_anybody_hears_of_it(
    batches: Batches, *, heard: bool
) -> None:
    events: list[RetrievalFailureEvent] = []
    subscription: Any = on_retrieval_failure(trigger="load" if heard else "another")(events.append)
    made = batches.make(fail, on_fatal="reject")

    made(batches.rows(["a", "b"]), 7)

    subscription.cancel()
    assert made.reports[-1].rejected == 2
    assert {kind for kind, _ in batches.parked().values()} == {ParkedKind.REJECTED}
    assert sorted(str(event.uuid) for event in events) == (["a", "b"] if heard else [])
