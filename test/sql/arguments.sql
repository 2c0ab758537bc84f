-- Bad arguments are refused before any request is made.
\! curl -s -X POST "$EO_CONTROL/reset" >/dev/null
\pset null NULL
CREATE FUNCTION sqlstate_of(command text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE command;
	RETURN 'ok';
EXCEPTION WHEN OTHERS THEN
	RETURN SQLSTATE || ' ' || SQLERRM;
END $$;
CREATE FUNCTION same(document jsonb) RETURNS jsonb LANGUAGE sql RETURN document;
SELECT sqlstate_of(format('SELECT idem_%s(%s)', f, k))
FROM unnest(ARRAY['acquire', 'start', 'complete', 'fail', 'release', 'extend', 'get', 'forget']) f,
	 unnest(ARRAY['NULL', '''''']) k;
SELECT sqlstate_of(c) FROM (VALUES
	('SELECT idem_acquire(''k'', lease => ''1 ms'')'),
	('SELECT idem_acquire(''k'', lease => ''-1 s'')'),
	('SELECT idem_acquire(''k'', lease => ''8 days'')'),
	('SELECT idem_acquire(''k'', retention => ''59 minutes'')'),
	('SELECT idem_acquire(''k'', retention => ''20 years'')'),
	('SELECT idem_acquire(''k'', wait => ''-1 s'')'),
	('SELECT idem_acquire(''k'', wait => ''2 days'')'),
	('SELECT idem_acquire(''k'', max_runs => 0)'),
	('SELECT idem_extend(''k'', lease => ''0'')'),
	('SELECT idem_acquire(''k'', on_lost => ''panic'')'),
	('SELECT idem_start(''k'', on_lost => '''')'),
	('SELECT idem_acquire_many(''{k}'', on_lost => ''ignored'')'),
	('SELECT idem_acquire(''k'', payload => ''1'', compare => ''{}'')'),
	('SELECT idem_acquire(''k'', payload => ''1'', compare => ''{$,NULL}'')'),
	('SELECT idem_acquire(''k'', compare => ''{$}'')'),
	('SELECT idem_start(''k'', payload => ''{"amount": 1}'', compare => ''{$.amount,$.amonut}'')'),
	('SELECT idem_acquire_many(''{k,l}'', payloads => ARRAY[''{"n": 1}'', ''{"m": 1}'']::jsonb[], compare => ''{$.n}'')'),
	('SELECT idem_acquire_many(''{k,l}'', payloads => ARRAY[''{"n": 1}'', NULL]::jsonb[], compare => ''{$.n}'')'),
	('SELECT idem_call(''k'', ''same(jsonb)'', ''{"m": 1}'', compare => ''{$.n}'')'),
	('SELECT idem_http(''same(jsonb)'', ''{"m": 1}'', compare => ''{$.n}'')'),
	('SELECT idem_transact(''k'', ''[{"Delete": {"TableName": "t", "Key": {"id": 1}}}]'', payload => ''{"m": 1}'', compare => ''{$.n}'')'),
	('SELECT idem_fail(''k'', retry_after => ''-1 s'')'),
	('SELECT idem_fail(''k'', retry_after => ''1 s'', terminal => true)'),
	('SELECT idem_complete(''k'')'),
	('SELECT idem_fail(''k'')'),
	('SELECT idem_extend(''k'')')) v(c);
SELECT idem_release('never acquired');
BEGIN READ ONLY;
SELECT idem_acquire('k');
ROLLBACK;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT idem_acquire('k', wait => '1 s');
ROLLBACK;
-- No request was made.
\echo `curl -s "$EO_CONTROL/count"`
-- A read-only transaction may read a key.
BEGIN READ ONLY;
SELECT idem_get('nothing here');
ROLLBACK;
