import json
import time
import urllib.request


def send() -> str:
    order = json.dumps({"id": "N-1"}).encode()
    headers = {
        "Content-Type": "application/json",
        "Idempotency-Key": "k-1",
        "X-API-Key": "key-of-ada",
    }
    request = urllib.request.Request(
        "http://127.0.0.1:5000/charges", order, headers
    )
    for _ in range(60):
        try:
            with urllib.request.urlopen(request) as answer:
                return answer.read().decode().strip()
        except urllib.error.URLError:  # it does not listen yet
            time.sleep(1)
    raise TimeoutError


for _ in range(2):
    print(send())
