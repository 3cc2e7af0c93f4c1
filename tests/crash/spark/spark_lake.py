"""A driver that reads Apache Kafka into a lake, and kills itself.

Called as ``spark_lake FOLDER HISTORY BROKER RECIPE DEATH``. If ``DEATH`` is a step of a batch, it dies at
this step. If it is a seed, the seed chooses the moment. With ``-``, it runs to its end; with ``silence``
too, and each reply of the sink is lost. Source and sink are the code of the pages.
"""

import os
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame

from tests.crash.spark.spark_marathon import Death, die
from tests.crash.spark.spark_sleeper import Place
from tests.fixtures.scale import sized
from tests.fixtures.servers.lakes import LAKES
from tests.fixtures.servers.spark import local_session
from triggers.spark import BatchInfo, ForeachBatch
from triggers.spark.batch.batch import BatchStep

#: How many records a batch has at most.
ROWS_OF_BATCH = sized(1_100, full=2_200)

#: The argument for a driver with a sink that does not reply.
SILENCE = "silence"

#: How many seconds a driver lives at most, from the start of its query.
MOST_SECONDS = 6.0


def observe_death(made: ForeachBatch, how: str) -> None:
    """Let this driver die."""
    if how in BatchStep.__members__:

        def observe(step: BatchStep) -> None:
            if step is BatchStep[how]:
                die()

        made.observe = observe
        return
    death = Death(how, MOST_SECONDS)
    made.observe = death.observe
    death.begin()


def without_replies(made: ForeachBatch) -> ForeachBatch:
    """Let each call of the function fail after the commit of the sink."""

    recipe: Any = made.function

    def written(new: DataFrame, batch: BatchInfo) -> None:
        recipe(new, batch)
        raise ConnectionError("no reply")

    return ForeachBatch(written, made.settings)


def main(place: Place, recipe: str, how: str) -> None:
    """Run the query until it has read all current messages of the topic."""
    session = local_session(place.folder / str(os.getpid()), **LAKES[recipe].options)
    made = place.made(recipe)
    assert isinstance(made, ForeachBatch)
    orders = place.orders_of_kafka(ROWS_OF_BATCH)
    if how == SILENCE:
        made = without_replies(made)
    else:
        observe_death(made, how)
    query = made.write_stream(orders).queryName("q").trigger(availableNow=True)
    query.option("checkpointLocation", str(place.folder / "checkpoint")).start().awaitTermination()
    session.stop()


if __name__ == "__main__":
    main(Place(Path(sys.argv[1]), sys.argv[2], broker=sys.argv[3]), *sys.argv[4:6])
