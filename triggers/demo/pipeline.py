"""The last part of the demo: the shop sends its file again, with more orders, to a pipeline of Spark.

``python -m triggers.demo.pipeline HISTORY ORDERS FOLDER`` reads the file in a stream and books orders that
are not booked yet. It shares the history of the demo's service: an order that the service has processed is a
duplicate here.
"""

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from triggers.demo.booking import book

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: How many orders only the pipeline gets; each comes twice.
MORE = 200

#: How long the pipeline may take, in seconds.
DEADLINE = 300.0

_SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineSummary:
    """The results of the rows; ``mistakes`` is empty if each new order was booked once."""

    rows: int = 0
    new: int = 0
    duplicate: int = 0
    in_doubt: int = 0
    rejected: int = 0
    mistakes: Sequence[str] = ()


def why_left_out() -> str | None:
    """Return what is missing for the pipeline; None if it can run."""
    if shutil.which("java") is None:
        return "Java is missing: apt-get install openjdk-17-jre-headless"
    if find_spec("pyspark") is None or find_spec("pyarrow") is None:
        return "PySpark is missing: pip install 'doubtless[spark]'"
    return None


def run_pipeline(history: str, orders: Path, folder: Path) -> PipelineSummary:
    """Run the pipeline in a separate process, because Spark prints much."""
    command = [sys.executable, "-m", __name__, history, str(orders), str(folder)]
    with (folder / "pipeline.log").open("wb") as stderr:
        ended = subprocess.run(command, stdout=subprocess.PIPE, stderr=stderr, timeout=DEADLINE, check=False)
    if ended.returncode == 0:
        return PipelineSummary(**json.loads(ended.stdout))
    log = (folder / "pipeline.log").read_text(errors="replace").strip().splitlines()
    return PipelineSummary(mistakes=[f"the pipeline ended with {ended.returncode}: {log[-1:]}"])


def main(history: str, orders: Path, folder: Path) -> PipelineSummary:
    """Read, book new orders, and check the bookings."""
    from pyspark.sql import SparkSession  # noqa: PLC0415  (the reason why it is left out does not need it)

    from triggers.spark import foreach_batch  # noqa: PLC0415  (as above)

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.Builder().master("local[2]").appName("doubtless demo")
    for name, value in _SETTINGS.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()

    # Each batch has a separate folder; a repetition of the batch overwrites it.
    @foreach_batch(
        book.destination,
        name=book.name,
        uuid="uuid",
        message_id="JMSMessageID",
        history=history,
        on_replay="execute",
    )
    def load(new: "DataFrame", batch_id: int) -> None:
        new.select("uuid", "body").write.mode("overwrite").json(str(folder / "spark" / f"batch={batch_id}"))

    writer = load.write_stream(_stream(spark, orders, folder / "sent-again")).queryName("demo")
    query = writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True)
    query.start().awaitTermination()
    spark.stop()
    counts = Counter[str]()
    for report in load.reports:
        counts.update(report.counts)
    names = ("rows", "new", "duplicate", "in_doubt", "rejected")
    return PipelineSummary(**{name: counts[name] for name in names}, mistakes=_mistakes(folder / "spark"))


def _stream(spark: "SparkSession", orders: Path, folder: Path) -> "DataFrame":
    """Put the file and the further orders where Spark looks for files, and return them as a stream."""
    from triggers.spark.rows.columns import valid_text  # noqa: PLC0415  (as above)

    folder.mkdir()
    (folder / "orders.jsonl").write_bytes(orders.read_bytes())
    more = "".join(json.dumps({"headers": {"uuid": uuid}, "body": {"id": uuid}}) + "\n" for uuid in _uuids())
    (folder / "more.jsonl").write_text(more * 2)
    lines = spark.readStream.text(str(folder)).where("value <> ''")
    # A line that is not UTF-8 is not a message, whatever the rest of it contains.
    line = valid_text("value")
    return lines.selectExpr(
        f"get_json_object({line}, '$.headers.uuid') AS uuid",
        f"get_json_object({line}, '$.headers.JMSMessageID') AS JMSMessageID",
        "get_json_object(value, '$.body') AS body",
    )


def _uuids() -> list[str]:
    return [f"late-order-{number}" for number in range(MORE)]


def _mistakes(folder: Path) -> Sequence[str]:
    lines = [line for file in folder.glob("*/*.json") for line in file.read_text().splitlines()]
    booked, wanted = Counter(str(json.loads(line)["uuid"]) for line in lines), set(_uuids())
    wrong = {
        "booked twice by the pipeline": {uuid for uuid, times in booked.items() if times > 1},
        "not booked by the pipeline": wanted - booked.keys(),
        "booked again by the pipeline": booked.keys() - wanted,
    }
    return [f"{what}: {', '.join(sorted(uuids)[:5])}" for what, uuids in wrong.items() if uuids]


if __name__ == "__main__":
    sys.stdout.write(json.dumps(asdict(main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])))))
