"""What Spark loads: triggers and consumers load Spark, so it loads neither of them."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

LOADED = """
import sys
import triggers.spark, triggers.spark.atomic_sink.sink, triggers.spark.row_service.service
print(*[name for name in sys.modules if name.startswith(("triggers.declaration", "triggers.consumer"))])
"""


def test_spark_loads_neither_triggers_nor_consumers() -> None:
    ended = subprocess.run([sys.executable, "-c", LOADED], check=True, capture_output=True, text=True)

    assert ended.stdout.split() == []
