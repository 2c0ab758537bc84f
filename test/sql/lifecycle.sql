-- A key from claim to result, and how many requests that takes.
\! curl -s -X POST "$EO_CONTROL/reset" >/dev/null
SELECT outcome, run, result, error, mine, replayed,
	   token IS NOT NULL AS token, fence > 1700000000000 AS fence,
	   lease_until BETWEEN now() + '50 s' AND now() + '70 s' AS lease,
	   expires_at - lease_until BETWEEN '7 days' AND '7 days 2 s' AS retention
FROM idem_acquire('order-42');
-- The same session asks again.
SELECT outcome, mine, replayed, token FROM idem_acquire('order-42');
SELECT key, status, runs, result, error, retry_at FROM idem_get('order-42');
SELECT idem_complete('order-42', '{"paid": 12.50, "note": "\u00e9\"\\"}');
-- A duplicate gets the result.  One that came before the worker has finished the key
-- would ask once more.
CALL await_worker();
SELECT outcome, run, result, mine, replayed FROM idem_acquire('order-42');
SELECT idem_start('order-42');
SELECT key, status, runs, result, lease_until, updated_at >= created_at AS times,
	   expires_at - updated_at BETWEEN '7 days' AND '7 days 2 s' AS retention
FROM idem_get('order-42');
-- Each call made one request: acquire, acquire again, get, complete (the seal),
-- duplicate, duplicate, get.  One more is the worker's.
\! curl -s "$EO_CONTROL/wait?op=UpdateItem&key=order-42&n=6"
\! for op in GetItem UpdateItem; do echo $op: $(curl -s "$EO_CONTROL/count?key=order-42&op=$op"); done

-- JSON null, false, 0 and the empty string are results; SQL NULL is no result.
SELECT k, idem_start(k), idem_complete(k, r)
FROM (VALUES ('r-null', 'null'::jsonb), ('r-false', 'false'), ('r-0', '0'), ('r-""', '""'),
	  ('r-none', NULL)) v(k, r);
SELECT k, (a).outcome, (a).result, (a).result IS NULL AS none
FROM (SELECT k, idem_acquire(k) AS a
	  FROM unnest(ARRAY['r-null', 'r-false', 'r-0', 'r-""', 'r-none']) k OFFSET 0) s;

-- A failed run is retried, and the next run gets its error.
SELECT outcome, run FROM idem_acquire('flaky');
SELECT idem_fail('flaky', '{"sqlstate": "40001"}');
SELECT status, runs, error, retry_at <= now() + '3 s' AS due FROM idem_get('flaky');
SELECT outcome, run, error FROM idem_acquire('flaky');
-- A failed run is not retried before its time.
SELECT idem_fail('flaky', '"busy"', retry_after => '1 hour');
SELECT outcome, run, error, retry_at BETWEEN now() + '59 min' AND now() + '61 min' AS at
FROM idem_acquire('flaky');
-- A run that failed for good is not retried until an operator forgets the key.
SELECT outcome FROM idem_acquire('bad');
SELECT idem_fail('bad', '"no such account"', terminal => true);
SELECT outcome, run, error, retry_at FROM idem_acquire('bad');
SELECT idem_forget('bad'), idem_forget('unheard of');
SELECT outcome, run, error FROM idem_acquire('bad');

-- A key that is released untried has had no run.
SELECT idem_release('bad');
SELECT idem_release('bad');
SELECT outcome, run FROM idem_acquire('bad');

-- A poison message is parked after max_runs.
DO $$
DECLARE
	c idem_claim;
BEGIN
	FOR i IN 1..4 LOOP
		c := idem_acquire('poison', max_runs => 3);
		RAISE NOTICE 'delivery %: %, run %, error %', i, c.outcome, c.run, c.error;
		EXIT WHEN c.outcome <> 'acquired';
		PERFORM idem_fail('poison', to_jsonb(format('crash %s', i)));
		COMMIT;
	END LOOP;
END $$;

-- idem_extend() extends a lease and never shortens it.
SELECT outcome FROM idem_acquire('long', lease => '1 hour');
SELECT idem_extend('long', '2 hours') BETWEEN now() + '119 min' AND now() + '121 min' AS longer;
SELECT idem_extend('long', '1 min') BETWEEN now() + '119 min' AND now() + '121 min' AS not_shorter;
SELECT idem_complete('long');
SELECT idem_extend('long');

-- The fence grows with every claim.
CREATE TEMP TABLE fences AS SELECT fence FROM idem_acquire('fenced');
SELECT idem_fail('fenced');
INSERT INTO fences SELECT fence FROM idem_acquire('fenced');
SELECT idem_forget('fenced');
INSERT INTO fences SELECT fence FROM idem_acquire('fenced');
SELECT count(DISTINCT fence), max(fence) - min(fence) AS grown FROM fences;
