import json
import time
import urllib.request


def send() -> str:
    order = json.dumps({"id": "N-1", "amount": 12.5}).encode()
    headers = {
        "Content-Type": "application/json",
        "Idempotency-Key": '"k-1"',
        "X-API-Key": "ada",
    }
    request = urllib.request.Request(
        "http://127.0.0.1:8000/orders", order, headers
    )
    for _ in range(60):
        try:
            with urllib.request.urlopen(request) as answer:
                replayed = answer.headers.get("Idempotent-Replayed", "false")
                return f"{answer.read().decode()} replayed: {replayed}"
        except urllib.error.URLError:  # it does not listen yet
            time.sleep(1)
    raise TimeoutError


for _ in range(2):
    print(send())
