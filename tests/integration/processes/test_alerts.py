"""Prometheus itself evaluates the shipped alerts: each fault fires its alerts, and no others."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests import ROOT
from tests.fixtures.needed import missing

RULES = ROOT / "triggers/metrics/alerts.yml"

#: Healthy consumers report these series of promtool: a value, then its growth each minute.
HEALTHY = {
    'doubtless_history_up{trigger="book"}': "1x60",
    'doubtless_provider_up{trigger="book"}': "1x60",
    'doubtless_trigger_state{trigger="book",state="running"}': "1x60",
    'doubtless_trigger_state{trigger="book",state="suspended"}': "0x60",
    'doubtless_oldest_delivery_seconds{trigger="book"}': "2x60",
    'doubtless_messages_total{trigger="book",verdict="new"}': "0+600x60",
    'doubtless_messages_total{trigger="book",verdict="in_doubt"}': "0x60",
    'doubtless_messages_total{trigger="book",verdict="rejected"}': "0x60",
    'doubtless_unreadable_total{trigger="book"}': "0x60",
    'doubtless_service_seconds_count{trigger="book"}': "0+600x60",
    'doubtless_failed_total{trigger="book"}': "0+1x60",
    'doubtless_recovered_total{trigger="book"}': "0+1x60",
    'doubtless_refused_total{trigger="book"}': "0x60",
    'doubtless_parked_oldest_seconds{trigger="book"}': "3600x60",
    'doubtless_not_parked_total{trigger="book"}': "0x60",
    'doubtless_parked_locally{trigger="book"}': "0x60",
    'doubtless_spark_query_running{query="load"}': "1x60",
    'doubtless_spark_last_progress_timestamp_seconds{query="load"}': "0+60x60",
    'doubtless_spark_query_terminations_total{query="load",outcome="failed"}': "0x60",
}

#: For each fault: the series from the 30th minute on, and the alerts that fire.
FAULTS: dict[str, tuple[dict[str, str], set[str]]] = {
    "none": ({}, set()),
    "history": (
        {
            'doubtless_history_up{trigger="book"}': "0x30",
            'doubtless_trigger_state{trigger="book",state="suspended"}': "1x30",
        },
        {"DoubtlessHistoryAway"},
    ),
    "provider": ({'doubtless_provider_up{trigger="book"}': "0x30"}, {"DoubtlessProviderAway"}),
    "suspended": (
        {'doubtless_trigger_state{trigger="book",state="suspended"}': "1x30"},
        {"DoubtlessTriggerSuspended"},
    ),
    "killed": (
        {series: "stale" for series in HEALTHY if "trigger=" in series and "parked_oldest" not in series},
        {"DoubtlessConsumersGone"},
    ),
    "hung": ({'doubtless_oldest_delivery_seconds{trigger="book"}': "0+60x30"}, {"DoubtlessServiceHangs"}),
    "one in five fails": ({'doubtless_failed_total{trigger="book"}': "30+120x30"}, {"DoubtlessMessagesFail"}),
    "all fail": ({'doubtless_failed_total{trigger="book"}': "30+600x30"}, {"DoubtlessMessagesFail"}),
    "given back": (
        {'doubtless_recovered_total{trigger="book"}': "30+500x30"},
        {"DoubtlessMessagesComeAgain"},
    ),
    "in doubt": (
        {'doubtless_messages_total{trigger="book",verdict="in_doubt"}': "0+1x30"},
        {"DoubtlessInDoubt"},
    ),
    "rejected": (
        {'doubtless_messages_total{trigger="book",verdict="rejected"}': "0+1x30"},
        {"DoubtlessMessagesRejected"},
    ),
    "unreadable": ({'doubtless_unreadable_total{trigger="book"}': "0+1x30"}, {"DoubtlessMessagesRejected"}),
    "parking full": ({'doubtless_not_parked_total{trigger="book"}': "0+1x30"}, {"DoubtlessCannotPark"}),
    "parked locally": ({'doubtless_parked_locally{trigger="book"}': "1x30"}, {"DoubtlessParkedLocally"}),
    "refused": ({'doubtless_refused_total{trigger="book"}': "0+1x30"}, {"DoubtlessAcknowledgementsRefused"}),
    "parked": (
        {'doubtless_parked_oldest_seconds{trigger="book"}': "86401+60x30"},
        {"DoubtlessParkedMessagesWait"},
    ),
    "query failed": (
        {'doubtless_spark_query_terminations_total{query="load",outcome="failed"}': "1x30"},
        {"DoubtlessSparkQueryFailed"},
    ),
    "query stands": (
        {'doubtless_spark_last_progress_timestamp_seconds{query="load"}': "1800x30"},
        {"DoubtlessSparkQueryStands"},
    ),
}


@pytest.fixture
def promtool() -> str:
    found = shutil.which("promtool")
    return found if found is not None else missing("promtool", "run .ci/setup servers")


def alerts() -> list[str]:
    return re.findall(r"- alert: (\w+)", RULES.read_text(encoding="utf-8"))


def reported(fault: dict[str, str]) -> list[dict[str, Any]]:
    """Return the series: half an hour of health, then the fault."""
    series: list[dict[str, Any]] = []
    for name, healthy in HEALTHY.items():
        before = healthy.replace("x60", "x29")
        after = fault.get(name)
        series.append({"series": name, "values": healthy if after is None else f"{before} {after}"})
    return series


def test_each_fault_fires_its_alerts_and_no_others(promtool: str, tmp_path: Path) -> None:
    shutil.copy(RULES, tmp_path / "alerts.yml")
    tests: list[dict[str, Any]] = []
    for name, (fault, fires) in FAULTS.items():
        tests.append(
            {
                "name": name,
                "interval": "1m",
                "input_series": reported(fault),
                "promql_expr_test": [
                    {
                        "expr": 'count by (alertname) (ALERTS{alertstate="firing"})',
                        "eval_time": "41m",
                        "exp_samples": [
                            {"labels": f'{{alertname="{alert}"}}', "value": 1} for alert in sorted(fires)
                        ],
                    }
                ],
            }
        )
    file = tmp_path / "tests.json"  # which is YAML
    file.write_text(json.dumps({"rule_files": ["alerts.yml"], "evaluation_interval": "1m", "tests": tests}))

    judged = subprocess.run([promtool, "test", "rules", file], capture_output=True, text=True, check=False)

    assert judged.returncode == 0, judged.stdout + judged.stderr


def test_every_alert_is_fired_by_a_fault_and_has_its_page() -> None:
    page = (ROOT / "docs/how-to/answer-alerts.md").read_text(encoding="utf-8")

    assert {alert for _, fires in FAULTS.values() for alert in fires} == set(alerts())
    assert re.findall(r"^## (\w+)$", page, re.MULTILINE) == alerts()


def test_alerts_ask_for_metrics_that_there_are() -> None:
    pages = [
        (ROOT / "docs/how-to" / name).read_text()
        for name in ("see-metrics-and-health.md", "use-the-dashboard.md")
    ]
    known = set(re.findall(r"`(doubtless_[a-z_]+)`", "".join(pages)))

    assert set(re.findall(r"doubtless_[a-z_]+", RULES.read_text(encoding="utf-8"))) <= known
