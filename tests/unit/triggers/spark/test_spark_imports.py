"""Spark loads few modules.

Triggers and consumers load Spark, so it loads neither of them. A Python worker loads only what it needs: each
executor pays for it at its first task, and again for each new worker.
"""

import subprocess
import sys

import pytest

from tests import ROOT

pytestmark = pytest.mark.slow

OURS = ("doubtless", "history", "resolvers", "triggers")

LOADED = """
import sys
import triggers.spark, triggers.spark.atomic_sink.sink, triggers.spark.row_service.service
import triggers.spark.decorator
print(*[name for name in sys.modules if name.startswith(("triggers.declaration", "triggers.consumer"))])
"""

#: The work of a Python worker before its first row: it imports its function, and opens the history.
WORKER = """
import sys
import triggers.spark.batch.claims.bulk
print(*sys.modules)
from triggers.spark.connections import history_at
history_at("redis://127.0.0.1:1/0")
print(*sys.modules)
"""

#: Modules of ours that a worker needs for its function. Packages with only a description are left out.
FUNCTION = {
    "history.bridge",
    "history.entry",
    "history.errors",
    "history.identity",
    "history.opening",
    "history.store.history",
    "history.store.owners",
    "history.support.encryption",
    "history.support.faces",
    "history.support.forks",
    "history.support.namesakes",
    "history.support.paging",
    "history.support.private_files",
    "history.support.references",
    "history.support.tls",
    "history.support.urls",
    "triggers.detection.facts",
    "triggers.pipeline.finding",
    "triggers.spark.batch.claims.bulk",
    "triggers.spark.batch.claims.findings",
    "triggers.spark.batch.owners",
    "triggers.spark.connections",
    "triggers.spark.rows.arrow",
    "triggers.spark.rows.digests",
    "triggers.spark.rows.kinds",
    "triggers.spark.rows.older_spark",
}

#: Modules that it also needs for a history in Redis, apart from ``history.redis`` itself.
REDIS = {
    "history.beside.kept",
    "history.circuit",
    "history.store.inspection",
    "history.store.leases",
    "history.store.records",
    "history.store.single_verbs",
    "history.store.times",
    "history.store.turning",
}


def printed_by(program: str) -> list[list[str]]:
    """Return the words of each line that a program prints."""
    ended = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True, cwd=ROOT
    )
    return [line.split() for line in ended.stdout.splitlines()]


def of_ours(modules: list[str]) -> set[str]:
    """Return the modules of ours, without the packages in which they are."""
    ours = {name for name in modules if name.partition(".")[0] in OURS}
    return {name for name in ours if not any(other.startswith(f"{name}.") for other in ours)}


def test_spark_loads_neither_triggers_nor_consumers() -> None:
    assert printed_by(LOADED) == [[]]


def test_a_worker_loads_only_what_it_needs_to_claim() -> None:
    function, opened = printed_by(WORKER)

    assert of_ours(function) <= FUNCTION
    assert "redis" not in function, "the driver is loaded at the first claim"
    of_redis = {name for name in of_ours(opened) if name.startswith("history.redis.")}
    assert of_ours(opened) - of_redis <= FUNCTION | REDIS
    assert of_redis.isdisjoint({"history.redis.joining"})
    assert {"pydantic", "platformdirs", "tenacity"}.isdisjoint(opened)
