/* exactonce 1.0: everything CREATE EXTENSION makes. */

-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION exactonce" to load this file. \quit

/* ---- configuration: servers and user mappings ---- */

CREATE FUNCTION @extschema@.exactonce_fdw_validator(pg_catalog.text[], pg_catalog.oid)
RETURNS pg_catalog.void
LANGUAGE C STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'eo_fdw_validator';
COMMENT ON FUNCTION @extschema@.exactonce_fdw_validator(pg_catalog.text[], pg_catalog.oid) IS
'checks the options of exactonce servers and user mappings when they are written; an unknown option or a bad value is an error with a hint';

CREATE FOREIGN DATA WRAPPER exactonce
	NO HANDLER
	VALIDATOR @extschema@.exactonce_fdw_validator;
COMMENT ON FOREIGN DATA WRAPPER exactonce IS
'a server of this wrapper is one DynamoDB table; USAGE on it is the right to claim keys there';

/* ---- types ---- */

CREATE TYPE @extschema@.idem_outcome AS ENUM
	('acquired', 'completed', 'in_progress', 'retry_later', 'failed');
COMMENT ON TYPE @extschema@.idem_outcome IS
'acquired: this call owns the key, do the work; completed: done before, use the result; in_progress: another run is at it; retry_later: failed, not before retry_at; failed: failed for good or out of runs';

CREATE TYPE @extschema@.idem_claim AS (
	key pg_catalog.text,
	outcome @extschema@.idem_outcome,
	token pg_catalog.uuid,
	fence pg_catalog.int8,
	run pg_catalog.int4,
	result pg_catalog.jsonb,
	error pg_catalog.jsonb,
	lease_until pg_catalog.timestamptz,
	retry_at pg_catalog.timestamptz,
	expires_at pg_catalog.timestamptz,
	mine pg_catalog.bool,
	replayed pg_catalog.bool
);
COMMENT ON TYPE @extschema@.idem_claim IS
'what idem_acquire answers about a key';
COMMENT ON COLUMN @extschema@.idem_claim.key IS 'the key as it was given';
COMMENT ON COLUMN @extschema@.idem_claim.outcome IS 'what the caller is to do, see idem_outcome';
COMMENT ON COLUMN @extschema@.idem_claim.token IS 'proof of ownership, new with every claim; only with acquired';
COMMENT ON COLUMN @extschema@.idem_claim.fence IS 'grows with every claim of the key, across deletion too: a resource that remembers the highest it saw can refuse a displaced run';
COMMENT ON COLUMN @extschema@.idem_claim.run IS 'which run of the work this is or was, from 1';
COMMENT ON COLUMN @extschema@.idem_claim.result IS 'with completed: what idem_complete stored; SQL NULL: no result';
COMMENT ON COLUMN @extschema@.idem_claim.error IS 'with retry_later and failed: what idem_fail stored';
COMMENT ON COLUMN @extschema@.idem_claim.lease_until IS 'end of the lease, by the clock of DynamoDB';
COMMENT ON COLUMN @extschema@.idem_claim.retry_at IS 'with retry_later: the key can be claimed from then on';
COMMENT ON COLUMN @extschema@.idem_claim.expires_at IS 'the record counts as absent five minutes after this';
COMMENT ON COLUMN @extschema@.idem_claim.mine IS 'this session owns the key: with acquired, or with in_progress when it asked again';
COMMENT ON COLUMN @extschema@.idem_claim.replayed IS 'the answer is that of an earlier run';

CREATE TYPE @extschema@.idem_record AS (
	key pg_catalog.text,
	status pg_catalog.text,
	fence pg_catalog.int8,
	runs pg_catalog.int4,
	result pg_catalog.jsonb,
	error pg_catalog.jsonb,
	lease_until pg_catalog.timestamptz,
	retry_at pg_catalog.timestamptz,
	expires_at pg_catalog.timestamptz,
	created_at pg_catalog.timestamptz,
	updated_at pg_catalog.timestamptz
);
COMMENT ON TYPE @extschema@.idem_record IS
'a record as it stands in DynamoDB, without the owner''s token';
COMMENT ON COLUMN @extschema@.idem_record.key IS 'the key as it was given';
COMMENT ON COLUMN @extschema@.idem_record.status IS 'IN_PROGRESS, COMMITTING, COMPLETED or FAILED';
COMMENT ON COLUMN @extschema@.idem_record.fence IS 'number of the latest claim; grows';
COMMENT ON COLUMN @extschema@.idem_record.runs IS 'runs counted so far';
COMMENT ON COLUMN @extschema@.idem_record.result IS 'with COMPLETED: the stored result';
COMMENT ON COLUMN @extschema@.idem_record.error IS 'with FAILED: the stored error';
COMMENT ON COLUMN @extschema@.idem_record.lease_until IS 'with IN_PROGRESS: end of the lease';
COMMENT ON COLUMN @extschema@.idem_record.retry_at IS 'with FAILED: claimable from then on; NULL: failed for good';
COMMENT ON COLUMN @extschema@.idem_record.expires_at IS 'the record counts as absent five minutes after this';
COMMENT ON COLUMN @extschema@.idem_record.created_at IS 'when the key was first claimed';
COMMENT ON COLUMN @extschema@.idem_record.updated_at IS 'last change';

/* ---- idempotency keys ---- */

CREATE FUNCTION @extschema@.idem_acquire(
	key pg_catalog.text,
	lease pg_catalog.interval DEFAULT NULL,
	retention pg_catalog.interval DEFAULT NULL,
	payload pg_catalog.jsonb DEFAULT NULL,
	wait pg_catalog.interval DEFAULT NULL,
	max_runs pg_catalog.int4 DEFAULT NULL,
	server pg_catalog.text DEFAULT NULL)
RETURNS @extschema@.idem_claim
LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000000
AS 'MODULE_PATHNAME', 'eo_idem_acquire';
COMMENT ON FUNCTION @extschema@.idem_acquire(pg_catalog.text, pg_catalog.interval, pg_catalog.interval, pg_catalog.jsonb, pg_catalog.interval, pg_catalog.int4, pg_catalog.text) IS
'claims a key with one conditional write and says what to do; an outcome is never an error. lease: 100 ms to 7 days, default the server''s. retention: how long the key is remembered, 1 hour to 3650 days. payload: fingerprinted; the same key with another payload is error ID003. wait: up to that long for another run to settle. max_runs: a key that ran so often counts as failed. Errors: ID003, ID006 (unavailable or outcome unknown; call again, nothing is repeated), ID007 (refused by DynamoDB)';

CREATE FUNCTION @extschema@.idem_try_acquire(
	key pg_catalog.text,
	lease pg_catalog.interval DEFAULT NULL,
	retention pg_catalog.interval DEFAULT NULL,
	payload pg_catalog.jsonb DEFAULT NULL,
	wait pg_catalog.interval DEFAULT NULL,
	max_runs pg_catalog.int4 DEFAULT NULL,
	server pg_catalog.text DEFAULT NULL)
RETURNS pg_catalog.bool
LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000000
AS 'MODULE_PATHNAME', 'eo_idem_try_acquire';
COMMENT ON FUNCTION @extschema@.idem_try_acquire(pg_catalog.text, pg_catalog.interval, pg_catalog.interval, pg_catalog.jsonb, pg_catalog.interval, pg_catalog.int4, pg_catalog.text) IS
'idem_acquire for IF: true, do the work; false, it is completed. In progress elsewhere is error ID001, failed or not to be retried yet ID004; otherwise as idem_acquire';

CREATE FUNCTION @extschema@.idem_complete(
	key pg_catalog.text,
	result pg_catalog.jsonb DEFAULT NULL,
	token pg_catalog.uuid DEFAULT NULL,
	server pg_catalog.text DEFAULT NULL)
RETURNS pg_catalog.void
LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000000
AS 'MODULE_PATHNAME', 'eo_idem_complete';
COMMENT ON FUNCTION @extschema@.idem_complete(pg_catalog.text, pg_catalog.jsonb, pg_catalog.uuid, pg_catalog.text) IS
'stores the result and marks the key completed; duplicates get the result. Takes effect at once. token: default the one this session acquired. Errors: 54000 (result too large for an item of 400 KB), ID002 (the claim was lost), ID006, ID007, ID008 (no claim of this session)';

CREATE FUNCTION @extschema@.idem_fail(
	key pg_catalog.text,
	error pg_catalog.jsonb DEFAULT NULL,
	retry_after pg_catalog.interval DEFAULT NULL,
	terminal pg_catalog.bool DEFAULT false,
	token pg_catalog.uuid DEFAULT NULL,
	server pg_catalog.text DEFAULT NULL)
RETURNS pg_catalog.void
LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000000
AS 'MODULE_PATHNAME', 'eo_idem_fail';
COMMENT ON FUNCTION @extschema@.idem_fail(pg_catalog.text, pg_catalog.jsonb, pg_catalog.interval, pg_catalog.bool, pg_catalog.uuid, pg_catalog.text) IS
'records that the run failed: claimable again after retry_after (default at once), or never if terminal. error is shown to whoever asks. Takes effect at once. Errors as idem_complete';

CREATE FUNCTION @extschema@.idem_release(
	key pg_catalog.text,
	token pg_catalog.uuid DEFAULT NULL,
	server pg_catalog.text DEFAULT NULL)
RETURNS pg_catalog.bool
LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000000
AS 'MODULE_PATHNAME', 'eo_idem_release';
COMMENT ON FUNCTION @extschema@.idem_release(pg_catalog.text, pg_catalog.uuid, pg_catalog.text) IS
'gives a claimed key back untried: claimable at once, and the run is not counted. False: there was nothing of ours to release. Takes effect at once';

CREATE FUNCTION @extschema@.idem_extend(
	key pg_catalog.text,
	lease pg_catalog.interval DEFAULT NULL,
	token pg_catalog.uuid DEFAULT NULL,
	server pg_catalog.text DEFAULT NULL)
RETURNS pg_catalog.timestamptz
LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000000
AS 'MODULE_PATHNAME', 'eo_idem_extend';
COMMENT ON FUNCTION @extschema@.idem_extend(pg_catalog.text, pg_catalog.interval, pg_catalog.uuid, pg_catalog.text) IS
'has the lease end that long from now, never earlier than it does already, and returns its end. Errors: ID002 (the claim was lost), ID006, ID007, ID008';

CREATE FUNCTION @extschema@.idem_get(
	key pg_catalog.text,
	server pg_catalog.text DEFAULT NULL)
RETURNS @extschema@.idem_record
LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000000
AS 'MODULE_PATHNAME', 'eo_idem_get';
COMMENT ON FUNCTION @extschema@.idem_get(pg_catalog.text, pg_catalog.text) IS
'the record of a key by one consistent read, changing nothing; NULL: there is no live record';

CREATE FUNCTION @extschema@.idem_forget(
	key pg_catalog.text,
	server pg_catalog.text DEFAULT NULL)
RETURNS pg_catalog.bool
LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000000
AS 'MODULE_PATHNAME', 'eo_idem_forget';
COMMENT ON FUNCTION @extschema@.idem_forget(pg_catalog.text, pg_catalog.text) IS
'for operators: makes a key claimable afresh whatever its state, with no runs counted and no result; a run in progress loses its claim. False: there is no record. A key whose transaction is committing is refused with ID001';

/* ---- making keys ---- */

CREATE FUNCTION @extschema@.idem_key(VARIADIC pg_catalog."any")
RETURNS pg_catalog.text
LANGUAGE C IMMUTABLE PARALLEL SAFE
AS 'MODULE_PATHNAME', 'eo_idem_key';
COMMENT ON FUNCTION @extschema@.idem_key(pg_catalog."any") IS
'a key of any number of values: 64 hexadecimal digits, the same for the same values whatever the session''s settings, different for different values, NULL and empty included. 22004 if all are NULL; 0A000 for types without a canonical form';

CREATE FUNCTION @extschema@.idem_key_from(payload pg_catalog.jsonb, VARIADIC paths pg_catalog.jsonpath[])
RETURNS pg_catalog.text
LANGUAGE C IMMUTABLE PARALLEL SAFE
AS 'MODULE_PATHNAME', 'eo_idem_key_from';
COMMENT ON FUNCTION @extschema@.idem_key_from(pg_catalog.jsonb, pg_catalog.jsonpath[]) IS
'a key of what the paths select from the payload; a path that selects nothing counts as NULL, and 22004 if all select nothing';

/* ---- administration ---- */

CREATE FUNCTION @extschema@.idem_create_table(server pg_catalog.text DEFAULT NULL)
RETURNS pg_catalog.text
LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000000
AS 'MODULE_PATHNAME', 'eo_idem_create_table';
COMMENT ON FUNCTION @extschema@.idem_create_table(pg_catalog.text) IS
'makes the server''s DynamoDB table, billed on demand and with time to live on, and waits until it can be used. Returns created or exists. Errors: ID007 if there is one with another key';

CREATE FUNCTION @extschema@.idem_check(
	server pg_catalog.text DEFAULT NULL,
	OUT "check" pg_catalog.text,
	OUT status pg_catalog.text,
	OUT detail pg_catalog.text,
	OUT advice pg_catalog.text)
RETURNS SETOF pg_catalog.record
LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000000 ROWS 8
AS 'MODULE_PATHNAME', 'eo_idem_check';
COMMENT ON FUNCTION @extschema@.idem_check(pg_catalog.text) IS
'looks whether a server will do: a row per check with status ok, warning or failure, and advice. Writes nothing';

/* What changes or destroys for others is for whoever is told. */
REVOKE ALL ON FUNCTION @extschema@.idem_forget(pg_catalog.text, pg_catalog.text) FROM PUBLIC;
REVOKE ALL ON FUNCTION @extschema@.idem_create_table(pg_catalog.text) FROM PUBLIC;
REVOKE ALL ON FUNCTION @extschema@.idem_check(pg_catalog.text) FROM PUBLIC;
