"""A driver that runs a recipe of the docs: ``spark_sleeper FOLDER HISTORY RECIPE (stop | go)``.

With "stop" it stops itself (SIGSTOP) when it has entered the function, as a driver that hangs does. It reads
the recipe's code from the page, with the paths and the history of the test.
"""

import os
import re
import signal
import sys
from pathlib import Path
from typing import Any

from tests.fixtures.servers.spark import local_session
from triggers.spark import ForeachBatch
from triggers.spark.batch.steps import BatchStep

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "write-from-spark-exactly-once.md"

#: The names of the functions of the recipes that are run.
RECIPES = ("load", "load_folder")


def recipe(name: str, folder: Path, history: str) -> ForeachBatch:
    """Return the function of a recipe."""
    made: ForeachBatch = _run_block(f"def {name}(", folder, history)[name]
    return made


def newest_folders(folder: Path, history: str) -> list[str]:
    """Return which folders the page tells readers to read."""
    given = _run_block("def newest_folders(", folder, history, until="\n\norders = ")
    folders: list[str] = given["newest_folders"](folder / "orders")
    return folders


def _run_block(holds: str, folder: Path, history: str, until: str = "```") -> dict[str, Any]:
    blocks = re.findall(r"```python no-run\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (block,) = [one for one in blocks if holds in one]
    code = block.partition(until)[0].replace("/data", str(folder))
    code = code.replace("redis://127.0.0.1:6379/0", history)
    names: dict[str, Any] = {"Path": Path, "__name__": __name__}
    exec(code, names)  # noqa: S102  (it is the code of our own page)
    return names


def main(folder: Path, history: str, name: str, *, stops: bool) -> None:
    """Run the recipe's query until it has seen everything."""
    spark = local_session(folder / str(os.getpid()))
    made = recipe(name, folder, history)

    def observe(step: BatchStep) -> None:
        if stops and step is BatchStep.ENTERED:
            (folder / "stopped").touch()
            os.kill(os.getpid(), signal.SIGSTOP)

    made.observe = observe
    stream = spark.readStream.schema("uuid string").parquet(str(folder / "in"))
    query = made.write_stream(stream).queryName("q").trigger(availableNow=True)
    query.option("checkpointLocation", str(folder / "checkpoint")).start().awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3], stops=sys.argv[4] == "stop")
