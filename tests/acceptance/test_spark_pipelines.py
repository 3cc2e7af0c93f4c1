"""The pipelines that ship with the project: the example, and the end of the demo."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import ROOT
from tests.acceptance.command_line import CommandLine
from tests.fixtures.scale import ONLY_IN_FULL
from tests.fixtures.servers.spark import SPARK_PROCESSES, need_spark
from tests.fixtures.waiting import patience

pytestmark = [SPARK_PROCESSES, pytest.mark.timeout(300)]


@pytest.mark.prove
def test_the_pipeline_and_the_counter_book_each_order_once(redis_url: str, tmp_path: Path) -> None:
    need_spark()

    ended = subprocess.run(
        [sys.executable, ROOT / "examples" / "pipeline.py", redis_url],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert ended.returncode == 0, ended.stderr[-3000:]
    # Clerks type 100 orders. 50 of them are also in the web shop's stream of 300, and 60 come twice.
    assert ended.stdout.splitlines() == [
        "counter: 100 booked",
        "pipeline: 360 rows, 250 new, 110 duplicate",
        "booked: 350 orders, 0 of them twice",
    ]


@ONLY_IN_FULL  # `make demo` does the same
def test_the_demo_ends_with_a_pipeline_that_books_only_what_is_new(doubtless: CommandLine) -> None:
    need_spark()

    with doubtless.start("demo", "--count", "50", "--json") as process:
        out, err = process.communicate(timeout=patience(280.0))

    summary = json.loads(out)
    told = summary["spark"]
    assert (process.returncode, summary["mistakes"], told["mistakes"]) == (0, [], []), err
    assert (told["new"], told["rows"]) == (200, summary["sent"] + 400)
    assert told["duplicate"] >= 200 + 50


@pytest.mark.prove
def test_the_demo_says_why_the_pipeline_is_left_out(doubtless: CommandLine) -> None:
    answer = doubtless("demo", "--count", "20", PATH="/nowhere")

    assert answer.code == 0
    assert "the pipeline of Spark is left out: Java is missing: apt-get install" in answer.out
