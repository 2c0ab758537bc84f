-- Prepares the database of the isolation tests.
\set ON_ERROR_STOP on
\set endpoint `echo "$EO_ENDPOINT"`
CREATE EXTENSION exactonce;
CREATE SERVER exactonce FOREIGN DATA WRAPPER exactonce
	OPTIONS (region 'eu-west-1', table 'specs', endpoint :'endpoint', clock_skew '0',
		connect_timeout '30s', request_timeout '60s', commit_timeout '60s');
CREATE USER MAPPING FOR PUBLIC SERVER exactonce
	OPTIONS (access_key_id 'test', secret_access_key 'test');
SELECT idem_create_table();

-- Each permutation has keys of its own.
CREATE TABLE spec_runs (n int);
CREATE FUNCTION spec_key(name text) RETURNS text LANGUAGE sql AS
$$SELECT name || '-' || max(n) FROM spec_runs$$;
