"""Over Spark Connect: sources, foreach_batch, the atomic sink and metrics, with a name for the query."""

import json
import os
import socket
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from tests.fixtures.needed import missing
from tests.fixtures.scale import ONLY_IN_FULL
from tests.fixtures.servers.spark import SPARK, need_spark
from tests.fixtures.waiting import patience
from tests.integration.helpers.orders import Send, orders

pytestmark = [
    SPARK,
    pytest.mark.timeout(300),
    # The server gives the Python worker of foreachBatch ten seconds, which is too short on a busy machine.
    ONLY_IN_FULL,
]

#: The one port on which ``remote("local")`` finds the server that it starts.
PORT = 15002


def test_each_row_is_written_once_over_connect(
    send: Send, redis_url: str, postgres_url: str, tmp_path: Path
) -> None:
    need_spark()
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if probe.connect_ex(("127.0.0.1", PORT)) == 0:
            missing(f"port {PORT}", "end what listens there")
    engine = create_engine(postgres_url.replace("postgresql:", "postgresql+psycopg:"))
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE bookings (uuid TEXT)"))
    messages = orders(30)
    send([*messages, *messages[:10]])

    words = [
        sys.executable,
        "-m",
        "tests.integration.helpers.connect_driver",
        redis_url,
        postgres_url,
        str(tmp_path),
    ]
    settings = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"}
    ended = subprocess.run(
        words, capture_output=True, text=True, check=False, timeout=patience(280.0), env=settings
    )

    assert (tmp_path / "done").exists(), ended.stderr[-3000:]
    with engine.connect() as connection:
        booked = Counter(connection.execute(text("SELECT uuid FROM bookings")).scalars())
    engine.dispose()
    lines = [line for file in tmp_path.glob("batch=*/*.json") for line in file.read_text().splitlines()]
    once = {f"order-{number}": 1 for number in range(30)}
    assert booked == once
    assert Counter(json.loads(line)["uuid"] for line in lines) == once
    assert json.loads(ended.stdout) == {"remembered": 30, "read": [40, 40]}
