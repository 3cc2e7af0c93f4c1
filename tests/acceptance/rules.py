"""Prometheus' own tool evaluates the shipped alerts over the reports of a real process."""

import json
import shutil
import subprocess
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from tests import ROOT
from tests.fixtures.needed import missing

RULES = ROOT / "triggers/metrics/alerts.yml"

#: The values of one scrape, by the name of the series and its labels.
Samples = dict[tuple[Any, ...], float]

#: The time between two scrapes in the series, and the number of scrapes before and during the fault.
INTERVAL, BEFORE, DURING = 15, 40, 80

#: The endings of counters' names.
COUNTERS = ("_total", "_count", "_sum")


def firing(
    folder: Path, healthy: Samples, scraped: Sequence[Samples], seconds: float
) -> set[tuple[str, str]]:
    """Return the alerts that fire, each with its trigger, if what was scraped goes on.

    Ten minutes of health come first, as it was scraped. Then come twenty minutes of the fault: counters, and
    gauges that grew with each scrape, go on growing as in the ``seconds`` of the scrapes. All others stay.
    """
    program = shutil.which("promtool")
    if program is None:
        missing("promtool", "run .ci/setup servers")
    shutil.copy(RULES, folder / "alerts.yml")
    series = [
        {"series": _name(key), "values": _before(key, value) + " " + _during(key, scraped, seconds)}
        for key, value in healthy.items()
    ]
    test: dict[str, Any] = {
        "interval": f"{INTERVAL}s",
        "input_series": series,
        "promql_expr_test": [
            {
                "expr": 'count by (alertname, trigger) (ALERTS{alertstate="firing"})',
                "eval_time": f"{(BEFORE + DURING - 1) * INTERVAL}s",
                "exp_samples": [],
            }
        ],
    }
    document: dict[str, Any] = {
        "rule_files": ["alerts.yml"],
        "evaluation_interval": f"{INTERVAL}s",
        "tests": [test],
    }
    file = folder / "tests.json"  # which is YAML
    file.write_text(json.dumps(document))
    judged = subprocess.run([program, "test", "rules", file], capture_output=True, text=True, check=False)
    return _told(judged.stdout + judged.stderr)


def _told(text: str) -> set[tuple[str, str]]:
    """Return what fires, from a complaint that nothing should: 'got: Labels:{alertname="A", trigger="b"}'."""
    if "SUCCESS" in text:
        return set()
    got = text.partition("got:")[2]
    assert got, text
    found: set[tuple[str, str]] = set()
    for part in got.split("Labels:")[1:] or got.split("{")[1:]:
        pairs = (pair.partition("=") for pair in part.partition("}")[0].split(","))
        labels = {name.strip(" {"): value.strip(' "') for name, _, value in pairs}
        found.add((labels["alertname"], labels.get("trigger", "")))
    return found


def _name(key: tuple[Any, ...]) -> str:
    name, *labels = key
    return f"{name}{{{','.join(f'{label}={json.dumps(value)}' for label, value in labels)}}}"


def _before(key: tuple[Any, ...], value: float) -> str:
    """Return ten minutes in which a counter grew to its value, or a gauge had it."""
    if key[0].endswith(COUNTERS):
        return f"0+{value / (BEFORE - 1)}x{BEFORE - 1}"
    return f"{value}x{BEFORE - 1}"


def _during(key: tuple[Any, ...], scraped: Sequence[Samples], seconds: float) -> str:
    """Return twenty minutes of the fault."""
    values = [one[key] for one in scraped if key in one]
    if not values:
        return f"stale _x{DURING - 1}"
    first, last = values[0], values[-1]
    grew = all(one < other for one, other in pairwise(values))
    if key[0].endswith(COUNTERS) or grew:
        return f"{first}+{(last - first) / seconds * INTERVAL}x{DURING - 1}"
    return f"{last}x{DURING - 1}"
