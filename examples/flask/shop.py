from flask import Flask, jsonify, request
from flask.typing import ResponseReturnValue

from doubtless import protect

app = Flask(__name__)
guard = protect(
    "charge",
    history="sqlite:///shop.sqlite3",  # or redis://..., postgresql://...
    keep_result=True,  # a copy gets the first result
    fingerprint="body",  # a known key with another body does not run
    transient=(Exception,),  # a call that raises an error ...
    transacted=True,  # ... frees its key, so that the next try runs
)
charged = []


def charge(order: dict) -> dict:
    charged.append(order["id"])
    return {"charge": len(charged)}


@app.post("/charges")
def charges() -> ResponseReturnValue:
    key = request.headers.get("Idempotency-Key")
    caller = request.headers.get("X-API-Key")  # check it as you do today
    if not key or not caller:
        return {"error": "Idempotency-Key and X-API-Key are needed"}, 400
    order = request.get_json()

    outcome = guard.handle(f"{caller} {key}", lambda: charge(order), body=order)

    if outcome.executed and outcome.error is not None:
        raise outcome.error
    if outcome.executed or outcome.kind == "duplicate":
        return jsonify(outcome.result)
    if outcome.rejected:  # the body differs from the first one
        return {"error": outcome.reason}, 422
    return {"error": outcome.reason}, 409  # it runs elsewhere, or is In Doubt
