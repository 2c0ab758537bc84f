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
	on_abort pg_catalog.text DEFAULT NULL,
	on_commit pg_catalog.text DEFAULT NULL,
	server pg_catalog.text DEFAULT NULL)
RETURNS @extschema@.idem_claim
LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000000
AS 'MODULE_PATHNAME', 'eo_idem_acquire';
COMMENT ON FUNCTION @extschema@.idem_acquire(pg_catalog.text, pg_catalog.interval, pg_catalog.interval, pg_catalog.jsonb, pg_catalog.interval, pg_catalog.int4, pg_catalog.text, pg_catalog.text, pg_catalog.text) IS
'claims a key with one conditional write and says what to do; an outcome is never an error. lease: 100 ms to 7 days, default the server''s. retention: how long the key is remembered, 1 hour to 3650 days. payload: fingerprinted; the same key with another payload is error ID003. wait: up to that long for another run to settle. max_runs: a key that ran so often counts as failed. on_abort: release (default) or hold, which leaves the lease to run out if the transaction is rolled back, because the work had an effect outside. on_commit: error (default) or keep, which allows a transaction block to commit with the key unsettled. The lease is extended while the transaction lasts. Errors: ID003, ID006 (unavailable or outcome unknown; call again, nothing is repeated), ID007 (refused by DynamoDB)';

CREATE FUNCTION @extschema@.idem_try_acquire(
	key pg_catalog.text,
	lease pg_catalog.interval DEFAULT NULL,
	retention pg_catalog.interval DEFAULT NULL,
	payload pg_catalog.jsonb DEFAULT NULL,
	wait pg_catalog.interval DEFAULT NULL,
	max_runs pg_catalog.int4 DEFAULT NULL,
	on_abort pg_catalog.text DEFAULT NULL,
	on_commit pg_catalog.text DEFAULT NULL,
	server pg_catalog.text DEFAULT NULL)
RETURNS pg_catalog.bool
LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000000
AS 'MODULE_PATHNAME', 'eo_idem_try_acquire';
COMMENT ON FUNCTION @extschema@.idem_try_acquire(pg_catalog.text, pg_catalog.interval, pg_catalog.interval, pg_catalog.jsonb, pg_catalog.interval, pg_catalog.int4, pg_catalog.text, pg_catalog.text, pg_catalog.text) IS
'idem_acquire for IF: true, do the work; false, it is completed. In progress elsewhere is error ID001, failed or not to be retried yet ID004; otherwise as idem_acquire';

CREATE FUNCTION @extschema@.idem_acquire_many(
	keys pg_catalog.text[],
	lease pg_catalog.interval DEFAULT NULL,
	retention pg_catalog.interval DEFAULT NULL,
	payloads pg_catalog.jsonb[] DEFAULT NULL,
	wait pg_catalog.interval DEFAULT NULL,
	max_runs pg_catalog.int4 DEFAULT NULL,
	on_abort pg_catalog.text DEFAULT NULL,
	on_commit pg_catalog.text DEFAULT NULL,
	server pg_catalog.text DEFAULT NULL)
RETURNS SETOF @extschema@.idem_claim
LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000000 ROWS 100
AS 'MODULE_PATHNAME', 'eo_idem_acquire_many';
COMMENT ON FUNCTION @extschema@.idem_acquire_many(pg_catalog.text[], pg_catalog.interval, pg_catalog.interval, pg_catalog.jsonb[], pg_catalog.interval, pg_catalog.int4, pg_catalog.text, pg_catalog.text, pg_catalog.text) IS
'idem_acquire for each key, with the payload at the same place of the other array if there is one: a row each, in the order of the keys, with as many requests under way as parallel_requests of the server says. A key that is in the array twice is in_progress and mine the second time, if it was acquired. wait: for all of them together. At most 10,000 claims a transaction; exactonce_claims shows how far a long call has come. An error (ID003, ID006, ID007) gives back all that was claimed by then, with the transaction or savepoint. 2202E if the arrays differ in length';

CREATE FUNCTION @extschema@.idem_complete(
	key pg_catalog.text,
	result pg_catalog.jsonb DEFAULT NULL,
	token pg_catalog.uuid DEFAULT NULL,
	immediate pg_catalog.bool DEFAULT false,
	server pg_catalog.text DEFAULT NULL)
RETURNS pg_catalog.void
LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000000
AS 'MODULE_PATHNAME', 'eo_idem_complete';
COMMENT ON FUNCTION @extschema@.idem_complete(pg_catalog.text, pg_catalog.jsonb, pg_catalog.uuid, pg_catalog.bool, pg_catalog.text) IS
'marks the key completed, with its result, if and only if the transaction commits; duplicates get the result. token: default the one this transaction or session holds. immediate: at once, whatever becomes of the transaction. Errors: 54000 (result too large for an item of 400 KB), ID002 (the claim was lost), ID008 (no claim of this session, or settled already); at commit ID002, ID006 (no definite answer within commit_timeout; rolled back), ID007';

CREATE FUNCTION @extschema@.idem_complete_many(
	keys pg_catalog.text[],
	results pg_catalog.jsonb[] DEFAULT NULL,
	server pg_catalog.text DEFAULT NULL)
RETURNS pg_catalog.int4
LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000000
AS 'MODULE_PATHNAME', 'eo_idem_complete_many';
COMMENT ON FUNCTION @extschema@.idem_complete_many(pg_catalog.text[], pg_catalog.jsonb[], pg_catalog.text) IS
'idem_complete for each key, with the result at the same place of the other array if there is one; how many there were. At most 10,000 keys a transaction. Errors as idem_complete; 2202E if the arrays differ in length';

CREATE FUNCTION @extschema@.idem_once(
	key pg_catalog.text,
	result pg_catalog.jsonb DEFAULT NULL,
	retention pg_catalog.interval DEFAULT NULL,
	server pg_catalog.text DEFAULT NULL)
RETURNS pg_catalog.void
LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000000
AS 'MODULE_PATHNAME', 'eo_idem_once';
COMMENT ON FUNCTION @extschema@.idem_once(pg_catalog.text, pg_catalog.jsonb, pg_catalog.interval, pg_catalog.text) IS
'claims and completes the key when the transaction commits, by one request: a unique constraint across services. Nothing is asked before. Errors at commit, which is then rolled back: ID005 (completed already), ID001 (in progress elsewhere), ID004, ID006, ID007; at once: ID005 if a transaction of this database has it';

CREATE FUNCTION @extschema@.idem_transact(
	key pg_catalog.text,
	writes pg_catalog.jsonb,
	result pg_catalog.jsonb DEFAULT NULL,
	payload pg_catalog.jsonb DEFAULT NULL,
	server pg_catalog.text DEFAULT NULL)
RETURNS @extschema@.idem_claim
LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000000
AS 'MODULE_PATHNAME', 'eo_idem_transact';
COMMENT ON FUNCTION @extschema@.idem_transact(pg_catalog.text, pg_catalog.jsonb, pg_catalog.jsonb, pg_catalog.jsonb, pg_catalog.text) IS
'completes a key together with writes to other DynamoDB tables, in one TransactWriteItems: all of it is done or nothing. At once, whatever becomes of the PostgreSQL transaction. writes: an array of 1 to 99 of {"Put"|"Update"|"Delete"|"ConditionCheck": {...}} with DynamoDB''s members, 4 MB of items in all, of tables named in the server option transact_tables. Values of Item, Key and ExpressionAttributeValues are plain JSON (string S, number N, boolean BOOL, null NULL, array L, object M) or typed, at any depth: an object with one member that is named S, N, B, BOOL, NULL, SS, NS, BS, L or M and has a value of that type''s kind (string; boolean; array of strings; array; object) is typed. Outcome completed: replayed is false if this call did it (fence and run are not known then) and true for a duplicate, which gets the stored result and writes nothing; otherwise in_progress, retry_later or failed as of idem_acquire. The server''s retention counts. Errors: 22023 (no such write; tells its position), 42501 (a table that is not allowed), 54000 (too many writes, or too large), ID003, ID006 (unavailable or outcome unknown; call again, nothing is repeated), ID007 (refused; DETAIL tells which write and why, nothing was written), ID008 (this transaction or session holds the key)';

CREATE FUNCTION @extschema@.idem_call(
	key pg_catalog.text,
	handler pg_catalog.regprocedure,
	payload pg_catalog.jsonb DEFAULT NULL,
	lease pg_catalog.interval DEFAULT NULL,
	retention pg_catalog.interval DEFAULT NULL,
	wait pg_catalog.interval DEFAULT NULL,
	max_runs pg_catalog.int4 DEFAULT NULL,
	on_error pg_catalog.text DEFAULT NULL,
	server pg_catalog.text DEFAULT NULL)
RETURNS pg_catalog.jsonb
LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000000
AS 'MODULE_PATHNAME', 'eo_idem_call';
COMMENT ON FUNCTION @extschema@.idem_call(pg_catalog.text, pg_catalog.regprocedure, pg_catalog.jsonb, pg_catalog.interval, pg_catalog.interval, pg_catalog.interval, pg_catalog.int4, pg_catalog.text, pg_catalog.text) IS
'runs handler(payload), a function of jsonb that returns jsonb, once for the key, and returns its result; a duplicate returns the stored result. The key is completed if and only if the transaction commits. If the handler raises, its work is undone and the key fails with the error''s SQLSTATE, message and context, to be retried later; on_error: raise (default) or return, which returns NULL and leaves the transaction alive. Cancels, shutdown, 40001, 40P01, 55P03, ID001 and ID006 are not failures of the work: no run is counted, and they are always raised. Errors: ID001 (in progress elsewhere), ID003, ID004 (failed for good, out of runs, or not to be retried yet), ID006, ID007';

CREATE FUNCTION @extschema@.idem_guard()
RETURNS pg_catalog.trigger
LANGUAGE C VOLATILE
AS 'MODULE_PATHNAME', 'eo_idem_guard';
COMMENT ON FUNCTION @extschema@.idem_guard() IS
'trigger: a unique constraint across services. Arguments: the columns that make the key (one of text, varchar, uuid or integer type as it is, else as idem_key), and prefix=, on_duplicate=error (AFTER INSERT, default) or skip (BEFORE INSERT; not on partitions), at=now (default) or commit (all keys of the transaction side by side, by the commit), retention= (an interval; default the server''s: after it a key may be used again, whatever the table holds), server= (default exactonce; the setting is ignored). The key is completed with the row''s transaction. A duplicate raises 23505 with table and trigger as table and constraint name; a key in progress elsewhere ID001. It uses the server with the rights of the table''s owner, so it is not granted to PUBLIC: who may create triggers on a table and execute this function may claim keys in the owner''s name';
REVOKE ALL ON FUNCTION @extschema@.idem_guard() FROM PUBLIC;

CREATE FUNCTION @extschema@.idem_fail(
	key pg_catalog.text,
	error pg_catalog.jsonb DEFAULT NULL,
	retry_after pg_catalog.interval DEFAULT NULL,
	terminal pg_catalog.bool DEFAULT false,
	token pg_catalog.uuid DEFAULT NULL,
	immediate pg_catalog.bool DEFAULT false,
	server pg_catalog.text DEFAULT NULL)
RETURNS pg_catalog.void
LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000000
AS 'MODULE_PATHNAME', 'eo_idem_fail';
COMMENT ON FUNCTION @extschema@.idem_fail(pg_catalog.text, pg_catalog.jsonb, pg_catalog.interval, pg_catalog.bool, pg_catalog.uuid, pg_catalog.bool, pg_catalog.text) IS
'records that the run failed: claimable again after retry_after (default at once), or never if terminal. error is shown to whoever asks. Within a transaction it takes effect when that is over, committed or not, because nobody else may begin before; at once if immediate, or outside a transaction block for a claim from before. Errors as idem_complete';

CREATE FUNCTION @extschema@.idem_release(
	key pg_catalog.text,
	token pg_catalog.uuid DEFAULT NULL,
	server pg_catalog.text DEFAULT NULL)
RETURNS pg_catalog.bool
LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000000
AS 'MODULE_PATHNAME', 'eo_idem_release';
COMMENT ON FUNCTION @extschema@.idem_release(pg_catalog.text, pg_catalog.uuid, pg_catalog.text) IS
'gives a claimed key back untried: claimable at once, and the run is not counted. False: there was nothing of ours to release. Within a transaction it takes effect when that is over, committed or not';

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

CREATE FUNCTION @extschema@.idem_resolve(
	key pg_catalog.text,
	status pg_catalog.text,
	origin pg_catalog.uuid DEFAULT NULL,
	server pg_catalog.text DEFAULT NULL)
RETURNS pg_catalog.bool
LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000000
AS 'MODULE_PATHNAME', 'eo_idem_resolve';
COMMENT ON FUNCTION @extschema@.idem_resolve(pg_catalog.text, pg_catalog.text, pg_catalog.uuid, pg_catalog.text) IS
'for operators: settles a key whose commit was announced and of which nobody can say how it ended. status: completed (its work was done) or failed (it was not; claimable again). Where PostgreSQL knows, it refuses the other answer. origin: to be given if the record is another database''s, which is gone for good. False: the key is not being committed';

/* ---- the commit protocol ---- */

CREATE TABLE @extschema@.exactonce_origin (
	origin pg_catalog.uuid NOT NULL,
	dboid pg_catalog.oid NOT NULL,
	incarnation pg_catalog.int8 NOT NULL,
	since pg_catalog.xid8 NOT NULL
);
COMMENT ON TABLE @extschema@.exactonce_origin IS
'who this database is to the records it writes: one row, kept by the worker';
COMMENT ON COLUMN @extschema@.exactonce_origin.origin IS 'identity of the database; a copy of it gets another';
COMMENT ON COLUMN @extschema@.exactonce_origin.dboid IS 'the database the identity was given to';
COMMENT ON COLUMN @extschema@.exactonce_origin.incarnation IS 'counts the lives of the server';
COMMENT ON COLUMN @extschema@.exactonce_origin.since IS 'no completion of an older transaction is in the outbox';
INSERT INTO @extschema@.exactonce_origin
	SELECT pg_catalog.gen_random_uuid(), d.oid, 0, pg_catalog.pg_current_xact_id()
	FROM pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database();

CREATE TABLE @extschema@.exactonce_outbox (
	origin pg_catalog.uuid NOT NULL,
	server pg_catalog.oid NOT NULL,
	pk pg_catalog.text COLLATE "C" NOT NULL,
	token pg_catalog.uuid NOT NULL,
	role pg_catalog.oid NOT NULL,
	url pg_catalog.text NOT NULL,
	plain_http pg_catalog.bool NOT NULL,
	region pg_catalog.text NOT NULL,
	dynamodb_table pg_catalog.text NOT NULL,
	layout pg_catalog.text NOT NULL,
	retention_s pg_catalog.int8 NOT NULL,
	xid pg_catalog.xid8 NOT NULL,
	created_at pg_catalog.timestamptz NOT NULL,
	PRIMARY KEY (origin, pk, server)
);
COMMENT ON TABLE @extschema@.exactonce_outbox IS
'completions: a row that can be seen is a transaction that has committed, and its key is completed. Kept until DynamoDB has confirmed that. Never to be changed by hand';
COMMENT ON COLUMN @extschema@.exactonce_outbox.origin IS 'see exactonce_origin';
COMMENT ON COLUMN @extschema@.exactonce_outbox.server IS 'the foreign server it was completed through';
COMMENT ON COLUMN @extschema@.exactonce_outbox.pk IS 'partition key of the record';
COMMENT ON COLUMN @extschema@.exactonce_outbox.token IS 'token of the claim';
COMMENT ON COLUMN @extschema@.exactonce_outbox.role IS 'whose user mapping is used';
COMMENT ON COLUMN @extschema@.exactonce_outbox.url IS 'where the record is, as it was when it was completed';
COMMENT ON COLUMN @extschema@.exactonce_outbox.plain_http IS 'the url is http, and that was allowed';
COMMENT ON COLUMN @extschema@.exactonce_outbox.region IS 'AWS region';
COMMENT ON COLUMN @extschema@.exactonce_outbox.dynamodb_table IS 'DynamoDB table';
COMMENT ON COLUMN @extschema@.exactonce_outbox.layout IS 'how the record is spelled';
COMMENT ON COLUMN @extschema@.exactonce_outbox.retention_s IS 'how long the key is remembered from its completion, seconds';
COMMENT ON COLUMN @extschema@.exactonce_outbox.xid IS 'the transaction';
COMMENT ON COLUMN @extschema@.exactonce_outbox.created_at IS 'when idem_complete was called';
REVOKE ALL ON @extschema@.exactonce_origin, @extschema@.exactonce_outbox FROM PUBLIC;

CREATE FUNCTION @extschema@.exactonce_claims_of_cluster(
	OUT database pg_catalog.oid,
	OUT server pg_catalog.oid,
	OUT role pg_catalog.oid,
	OUT dynamodb_table pg_catalog.text,
	OUT key pg_catalog.text,
	OUT state pg_catalog.text,
	OUT pid pg_catalog.int4,
	OUT since pg_catalog.timestamptz,
	OUT lease_until pg_catalog.timestamptz,
	OUT run pg_catalog.int4,
	OUT fence pg_catalog.int8,
	OUT xid pg_catalog.int8)
RETURNS SETOF pg_catalog.record
LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'eo_claims';
COMMENT ON FUNCTION @extschema@.exactonce_claims_of_cluster() IS
'the claim table of the whole cluster; exactonce_claims and exactonce_in_doubt show it';
REVOKE ALL ON FUNCTION @extschema@.exactonce_claims_of_cluster() FROM PUBLIC;

CREATE FUNCTION @extschema@.exactonce_key_at_server(key pg_catalog.text, server_options pg_catalog.text[])
RETURNS pg_catalog.text
LANGUAGE sql STABLE PARALLEL SAFE
RETURN pg_catalog.substr(key, 1 OPERATOR(pg_catalog.+) pg_catalog.length(COALESCE((
	SELECT o.option_value
	FROM pg_catalog.pg_options_to_table(server_options) o
	WHERE o.option_name OPERATOR(pg_catalog.=) 'key_prefix'
		AND pg_catalog.starts_with(key, o.option_value)), '')));
COMMENT ON FUNCTION @extschema@.exactonce_key_at_server(pg_catalog.text, pg_catalog.text[]) IS
'a key as the functions are given it: without the key_prefix of its server. For the views';

CREATE VIEW @extschema@.exactonce_claims AS
	SELECT d.datname AS database, s.srvname AS server, r.rolname AS role, c.dynamodb_table,
		@extschema@.exactonce_key_at_server(c.key, s.srvoptions) AS key,
		c.state, c.pid, c.since, c.lease_until, c.run, c.fence
	FROM @extschema@.exactonce_claims_of_cluster() c
	LEFT JOIN pg_catalog.pg_database d ON d.oid OPERATOR(pg_catalog.=) c.database
	LEFT JOIN pg_catalog.pg_foreign_server s ON s.oid OPERATOR(pg_catalog.=) c.server
		AND d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database()
	LEFT JOIN pg_catalog.pg_roles r ON r.oid OPERATOR(pg_catalog.=) c.role;
COMMENT ON VIEW @extschema@.exactonce_claims IS
'keys held by transactions of this cluster. state: planned (idem_once before the commit), asking, held, settled (failed or released, waits for the end), lost, committing, ending (for the worker to see to), second look (a late request is waited for), in doubt. The server''s name is known for this database only';

CREATE VIEW @extschema@.exactonce_pending AS
	SELECT s.srvname AS server, o.dynamodb_table,
		@extschema@.exactonce_key_at_server(pg_catalog.substr(o.pk, 1 OPERATOR(pg_catalog.+) pg_catalog.strpos(o.pk, '#')), s.srvoptions) AS key,
		o.xid, o.created_at, pg_catalog.clock_timestamp() OPERATOR(pg_catalog.-) o.created_at AS age
	FROM @extschema@.exactonce_outbox o
	JOIN @extschema@.exactonce_origin i ON i.origin OPERATOR(pg_catalog.=) o.origin
	LEFT JOIN pg_catalog.pg_foreign_server s ON s.oid OPERATOR(pg_catalog.=) o.server;
COMMENT ON VIEW @extschema@.exactonce_pending IS
'completions that have committed and that DynamoDB has not confirmed yet; usually empty after some milliseconds';

CREATE VIEW @extschema@.exactonce_in_doubt AS
	SELECT s.srvname AS server, c.dynamodb_table,
		@extschema@.exactonce_key_at_server(c.key, s.srvoptions) AS key, c.xid
	FROM @extschema@.exactonce_claims_of_cluster() c
	JOIN pg_catalog.pg_database d ON d.oid OPERATOR(pg_catalog.=) c.database
		AND d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database()
	LEFT JOIN pg_catalog.pg_foreign_server s ON s.oid OPERATOR(pg_catalog.=) c.server
	WHERE c.state OPERATOR(pg_catalog.=) 'in doubt';
COMMENT ON VIEW @extschema@.exactonce_in_doubt IS
'keys whose commit was announced and of which nobody here can say how it ended; settle them with idem_resolve';
GRANT SELECT ON @extschema@.exactonce_claims, @extschema@.exactonce_pending, @extschema@.exactonce_in_doubt TO pg_monitor;
GRANT EXECUTE ON FUNCTION @extschema@.exactonce_claims_of_cluster() TO pg_monitor;

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

/* ---- one-shot actions ---- */

CREATE TYPE @extschema@.action_outcome AS ENUM
	('created', 'already_exists', 'consumed', 'already_used', 'not_active', 'expired', 'canceled', 'burned',
	'invalid_pin', 'action_not_found');
COMMENT ON TYPE @extschema@.action_outcome IS
'what came of creating, consuming or cancelling an action; http_status beside it says the same to a web client';

CREATE TYPE @extschema@.action_state AS ENUM
	('pending', 'active', 'consumed', 'expired', 'canceled', 'burned');
COMMENT ON TYPE @extschema@.action_state IS
'pending: not before active_at; active: can be consumed; consumed, expired, canceled, burned (no attempt at the PIN is left): over';

CREATE TYPE @extschema@.action_created AS (
	id pg_catalog.text,
	outcome @extschema@.action_outcome,
	http_status pg_catalog.int4,
	created_at pg_catalog.timestamptz,
	active_at pg_catalog.timestamptz,
	expires_at pg_catalog.timestamptz
);
COMMENT ON TYPE @extschema@.action_created IS
'what action_create and action_create_many answer about an action';
COMMENT ON COLUMN @extschema@.action_created.id IS 'as it was given, or 22 characters of base64url that nobody can guess (128 random bits)';
COMMENT ON COLUMN @extschema@.action_created.outcome IS 'created or already_exists';
COMMENT ON COLUMN @extschema@.action_created.http_status IS '201 or 409';
COMMENT ON COLUMN @extschema@.action_created.created_at IS 'now; NULL with already_exists, as the next two';
COMMENT ON COLUMN @extschema@.action_created.active_at IS 'can be consumed from then on; NULL: at once';
COMMENT ON COLUMN @extschema@.action_created.expires_at IS 'can be consumed before then only';

CREATE TYPE @extschema@.action_result AS (
	id pg_catalog.text,
	outcome @extschema@.action_outcome,
	http_status pg_catalog.int4,
	payload pg_catalog.jsonb,
	consumed_at pg_catalog.timestamptz,
	active_at pg_catalog.timestamptz,
	attempts_left pg_catalog.int4,
	replayed pg_catalog.bool
);
COMMENT ON TYPE @extschema@.action_result IS
'what action_consume and action_cancel answer';
COMMENT ON COLUMN @extschema@.action_result.id IS 'as it was given';
COMMENT ON COLUMN @extschema@.action_result.outcome IS 'of action_consume: consumed, already_used, not_active, expired, canceled, burned, invalid_pin or action_not_found; of action_cancel: canceled, already_used, expired, burned or action_not_found';
COMMENT ON COLUMN @extschema@.action_result.http_status IS 'consumed 200, invalid_pin 401, action_not_found 404, already_used and not_active 409, expired, canceled and burned 410; of action_cancel canceled 200';
COMMENT ON COLUMN @extschema@.action_result.payload IS 'with consumed: what the action was created with';
COMMENT ON COLUMN @extschema@.action_result.consumed_at IS 'with consumed and already_used: when, by the clock of DynamoDB';
COMMENT ON COLUMN @extschema@.action_result.active_at IS 'with not_active: from when on';
COMMENT ON COLUMN @extschema@.action_result.attempts_left IS 'with invalid_pin: how many more guesses there are';
COMMENT ON COLUMN @extschema@.action_result.replayed IS 'it was so before this call: consumed under the same token, or canceled';

CREATE TYPE @extschema@.action_view AS (
	id pg_catalog.text,
	state @extschema@.action_state,
	has_pin pg_catalog.bool,
	attempts_left pg_catalog.int4,
	created_at pg_catalog.timestamptz,
	active_at pg_catalog.timestamptz,
	expires_at pg_catalog.timestamptz,
	consumed_at pg_catalog.timestamptz,
	canceled_at pg_catalog.timestamptz,
	reason pg_catalog.text,
	consumer pg_catalog.jsonb
);
COMMENT ON TYPE @extschema@.action_view IS
'an action as it stands in DynamoDB, without payload and PIN';
COMMENT ON COLUMN @extschema@.action_view.id IS 'as it was given';
COMMENT ON COLUMN @extschema@.action_view.state IS 'now, by the clock of DynamoDB';
COMMENT ON COLUMN @extschema@.action_view.has_pin IS 'a PIN is asked for';
COMMENT ON COLUMN @extschema@.action_view.attempts_left IS 'guesses at the PIN that are left; NULL without one';
COMMENT ON COLUMN @extschema@.action_view.created_at IS 'when it was created';
COMMENT ON COLUMN @extschema@.action_view.active_at IS 'can be consumed from then on; NULL: from its creation';
COMMENT ON COLUMN @extschema@.action_view.expires_at IS 'can be consumed before then only';
COMMENT ON COLUMN @extschema@.action_view.consumed_at IS 'when it was consumed';
COMMENT ON COLUMN @extschema@.action_view.canceled_at IS 'when it was canceled';
COMMENT ON COLUMN @extschema@.action_view.reason IS 'what action_consume or action_cancel was given as such';
COMMENT ON COLUMN @extschema@.action_view.consumer IS 'what action_consume was given as such';

CREATE FUNCTION @extschema@.action_create(
	payload pg_catalog.jsonb DEFAULT NULL,
	active_at pg_catalog.timestamptz DEFAULT NULL,
	expires_at pg_catalog.timestamptz DEFAULT NULL,
	pin pg_catalog.text DEFAULT NULL,
	id pg_catalog.text DEFAULT NULL,
	server pg_catalog.text DEFAULT NULL)
RETURNS @extschema@.action_created
LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000000
AS 'MODULE_PATHNAME', 'eo_action_create_sql';
COMMENT ON FUNCTION @extschema@.action_create(pg_catalog.jsonb, pg_catalog.timestamptz, pg_catalog.timestamptz, pg_catalog.text, pg_catalog.text, pg_catalog.text) IS
'makes an object that can be consumed once, at once and whatever becomes of the transaction. payload: what the one who consumes it gets; about 390 KB. active_at, expires_at: default at once, and 30 days later. pin: 1 to 256 bytes; is stored as a hash, and the server option pin_attempts says how many guesses there are. id: default one that nobody can guess. Pass the PIN as a parameter: a literal is in the statement''s text. Call it in FROM: of (action_create(...)).* each column is a call of its own, unless an id is given. Errors: 23505 (there is an action of that id, whatever has become of it), 22023, 54000, ID006 (unavailable or outcome unknown), ID007 (refused by DynamoDB)';

CREATE FUNCTION @extschema@.action_create_many(
	actions pg_catalog.jsonb,
	server pg_catalog.text DEFAULT NULL)
RETURNS SETOF @extschema@.action_created
LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000000 ROWS 100
AS 'MODULE_PATHNAME', 'eo_action_create_many_sql';
COMMENT ON FUNCTION @extschema@.action_create_many(pg_catalog.jsonb, pg_catalog.text) IS
'action_create for each object of an array, which has any of the members id, payload, active_at, expires_at (strings, read as timestamptz) and pin (a string; what is null counts as left out): a row each, in their order, with as many requests under way as parallel_requests of the server says. An id that there is or was is outcome already_exists, not an error. All are checked before the first request: 22023 (with its number: an unknown member, an id that is there twice, ...), 54000. ID006 and ID007 leave those made that had been made by then. A PIN takes 50 ms of a core each';

CREATE FUNCTION @extschema@.action_get(
	id pg_catalog.text,
	server pg_catalog.text DEFAULT NULL)
RETURNS @extschema@.action_view
LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000000
AS 'MODULE_PATHNAME', 'eo_action_get_sql';
COMMENT ON FUNCTION @extschema@.action_get(pg_catalog.text, pg_catalog.text) IS
'an action by one consistent read, which consumes nothing and shows neither payload nor PIN; NULL: there is none. For what answers to GET: link scanners follow links';

CREATE FUNCTION @extschema@.action_consume(
	id pg_catalog.text,
	pin pg_catalog.text DEFAULT NULL,
	reason pg_catalog.text DEFAULT NULL,
	consumer pg_catalog.jsonb DEFAULT NULL,
	token pg_catalog.uuid DEFAULT NULL,
	server pg_catalog.text DEFAULT NULL)
RETURNS @extschema@.action_result
LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000000
AS 'MODULE_PATHNAME', 'eo_action_consume_sql';
COMMENT ON FUNCTION @extschema@.action_consume(pg_catalog.text, pg_catalog.text, pg_catalog.text, pg_catalog.jsonb, pg_catalog.uuid, pg_catalog.text) IS
'consumes an action, once: of all calls one has outcome consumed and gets the payload. An outcome is never an error. It takes effect at once and is not undone by a rollback. pin: a guess; ignored if none is asked for. A guess takes an attempt before it is looked at, and after the last wrong one the action is burned. reason: up to 1024 bytes, consumer: up to 16 KB; both are kept with the action. token: a random UUID of the caller''s; the same token again gets the same answer, with replayed, and needs no PIN. Without one a lost answer cannot be asked for again. Call it in FROM: where (action_consume(...)).* is sorted by a column, that is a call of its own. Errors: ID006 (unavailable or outcome unknown; call again with the same token), ID007';

CREATE FUNCTION @extschema@.action_cancel(
	id pg_catalog.text,
	reason pg_catalog.text DEFAULT NULL,
	server pg_catalog.text DEFAULT NULL)
RETURNS @extschema@.action_result
LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000000
AS 'MODULE_PATHNAME', 'eo_action_cancel_sql';
COMMENT ON FUNCTION @extschema@.action_cancel(pg_catalog.text, pg_catalog.text, pg_catalog.text) IS
'ends an action, pending or active, before it is consumed: canceled, or what it had come to before (already_used, expired, burned). At once and not undone by a rollback; what it answers is final, also for requests that are still on their way. reason: up to 1024 bytes, kept with the action. Errors: ID006, ID007';

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
REVOKE ALL ON FUNCTION @extschema@.idem_resolve(pg_catalog.text, pg_catalog.text, pg_catalog.uuid, pg_catalog.text) FROM PUBLIC;
REVOKE ALL ON FUNCTION @extschema@.idem_create_table(pg_catalog.text) FROM PUBLIC;
REVOKE ALL ON FUNCTION @extschema@.idem_check(pg_catalog.text) FROM PUBLIC;
