-- idem_key(): the same values make the same key, whatever the settings are.
CREATE TYPE mood AS ENUM ('sad', 'it''s fine');
CREATE DOMAIN cents AS bigint;
CREATE TABLE parts (what text, key text);
CREATE FUNCTION keys() RETURNS TABLE (what text, key text) LANGUAGE sql AS $$
	SELECT 'bool', idem_key(true) UNION ALL
	SELECT 'int', idem_key(42) UNION ALL
	SELECT 'numeric', idem_key(12345.6789) UNION ALL
	SELECT 'real', idem_key(0.1::real) UNION ALL
	SELECT 'double', idem_key(1e-5::float8, 1e25::float8, 0.1::float8 + 0.2::float8) UNION ALL
	SELECT 'text', idem_key('Zoë'::text) UNION ALL
	SELECT 'bytea', idem_key('\x00ff10'::bytea) UNION ALL
	SELECT 'uuid', idem_key('A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'::uuid) UNION ALL
	SELECT 'date', idem_key('2026-02-01'::date, 'infinity'::date) UNION ALL
	SELECT 'timestamp', idem_key('2026-02-01 03:04:05.678'::timestamp) UNION ALL
	SELECT 'timestamptz', idem_key('2026-02-01 03:04:05.678+00'::timestamptz, '-infinity'::timestamptz) UNION ALL
	SELECT 'enum', idem_key('it''s fine'::mood) UNION ALL
	SELECT 'jsonb', idem_key('{"b": [1.50, null, "x"], "a": {"c": true}}'::jsonb)
$$;
INSERT INTO parts SELECT * FROM keys();
SET TimeZone = 'Asia/Kathmandu';
SET DateStyle = 'German, DMY';
SET IntervalStyle = 'iso_8601';
SET extra_float_digits = -10;
SET bytea_output = 'escape';
SELECT k.what FROM keys() k JOIN parts p USING (what) WHERE k.key <> p.key;
SET TimeZone = 'America/St_Johns';
SET DateStyle = 'SQL, MDY';
SET extra_float_digits = 3;
SELECT k.what FROM keys() k JOIN parts p USING (what) WHERE k.key <> p.key;
-- Locales make no difference; those that this machine has are tried.
DO $$
DECLARE
	l text;
	bad text;
BEGIN
	FOREACH l IN ARRAY ARRAY['C', 'C.UTF-8', 'de_DE.utf8', 'fr_FR.utf8', 'tr_TR.utf8'] LOOP
		BEGIN
			PERFORM set_config(name, l, true)
			FROM unnest(ARRAY['lc_numeric', 'lc_monetary', 'lc_time', 'lc_messages']) name;
		EXCEPTION WHEN invalid_parameter_value THEN
			CONTINUE;
		END;
		SELECT string_agg(k.what, ', ') INTO bad FROM keys() k JOIN parts p USING (what) WHERE k.key <> p.key;
		IF bad IS NOT NULL THEN
			RAISE EXCEPTION 'other keys under %: %', l, bad;
		END IF;
	END LOOP;
END $$;
RESET ALL;
SELECT count(*), count(DISTINCT key) FROM parts;
-- A key is the SHA-256 of its form, which is spelled out here.
CREATE FUNCTION hashed(form text) RETURNS text LANGUAGE sql AS
	$$ SELECT encode(sha256(convert_to(E'exactonce key 1\n' || form, 'UTF8')), 'hex') $$;
SELECT what, given = hashed(form) AS same FROM (VALUES
	('bool', idem_key(true, false), 'b1:tb1:f'),
	('int', idem_key(42, -7::smallint), 'n2:42n2:-7'),
	('numeric', idem_key(1.50, 'NaN'::numeric, 100::numeric), 'n3:1.5n3:NaNn3:100'),
	('float', idem_key(0.1::real, '-0'::float8, 'Infinity'::float8), 'f3:0.1f1:0f8:Infinity'),
	('exponents', idem_key(1e14::float8, 1.5e22::float8, 0.0001::float8, 0.00001::float8),
	 'f15:100000000000000f7:1.5e+22f6:0.0001f5:1e-05'),
	('text', idem_key('ab'::text, 'c'::char(5), 'd'::varchar, 'é', ''), 't2:abt1:ct1:dt2:ét0:'),
	('bytea', idem_key('\x00ff'::bytea), 'x4:00ff'),
	('uuid', idem_key('A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'::uuid), 'u36:a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'),
	('date', idem_key('2026-02-01'::date, '0044-03-15 BC'::date), 'd10:2026-02-01d13:0044-03-15 BC'),
	('edges', idem_key('-infinity'::date, '0044-03-15 01:02 BC'::timestamp, '0044-03-15 01:02+00 BC'::timestamptz,
	 'infinity'::timestamptz), 'd9:-infinitys22:0044-03-15T01:02:00 BCz23:0044-03-15T01:02:00 BCZz8:infinity'),
	('timestamp', idem_key('2026-02-01 03:04:05.678'::timestamp), 's23:2026-02-01T03:04:05.678'),
	('timestamptz', idem_key('2026-02-01 03:04:05+02'::timestamptz), 'z20:2026-02-01T01:04:05Z'),
	('null', idem_key(NULL, 1), '0n1:1'),
	('jsonb', idem_key('{"bb": [1.0, null], "a": "x"}'::jsonb), 'j24:o2:t1:at1:xt2:bba2:n1:10')
	) v(what, given, form);
-- Equal values of related types make the same key.
SELECT v, idem_key(v::real) = idem_key(v::float8) AS floats
FROM unnest(ARRAY['0.1', '-0', '1000000', '16777216', '1e15', '1e-5', 'NaN', '-Infinity']) v;
SELECT idem_key(42) = idem_key(42::bigint) AND idem_key(42) = idem_key(42.00)
	   AND idem_key(42) = idem_key(42::cents) AS numbers,
	   idem_key('a'::text) = idem_key('a') AND idem_key('a'::text) = idem_key('a'::varchar(9))
	   AND idem_key('a'::text) = idem_key('a'::name) AND idem_key('a '::char(9)) = idem_key('a') AS texts,
	   idem_key('2026-01-01 12:00+00'::timestamptz) = idem_key('2026-01-01 14:00+02'::timestamptz) AS instants,
	   idem_key('1.0'::jsonb) = idem_key('1.00'::jsonb) AS json_numbers;
-- Different values make different keys.
SELECT count(*), count(DISTINCT k) FROM unnest(ARRAY[
	idem_key('ab', 'c'), idem_key('a', 'bc'), idem_key('abc'), idem_key('abc', ''), idem_key('abc', NULL),
	idem_key('', 'abc'), idem_key(NULL, 'abc'), idem_key(1), idem_key('1'), idem_key(1::float8),
	idem_key(true), idem_key('t'), idem_key('1'::jsonb), idem_key('"1"'::jsonb),
	idem_key('{"a":{"b":1}}'::jsonb), idem_key('{"a":{},"b":1}'::jsonb), idem_key('[[1],2]'::jsonb),
	idem_key('[[1,2]]'::jsonb), idem_key('null'::jsonb, 1), idem_key(NULL::jsonb, 1),
	idem_key('2026-01-01'::date), idem_key('2026-01-01'::timestamp), idem_key('2026-01-01'::timestamptz)]) k;
-- The elements of a variadic array are parts.
SELECT idem_key(VARIADIC ARRAY['a', 'b']) = idem_key('a', 'b') AS same;
-- Arguments that are refused.
SELECT idem_key(NULL);
SELECT idem_key(NULL, NULL::int);
SELECT idem_key('null'::jsonb, NULL);
SELECT idem_key(VARIADIC ARRAY[]::text[]);
SELECT idem_key(VARIADIC NULL::text[]);
SELECT idem_key('{"a":1}'::json);
SELECT idem_key('1 day'::interval);
SELECT idem_key('12:00'::time);
SELECT idem_key(ARRAY[1]);
SELECT idem_key(ROW(1));
-- idem_key_from() takes parts of a document.
SELECT idem_key_from('{"order": {"id": 7.0}, "at": "x"}', '$.order.id')
	   = idem_key_from('{"at": "y", "order": {"id": 7}}', '$.order.id') AS same;
SELECT count(DISTINCT k) FROM unnest(ARRAY[
	idem_key_from('{"a": 1}', '$.a', '$.b'), idem_key_from('{"b": 1}', '$.a', '$.b'),
	idem_key_from('{"a": 1, "b": null}', '$.a', '$.b'), idem_key_from('{"a": [1]}', '$.a', '$.b'),
	idem_key_from('{"a": [1, 2]}', '$.a[*]', '$.b')]) k;
SELECT idem_key_from('{"a": {"b": 1.0}}', '$.a.b', '$.c') = hashed('j7:a1:n1:10') AS same;
SELECT idem_key_from('{"a": 1}', '$.b', '$.c');
SELECT idem_key_from('{"request_id": null}', '$.request_id');
SELECT idem_key_from('{"a": [null, null]}', '$.a[*]', '$.b');
SELECT idem_key_from('{"a": [null, null], "b": false}', '$.a[*]', '$.b') IS NOT NULL AS made;
SELECT idem_key_from('{"a": 1}', '$.a', NULL);
SELECT idem_key_from('{"a": 1}', VARIADIC '{}');
SELECT idem_key_from('{"a": 1}', '$.a', 'strict $.b');
SELECT idem_key_from(NULL, '$.a');
SELECT idem_key_from('{"a": 1}', VARIADIC NULL);
-- idem_key() is immutable, so a generated column can use it.
CREATE TABLE events (source text, id int, key text GENERATED ALWAYS AS (idem_key(source, id)) STORED);
INSERT INTO events VALUES ('shop', 1);
SELECT key = idem_key('shop', 1) AS generated FROM events;
