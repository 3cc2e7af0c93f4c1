"""A driver with several queries; each query stops at its own point, and is killed there.

Called as ``spark_victim FOLDER HISTORY (stop | go)``: with "stop", it creates a file
``stopped-<lane>`` for each query that has reached its point; with "go", the queries run to their end.
"""

import json
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from tests.fixtures.servers.redis import connected
from tests.fixtures.servers.spark import local_session
from tests.integration.helpers.file_streams import FileStream
from triggers.spark import BatchInfo, ForeachBatch, foreach_batch
from triggers.spark.batch.batch import BatchStep

#: The uuids in each query's stream.
UUIDS = tuple(f"u{n}" for n in range(6))

#: The points, the second one in the middle of the user's function.
POINTS = ("before", "inside", "after", "completed")

STEPS = {"before": BatchStep.CLAIMED, "after": BatchStep.RUN, "completed": BatchStep.NOTED}

#: How rows that come again are handled; with "committed" the sink knows its commits.
REPLAYS: tuple[Any, ...] = ("in_doubt", "execute", "committed")


@dataclass(frozen=True)
class Lane:
    """One query: its point of death, and its handling of rows that come again."""

    point: str
    on_replay: Any

    @property
    def name(self) -> str:
        return f"{self.point}-{self.on_replay}"


LANES = tuple(Lane(point, on_replay) for point in POINTS for on_replay in REPLAYS)


class Victim:
    """The queries of one driver."""

    def __init__(self, folder: Path, history: str, *, stops: bool) -> None:
        self.folder = folder
        self.history = history
        self.stops = stops
        self.spark: SparkSession = local_session(folder)

    def load(self, lane: Lane) -> ForeachBatch:
        """Return the function of one query: its effects are in Redis."""

        def effects(new: DataFrame, _: int) -> None:
            rows = sorted(row.uuid for row in new.select("uuid").collect())
            with connected(self.history) as client:
                for place, uuid in enumerate(rows):
                    if place == len(rows) // 2 and lane.point == "inside":
                        self._stop(lane)
                    client.rpush(f"effects:{lane.name}", uuid)

        made = (
            self._knowing(lane)
            if lane.on_replay == "committed"
            else foreach_batch(
                "orders", name=lane.name, uuid="uuid", history=self.history, on_replay=lane.on_replay
            )(effects)
        )
        made.observe = self._observer(lane)
        return made

    def _knowing(self, lane: Lane) -> ForeachBatch:
        """Return a function with a sink that stores the effects and the name of their batch, both or none."""

        def key(batch: BatchInfo) -> str:
            return f"committed:{lane.name}:{batch.lineage}:{batch.batch_id}"

        def effects(new: DataFrame, batch: BatchInfo) -> None:
            rows = sorted(row.uuid for row in new.select("uuid").collect())
            with connected(self.history) as client, client.pipeline() as transaction:
                transaction.rpush(f"effects:{lane.name}", *rows)
                if lane.point == "inside":
                    self._stop(lane)
                transaction.set(key(batch), 1)
                transaction.execute()

        def committed(batch: BatchInfo) -> bool:
            with connected(self.history) as client:
                return bool(client.exists(key(batch)))

        return foreach_batch(
            "orders", name=lane.name, uuid="uuid", history=self.history, committed=committed
        )(effects)

    def _observer(self, lane: Lane) -> Callable[[BatchStep], None]:
        def observe(step: BatchStep) -> None:
            if step is STEPS.get(lane.point):
                self._stop(lane)

        return observe

    def _stop(self, lane: Lane) -> None:
        if self.stops:
            (self.folder / f"stopped-{lane.name}").touch()
            threading.Event().wait()

    def run(self) -> None:
        """Run all queries at the same time, and write down their reports."""
        loads = {lane: self.load(lane) for lane in LANES}
        stream = FileStream(self.spark, self.folder)
        queries = [stream.start(load, f"checkpoint-{lane.name}") for lane, load in loads.items()]
        for query in queries:
            query.awaitTermination()
        reports = {lane.name: [one.counts for one in load.reports] for lane, load in loads.items()}
        (self.folder / "reports.json").write_text(json.dumps(reports))
        self.spark.stop()


if __name__ == "__main__":
    Victim(Path(sys.argv[1]), sys.argv[2], stops=sys.argv[3] == "stop").run()
