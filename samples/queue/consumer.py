"""Consumes a queue in a table: each message is processed once, however many copies there are.

Run as many as wanted. Another service, such as a Lambda function, may process the same messages with
the same keys. A message that fails is tried three times, with a growing pause, and is then put aside.

Needs psycopg 3; schema.sql has the tables. Debian: apt-get install python3-psycopg
Run:    PGHOST=... PGDATABASE=... PGUSER=shop python3 consumer.py [--until-empty]
"""
import os
import random
import signal
import sys
import time

import psycopg
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

MAX_RUNS = 3
PAUSE_S = float(os.environ.get("PAUSE_S", "30"))


def ship(db, message):
    """The work. Whatever it does in this transaction is done once."""
    return db.execute(
        "INSERT INTO shipments VALUES (%s, %s) RETURNING order_id AS order, parcels",
        (message["order"], message["parcels"])).fetchone()


def put_back(db, row, seconds):
    db.execute("UPDATE queue SET not_before = clock_timestamp() + %s * interval '1 s' WHERE id = %s",
               (seconds, row["id"]))


def consume_one(db):
    """One message in one transaction. False: none is due."""
    with db.transaction():
        row = db.execute(
            "SELECT id, message_id, body FROM queue WHERE not_before <= now()"
            " ORDER BY not_before, id LIMIT 1 FOR UPDATE SKIP LOCKED").fetchone()
        if row is None:
            return False
        key = "message/" + row["message_id"]
        claim = db.execute(
            "SELECT outcome, run, retry_after, error FROM idem_acquire(%s, max_runs => %s)", (key, MAX_RUNS)).fetchone()
        outcome = claim["outcome"]
        if outcome == "acquired":
            try:
                with db.transaction():          # a savepoint: only the work is undone
                    db.execute("SELECT idem_complete(%s, %s)", (key, Jsonb(ship(db, row["body"]))))
                    db.execute("DELETE FROM queue WHERE id = %s", (row["id"],))
            except (psycopg.errors.IntegrityError, psycopg.errors.DataError) as error:
                # The message is to blame. Other errors end the transaction, and it is tried again.
                print(f"{key}: {error}", file=sys.stderr)
                pause = PAUSE_S * claim["run"]
                db.execute("SELECT idem_fail(%s, %s, retry_after => %s * interval '1 s')",
                           (key, Jsonb({"sqlstate": error.sqlstate, "message": str(error)}), pause))
                put_back(db, row, pause)
        elif outcome == "completed":            # a copy
            db.execute("DELETE FROM queue WHERE id = %s", (row["id"],))
        elif outcome == "failed":               # no runs are left
            db.execute("INSERT INTO dead_letters VALUES (%s, %s, %s) ON CONFLICT DO NOTHING",
                       (row["message_id"], Jsonb(row["body"]), Jsonb(claim["error"])))
            db.execute("DELETE FROM queue WHERE id = %s", (row["id"],))
        else:                                   # in_progress, retry_later
            put_back(db, row, max(claim["retry_after"] or 0, PAUSE_S))
    return True


def main():
    until_empty = "--until-empty" in sys.argv
    going = [True]
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: going.clear())
    db, failures = None, 0
    while going:
        try:
            if db is None:
                db = psycopg.connect("", autocommit=True, row_factory=dict_row)
            worked = consume_one(db)
            failures = 0
            if not worked:
                if until_empty and db.execute("SELECT count(*) AS n FROM queue").fetchone()["n"] == 0:
                    break
                time.sleep(min(1, PAUSE_S))
        except psycopg.Error as error:
            # The row is unlocked and the key is given back; the next attempt finds out what became of both.
            print(error, file=sys.stderr)
            failures += 1
            if db is not None and db.closed:
                db = None
            time.sleep(min(30, 0.1 * 2 ** failures) * random.uniform(0.5, 1))


if __name__ == "__main__":
    main()
