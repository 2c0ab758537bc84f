-- Sizes: the last byte that fits, and the first that does not.
\! curl -s -X POST "$EO_CONTROL/reset" >/dev/null
SET client_min_messages = warning;
-- The partition key begins with IDEMPOTENCY#test/, which has 17 bytes.
SELECT outcome FROM idem_acquire(repeat('k', 2048 - 17));
SELECT outcome FROM idem_acquire(repeat('k', 2049 - 17));
-- Bytes are counted, not characters.
SELECT outcome FROM idem_acquire(repeat('é', (2048 - 17) / 2));
SELECT outcome FROM idem_acquire(repeat('é', (2048 - 17) / 2 + 1));
\echo `curl -s "$EO_CONTROL/count"`
-- A result may have as many bytes as the error's detail says.
SELECT outcome FROM idem_acquire('big');
CREATE FUNCTION room() RETURNS int LANGUAGE plpgsql AS $$
DECLARE
	d text;
BEGIN
	PERFORM idem_complete('big', to_jsonb(repeat('x', 500000)));
EXCEPTION WHEN program_limit_exceeded THEN
	GET STACKED DIAGNOSTICS d = PG_EXCEPTION_DETAIL;
	RETURN substring(d FROM 'room for (\d+)')::int;
END $$;
SELECT room() BETWEEN 408500 AND 409600 AS at_least_399_kb, room() AS room \gset
\echo :at_least_399_kb
SELECT idem_complete('big', to_jsonb(repeat('x', :room - 1)));
SELECT idem_fail('big', to_jsonb(repeat('x', :room - 1)));
-- The results that are too large made no request.
\echo `curl -s "$EO_CONTROL/count?key=big"`
SELECT idem_complete('big', to_jsonb(repeat('x', :room - 2)));
SELECT outcome, length(result::text) = :room AS whole FROM idem_acquire('big');
-- Characters that JSON spells in six and twelve bytes count as they are.
SELECT outcome FROM idem_acquire('wide');
SELECT idem_complete('wide', to_jsonb(repeat('é', 200000)));
SELECT outcome, result = to_jsonb(repeat('é', 200000)) AS whole FROM idem_acquire('wide');
SELECT outcome FROM idem_acquire('wider');
SELECT idem_complete('wider', to_jsonb(repeat('😀', 100000)));
SELECT outcome, result = to_jsonb(repeat('😀', 100000)) AS whole FROM idem_acquire('wider');
