"""A webhook receiver: each Idempotency-Key is processed once, and every delivery gets the same answer.

Needs Flask, psycopg 3 and psycopg_pool; ../schema.sql has the table.
Debian: apt-get install python3-flask python3-psycopg python3-psycopg-pool
Run:    PGHOST=... PGDATABASE=... PGUSER=shop PORT=8080 python3 app.py
"""
import os
import random
import time

import psycopg
from flask import Flask, jsonify, request
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb
from psycopg_pool import ConnectionPool, PoolTimeout

ATTEMPTS = 6

# Another attempt may succeed: deadlock, serialization failure, and what exactonce says of keys that
# are in progress or lost, and of DynamoDB when it does not answer.
PASSING = {"40001", "40P01", "ID001", "ID002", "ID006"}

app = Flask(__name__)
# The pool takes the address from libpq's variables: PGHOST, PGDATABASE, PGUSER, ...
pool = ConnectionPool("", min_size=1, max_size=8, timeout=5, kwargs={"row_factory": dict_row})


def take_payment(db, event):
    """The work. Whatever it does in this transaction is done once."""
    return db.execute(
        "INSERT INTO payments (invoice, amount) VALUES (%s, %s) RETURNING receipt",
        (event["invoice"], event["amount"])).fetchone()


def process(key, event):
    """One attempt, which is one transaction: claim, work, completion."""
    with pool.connection() as db:               # COMMIT at its end, ROLLBACK after an error
        claim = db.execute(
            "SELECT outcome, http_status, retry_after, result, error"
            " FROM idem_acquire(%s, payload => %s, wait => '5s')", (key, Jsonb(event))).fetchone()
        if claim["outcome"] == "acquired":
            claim["result"] = take_payment(db, event)
            db.execute("SELECT idem_complete(%s, %s)", (key, Jsonb(claim["result"])))
    return claim                                # it has committed: only now may others be told


def may_pass(error):
    """May the next attempt succeed? No SQLSTATE: the connection was lost."""
    if isinstance(error, PoolTimeout):
        return True
    state = error.sqlstate
    return state is None or state in PASSING or state[:2] in ("08", "57")


def process_with_retries(key, event):
    """If the connection was lost in COMMIT, the next claim finds out whether it had committed."""
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return process(key, event)
        except psycopg.Error as error:
            if attempt == ATTEMPTS or not may_pass(error):
                raise
            app.logger.warning("attempt %d for %s: %s", attempt, key, error)
            time.sleep(min(2, 0.1 * 2 ** attempt) * random.uniform(0.5, 1))


@app.post("/webhook")
def webhook():
    key = request.headers.get("Idempotency-Key")
    event = request.get_json(silent=True)
    if not key or not isinstance(event, dict) or not {"invoice", "amount"} <= event.keys():
        return jsonify(error="a header Idempotency-Key, and an invoice and an amount are needed"), 400
    try:
        # With more than one sender, the sender is a part of the key.
        claim = process_with_retries("webhook/" + key, event)
    except psycopg.Error as error:
        state = error.sqlstate or ""
        if state == "ID003":
            return jsonify(error="this key was used for another event"), 422
        if state[:2] in ("22", "23"):
            return jsonify(error="this event cannot be processed"), 422
        if may_pass(error):
            return jsonify(error="try again"), 503, {"Retry-After": "5"}
        app.logger.exception("%s", key)
        return jsonify(error="for people to look at"), 500
    headers = {}
    if claim["outcome"] == "completed":
        headers["Idempotency-Replayed"] = "true"
    if claim["retry_after"] is not None:
        headers["Retry-After"] = str(claim["retry_after"])
    answer = claim["result"] if claim["result"] is not None else {"error": claim["outcome"]}
    return jsonify(answer), claim["http_status"], headers


if __name__ == "__main__":
    app.run(host="127.0.0.1", port=int(os.environ.get("PORT", "8080")), threaded=True)
