from flask import Flask, jsonify, request
from flask.typing import ResponseReturnValue

from doubtless import protect

app = Flask(__name__)
guard = protect(
    "charge",
    history="sqlite:///shop.sqlite3",  # or redis://..., postgresql://...
    keep_result=True,  # a copy gets the first result
    fingerprint="body",  # refuses a known key with another body
    transient=(Exception,),  # if a call raises any error ...
    transacted=True,  # ... its key is free, and the next call runs
)
callers = {"key-of-ada": "ada"}  # logs show uuids: put no API key into one
charged: list[str] = []


def charge(order: dict[str, str]) -> dict[str, int]:
    charged.append(order["id"])
    return {"charge": len(charged)}


@app.post("/charges")
def charges() -> ResponseReturnValue:
    key = request.headers.get("Idempotency-Key")
    caller = callers.get(request.headers.get("X-API-Key", ""))
    if not key or not caller:
        return {"error": "Idempotency-Key and X-API-Key are needed"}, 400
    order = request.get_json()

    outcome = guard.handle(f"{caller} {key}", lambda: charge(order), body=order)

    if outcome.executed and outcome.error is not None:
        raise outcome.error
    if outcome.executed or outcome.result_kept:
        return jsonify(outcome.result)
    if outcome.rejected:  # the first request had another body
        return {"error": outcome.reason}, 422
    # It still runs, is In Doubt, or was done without a kept result
    return {"error": outcome.reason}, 409
