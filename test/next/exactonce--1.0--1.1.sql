\echo Use "ALTER EXTENSION exactonce UPDATE TO '1.1'" to load this file. \quit

ALTER TABLE exactonce_internal.outbox ADD COLUMN made_by pg_catalog.text;
COMMENT ON COLUMN exactonce_internal.outbox.made_by IS
'version of the library that completed the key; NULL: one before 1.1';

CREATE OR REPLACE FUNCTION @extschema@.idem_drain(
	timeout pg_catalog.interval DEFAULT '5 min')
RETURNS pg_catalog.int4
LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000000
AS 'MODULE_PATHNAME', 'eo_idem_drain_1_1';
