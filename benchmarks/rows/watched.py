"""The share of the history's server that an open dashboard uses. Consumers lose at most this share."""

import json
import subprocess
import sys
import time
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import httpx

from benchmarks.bench import Bench
from benchmarks.costs import redis_seconds
from benchmarks.result import TIME, Budget, Result
from history.bridge import drive
from history.message import Message
from history.opening import open_history
from history.store.parking import Parked, ParkedKind

#: The number of parked messages. The dashboard counts them again and again.
PARKED = 1_000

#: The seconds of watching for each round of the other rows, and the least seconds.
SECONDS, SHORTEST = 0.35, 10.0


def measure(bench: Bench) -> Iterable[Result]:
    """Compare the server's CPU time with an open dashboard and without it, over equal times."""
    _park(bench.server.url)
    seconds = max(SHORTEST, SECONDS * bench.effort.rounds)
    with _watching(bench.server.url):
        watched = _cpu_in(bench.bare(), seconds)
    idle = _cpu_in(bench.bare(), seconds)
    yield Result(
        what="dashboard that is watched, 1,000 messages parked",
        beside="all the time of the Redis server",
        unit="s of CPU a second",
        measured=max(0.0, watched - idle),
        floor=1.0,
        ratio=max(0.0, watched - idle),
        budget=Budget(0.01, TIME),
    )


def _park(url: str) -> None:
    store = open_history(url)
    parked = [
        Parked(
            id=f"{number:024x}",
            trigger_name=f"watched-{number % 3}",
            kind=ParkedKind.IN_DOUBT,
            reason="an earlier run started and never finished",
            uuid=f"order-{number}",
            message=Message(body={"id": number}, uuid=f"order-{number}"),
        )
        for number in range(PARKED)
    ]
    drive(store.parking.park(parked))
    drive(store.close())


def _cpu_in(client: Any, seconds: float) -> float:
    """Return the server's CPU time per second, measured over ``seconds``."""
    before = redis_seconds(client)
    time.sleep(seconds)
    return (redis_seconds(client) - before) / seconds


@contextmanager
def _watching(history: str) -> Generator[None]:
    """Start a dashboard, sign in, and watch its overview."""
    command = [
        sys.executable,
        "-m",
        "triggers.cli",
        "--json",
        "dashboard",
        "--port",
        "0",
        "--history",
        history,
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            url = str(json.loads("".join(iter(process.stdout.readline, "}\n")) + "}")["url"])
            address = urlsplit(url)
            base = f"{address.scheme}://{address.netloc}"
            with httpx.Client(base_url=base, timeout=30) as browser:
                signed_in = browser.post("/sign-in", data={"token": address.fragment})
                assert signed_in.is_redirect
                with browser.stream("GET", "/live/overview") as live:
                    assert live.is_success
                    next(live.iter_raw())
                    yield
        finally:
            process.terminate()
