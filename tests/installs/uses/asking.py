"""Use everything that needs an extra; print each result as JSON."""

import json
import os
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

from history import SqlHistory, open_history
from resolvers.effect_exists import http_resource_exists, spark_rows_exist, sql_row_exists
from triggers import Consumer, Producer, trigger
from triggers.providers.opening import open_provider
from triggers.sinks import open_sink


@trigger("orders", name="asking", history="memory://")
def book(body: bytes) -> None:
    """Do nothing."""


os.environ["DOUBTLESS_KEY"] = "00" * 32

#: The calls that need an extra, by extra.
ASKED: dict[str, list[Callable[[], Any]]] = {
    "asyncio": [
        lambda: SqlHistory.from_url("sqlite:///x.db").for_asyncio(),
        lambda: open_provider("sqlite:///x.db").for_asyncio(),
    ],
    "postgres": [
        lambda: open_history("postgresql://h/d"),
        lambda: open_history("postgresql://h/d").for_asyncio(),
        lambda: open_provider("postgresql://h/d"),
        lambda: open_sink("postgresql://h/d?table=t"),
        lambda: sql_row_exists("postgresql://h/d", "SELECT 1"),
    ],
    "http": [lambda: open_sink("https://h/x"), lambda: http_resource_exists("https://h/{uuid}")],
    "spark": [
        lambda: import_module("triggers.spark"),
        lambda: import_module("triggers.spark.sources"),
        lambda: import_module("triggers.spark.atomic_sink"),
        lambda: book.foreach_batch(uuid="uuid", body="value"),
        lambda: spark_rows_exist("bookings", "uuid"),
        lambda: import_module("triggers.testing").exactly_once_batch,
    ],
    "jms": [lambda: open_provider("jms+tcp://h:1?factory=a.B&classpath=/x.jar")],
    "amqp": [lambda: open_provider("amqp://h")],
    "rabbitmq": [lambda: open_provider("rabbitmq://h")],
    "kafka": [lambda: open_provider("kafka://h")],
    "nats": [lambda: open_provider("nats://h")],
    "sqs": [lambda: open_provider("sqs://eu-west-1")],
    "celery": [lambda: import_module("triggers.guards.celery").guarded(history="memory://")],
    "dramatiq": [lambda: import_module("triggers.guards.dramatiq").guarded(history="memory://")],
    "taskiq": [lambda: import_module("triggers.guards.taskiq").guarded(history="memory://")],
    "faststream": [lambda: import_module("triggers.guards.faststream").guarded],
    "metrics": [lambda: Consumer([book], "memory://", metrics="127.0.0.1:0")],
    "encryption": [
        lambda: open_history("sqlite:///x.db?encrypt=env:DOUBTLESS_KEY"),
        lambda: open_history("redis://h?encrypt=env:DOUBTLESS_KEY"),
        lambda: Producer("memory://", queue="x.queue", encrypt="env:DOUBTLESS_KEY"),
    ],
    "otel": [
        lambda: trigger("orders", name="traced", history="memory://", tracing=True)(print),
        lambda: Producer("memory://", tracing=True),
    ],
    "dashboard": [
        lambda: import_module("triggers.dashboard.command").dashboard,
        lambda: import_module("triggers.dashboard").create_app,
    ],
}


def said() -> dict[str, list[str]]:
    """Return, by extra, the class and the text of each refusal; an empty text is none."""
    answers: dict[str, list[str]] = {}
    for extra, asked in ASKED.items():
        answers[extra] = []
        for ask in asked:
            try:
                ask()
            except Exception as error:  # noqa: BLE001  (whatever it is, it is what this is for)
                answers[extra].append(f"{type(error).__name__}: {error}")
            else:
                answers[extra].append("")
    return answers


if __name__ == "__main__":
    sys.stdout.write(json.dumps(said()))
