"""Sends the events of an outbox to another service by HTTP.

Each event is sent at least once, with its id as Idempotency-Key, and the receiver processes each key
once: samples/webhook is such a receiver. Together the work of each event is done once, and if and only
if the transaction that wrote it has committed. The relay itself claims no key, because the lock on the
row keeps other relays away, and because after a crash nobody knows whether the request has arrived.

Needs psycopg 3; schema.sql has the table. Debian: apt-get install python3-psycopg
Run:    PGHOST=... PGDATABASE=... PGUSER=shop python3 relay.py URL [--until-empty]
"""
import json
import random
import signal
import sys
import time
import urllib.error
import urllib.request

import psycopg
from psycopg.rows import dict_row

TIMEOUT_S = 30


def send(url, event_id, body):
    """The status of the answer; 0 if there was none."""
    request = urllib.request.Request(url, data=json.dumps(body).encode(), method="POST", headers={
        "Content-Type": "application/json", "Idempotency-Key": str(event_id)})
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


def relay_one(db, url):
    """One event in one transaction. False: none is due."""
    with db.transaction():
        row = db.execute(
            "SELECT event_id, body, attempts FROM outbox WHERE refused IS NULL AND not_before <= now()"
            " ORDER BY not_before LIMIT 1 FOR UPDATE SKIP LOCKED").fetchone()
        if row is None:
            return False
        status = send(url, row["event_id"], row["body"])
        if 200 <= status < 300:
            db.execute("DELETE FROM outbox WHERE event_id = %s", (row["event_id"],))
        elif status in (400, 413, 422):
            db.execute("UPDATE outbox SET refused = %s WHERE event_id = %s", (f"status {status}", row["event_id"]))
        else:
            # 409 and 429, 5xx, and no answer: nothing is known, or it is too early.
            pause = min(300, 0.2 * 2 ** row["attempts"]) * random.uniform(0.5, 1)
            db.execute("UPDATE outbox SET attempts = attempts + 1,"
                       " not_before = clock_timestamp() + %s * interval '1 s' WHERE event_id = %s",
                       (pause, row["event_id"]))
    return True


def main():
    url = sys.argv[1]
    until_empty = "--until-empty" in sys.argv
    going = [True]
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: going.clear())
    db = None
    while going:
        try:
            if db is None:
                db = psycopg.connect("", autocommit=True, row_factory=dict_row)
            if not relay_one(db, url):
                if until_empty and db.execute(
                        "SELECT count(*) AS n FROM outbox WHERE refused IS NULL").fetchone()["n"] == 0:
                    break
                time.sleep(0.2)
        except psycopg.Error as error:
            # The event is sent again; the receiver knows its key.
            print(error, file=sys.stderr)
            if db is not None and db.closed:
                db = None
            time.sleep(random.uniform(0.5, 1))


if __name__ == "__main__":
    main()
