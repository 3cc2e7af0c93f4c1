import json
import os
import time
import urllib.error
import urllib.request
from pathlib import Path

WEB = os.environ.get("WEB_URL", "http://127.0.0.1:8000")
DATA = Path(os.environ.get("DATA", "data"))
ORDERS = ("N-1", "N-2", "N-3")


def send(order: str) -> None:
    headers = {
        "Content-Type": "application/json",
        "Idempotency-Key": f'"{time.monotonic_ns()}"',  # the client is new
        "X-API-Key": "ada",
    }
    body = json.dumps({"id": order, "amount": 12.5}).encode()
    request = urllib.request.Request(f"{WEB}/orders", body, headers)
    for _ in range(60):
        try:
            urllib.request.urlopen(request).close()
        except urllib.error.URLError:  # it does not listen yet
            time.sleep(1)
        else:
            return
    raise TimeoutError


def shipped() -> list[str]:
    file = DATA / "shipped.txt"
    return sorted(file.read_text().split()) if file.exists() else []


for order in ORDERS * 2:
    send(order)
deadline = time.monotonic() + 60
while len(shipped()) < len(ORDERS) and time.monotonic() < deadline:
    time.sleep(0.2)
print("shipped:", *shipped())
