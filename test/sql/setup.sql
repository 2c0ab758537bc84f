-- The extension, a server in front of the engine, and a table.
\set endpoint `echo "$EO_ENDPOINT"`
CREATE EXTENSION exactonce;
-- On a busy machine an answer may take long, and is not asked for again.
CREATE SERVER exactonce FOREIGN DATA WRAPPER exactonce
	OPTIONS (region 'eu-west-1', table 'regress', endpoint :'endpoint', key_prefix 'test/',
		connect_timeout '30s', request_timeout '60s', commit_timeout '60s');
CREATE USER MAPPING FOR PUBLIC SERVER exactonce
	OPTIONS (access_key_id 'test', secret_access_key 'test');
SELECT idem_create_table();
-- The second time the table is there.
SELECT idem_create_table();
-- The first call also asks for the service's clock, so that later ones need not.
SELECT idem_get('nothing');

-- Every object of the extension has a comment.
SELECT c.classid::regclass, pg_describe_object(c.classid, c.objid, 0) AS without_comment
FROM pg_depend c
WHERE c.refclassid = 'pg_extension'::regclass AND c.deptype = 'e'
  AND c.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'exactonce')
  AND obj_description(c.objid, c.classid::regclass::name) IS NULL
  AND NOT (c.classid = 'pg_type'::regclass
		   AND (SELECT t.typcategory = 'A' OR r.relkind <> 'c' FROM pg_type t LEFT JOIN pg_class r ON r.oid = t.typrelid
				WHERE t.oid = c.objid))
ORDER BY 1, 2;

-- Waits until the worker has finished all keys that were completed.
CREATE PROCEDURE await_worker() LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1 .. 6000 LOOP
		EXIT WHEN NOT EXISTS (SELECT FROM exactonce_pending);
		PERFORM pg_sleep(0.02);
	END LOOP;
END $$;
