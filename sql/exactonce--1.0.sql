/* exactonce 1.0: all objects of the extension. */

-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION exactonce" to load this file. \quit

/* ---- what nobody calls by name ---- */

CREATE SCHEMA exactonce_internal;
COMMENT ON SCHEMA exactonce_internal IS
'tables that decide which keys are completed, read and written by the extension only, and the functions that its views are made of. Nobody may have rights on the tables: the extension refuses to work if somebody has';

/* ---- configuration: servers and user mappings ---- */

CREATE FUNCTION exactonce_internal.fdw_validator(pg_catalog.text[], pg_catalog.oid)
RETURNS pg_catalog.void
LANGUAGE C STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'eo_fdw_validator';
COMMENT ON FUNCTION exactonce_internal.fdw_validator(pg_catalog.text[], pg_catalog.oid) IS
'checks the options of exactonce servers and user mappings when they are written. Errors: HV00D (unknown option; the hint lists the valid ones), 22023 (bad value; DETAIL says why), 42501 (an option for superusers only)';

CREATE FOREIGN DATA WRAPPER exactonce
	NO HANDLER
	VALIDATOR exactonce_internal.fdw_validator;
COMMENT ON FOREIGN DATA WRAPPER exactonce IS
'a server of this wrapper is one DynamoDB table; USAGE on the server is the right to use all its keys and actions';

/* ---- types ---- */

CREATE TYPE @extschema@.idem_outcome AS ENUM
	('acquired', 'completed', 'in_progress', 'retry_later', 'failed');
COMMENT ON TYPE @extschema@.idem_outcome IS
'acquired: this call owns the key, do the work; completed: the work was done before, use the result; in_progress: another run holds the key; retry_later: the work failed and may not be retried before retry_at; failed: the work failed for good, or no runs are left';

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
	replayed pg_catalog.bool,
	http_status pg_catalog.int4,
	retry_after pg_catalog.int4,
	progress pg_catalog.jsonb
);
COMMENT ON TYPE @extschema@.idem_claim IS
'the answer of idem_acquire about a key';
COMMENT ON COLUMN @extschema@.idem_claim.key IS 'the key as it was passed';
COMMENT ON COLUMN @extschema@.idem_claim.outcome IS 'tells the caller what to do, see idem_outcome';
COMMENT ON COLUMN @extschema@.idem_claim.token IS 'with acquired: proof of ownership, a random UUID that is new with every claim; otherwise NULL';
COMMENT ON COLUMN @extschema@.idem_claim.fence IS 'number of the claim; grows with every claim of the key, even if the record was deleted in between. A resource that remembers the highest fence it has seen can refuse a displaced run';
COMMENT ON COLUMN @extschema@.idem_claim.run IS 'number of the current or latest run of the work, from 1';
COMMENT ON COLUMN @extschema@.idem_claim.result IS 'with completed: the result that idem_complete stored; SQL NULL: no result';
COMMENT ON COLUMN @extschema@.idem_claim.error IS 'with retry_later and failed: the error that idem_fail or idem_call stored';
COMMENT ON COLUMN @extschema@.idem_claim.lease_until IS 'end of the lease, by the clock of DynamoDB';
COMMENT ON COLUMN @extschema@.idem_claim.retry_at IS 'with retry_later: the key can be claimed from this time on';
COMMENT ON COLUMN @extschema@.idem_claim.expires_at IS 'the record counts as absent from five minutes after this time';
COMMENT ON COLUMN @extschema@.idem_claim.mine IS 'true with acquired, and with in_progress if this session holds the key';
COMMENT ON COLUMN @extschema@.idem_claim.replayed IS 'true if the answer comes from an earlier run';
COMMENT ON COLUMN @extschema@.idem_claim.http_status IS 'the HTTP status that means the same: acquired and completed 200, in_progress and retry_later 409, failed 422; of the errors ID003 is 422, and ID006 503';
COMMENT ON COLUMN @extschema@.idem_claim.retry_after IS 'with in_progress and retry_later: seconds after which to ask again, as in the HTTP header Retry-After; with in_progress until the end of the lease, and 60 at most';
COMMENT ON COLUMN @extschema@.idem_claim.progress IS 'if mine is true: what the latest idem_extend with progress has noted, in this run or an earlier one; SQL NULL: nothing';

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
	updated_at pg_catalog.timestamptz,
	holder pg_catalog.text,
	progress pg_catalog.jsonb
);
COMMENT ON TYPE @extschema@.idem_record IS
'a record as it is in DynamoDB, without the token of its owner';
COMMENT ON COLUMN @extschema@.idem_record.key IS 'the key as it was passed';
COMMENT ON COLUMN @extschema@.idem_record.status IS 'IN_PROGRESS, COMMITTING, COMPLETED or FAILED';
COMMENT ON COLUMN @extschema@.idem_record.fence IS 'number of the latest claim; grows with every claim';
COMMENT ON COLUMN @extschema@.idem_record.runs IS 'number of runs counted so far';
COMMENT ON COLUMN @extschema@.idem_record.result IS 'with COMPLETED: the stored result';
COMMENT ON COLUMN @extschema@.idem_record.error IS 'with FAILED: the stored error';
COMMENT ON COLUMN @extschema@.idem_record.lease_until IS 'with IN_PROGRESS: end of the lease, by the clock of DynamoDB';
COMMENT ON COLUMN @extschema@.idem_record.retry_at IS 'with FAILED: the key can be claimed from this time on; NULL: failed for good';
COMMENT ON COLUMN @extschema@.idem_record.expires_at IS 'the record counts as absent from five minutes after this time; NULL with COMMITTING';
COMMENT ON COLUMN @extschema@.idem_record.created_at IS 'time of the first claim';
COMMENT ON COLUMN @extschema@.idem_record.updated_at IS 'time of the latest change';
COMMENT ON COLUMN @extschema@.idem_record.holder IS 'who made the latest claim: the application_name of the session, or the name that another service has written; NULL: not known. It is for people, and decides nothing';
COMMENT ON COLUMN @extschema@.idem_record.progress IS 'unless COMPLETED: what the latest idem_extend with progress has noted; SQL NULL: nothing';

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
	server pg_catalog.text DEFAULT NULL,
	compare pg_catalog.jsonpath[] DEFAULT NULL,
	on_lost pg_catalog.text DEFAULT NULL)
RETURNS @extschema@.idem_claim
LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000000
AS 'MODULE_PATHNAME', 'eo_idem_acquire';
COMMENT ON FUNCTION @extschema@.idem_acquire(pg_catalog.text, pg_catalog.interval, pg_catalog.interval, pg_catalog.jsonb, pg_catalog.interval, pg_catalog.int4, pg_catalog.text, pg_catalog.text, pg_catalog.text, pg_catalog.jsonpath[], pg_catalog.text) IS
'claims a key with one conditional write and returns an outcome, which is never an error. lease: 100 ms to 7 days, default the server''s. retention: how long the key is remembered after it is finished, 1 hour to 3650 days, default the server''s. payload: is fingerprinted; the same key with another payload is error ID003. compare: paths that select the parts of the payload that count, default all of it; a path that selects nothing is an error. wait: how long to wait until another run settles the key, 0 to 1 day; 0A000 above READ COMMITTED. max_runs: a key that has run this often without a result is failed. on_abort: release (default) gives the key back if the transaction is rolled back; hold lets the lease run out instead, for work with an effect outside. on_commit: error (default); keep, which allows a transaction block to commit with the key unsettled; or session, which has the session keep the claim until it ends or settles the key. The lease is extended while the transaction is open, and while the session lives that keeps the claim. on_lost: what happens when an extension finds that the claim was lost: ignore (default) raises ID002 at the next call or at COMMIT; cancel cancels the statement that runs then, or the next one (57014); terminate ends the connection (57P01). Errors: ID003, ID006 (DynamoDB is unavailable, or it is unknown whether the write was applied; call again, nothing is done twice), ID007 (refused by DynamoDB), 22004 (a path of compare is NULL or selects nothing, or there is no payload to select from), 22P05 (completed, with a result whose characters the encoding of the database lacks), 54000 (the key is too long, or there is no room for another claim), 55000 (the worker does not respond; or this transaction has created or altered the extension, the server or its user mapping)';

CREATE FUNCTION @extschema@.idem_start(
	key pg_catalog.text,
	lease pg_catalog.interval DEFAULT NULL,
	retention pg_catalog.interval DEFAULT NULL,
	payload pg_catalog.jsonb DEFAULT NULL,
	wait pg_catalog.interval DEFAULT NULL,
	max_runs pg_catalog.int4 DEFAULT NULL,
	on_abort pg_catalog.text DEFAULT NULL,
	on_commit pg_catalog.text DEFAULT NULL,
	server pg_catalog.text DEFAULT NULL,
	compare pg_catalog.jsonpath[] DEFAULT NULL,
	on_lost pg_catalog.text DEFAULT NULL)
RETURNS pg_catalog.bool
LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000000
AS 'MODULE_PATHNAME', 'eo_idem_start';
COMMENT ON FUNCTION @extschema@.idem_start(pg_catalog.text, pg_catalog.interval, pg_catalog.interval, pg_catalog.jsonb, pg_catalog.interval, pg_catalog.int4, pg_catalog.text, pg_catalog.text, pg_catalog.text, pg_catalog.jsonpath[], pg_catalog.text) IS
'idem_acquire for an IF. Returns true: do the work; false: the work is done already. Errors: ID001 (another run holds the key), ID004 (failed, or not to be retried yet); otherwise those of idem_acquire';

CREATE FUNCTION @extschema@.idem_acquire_many(
	keys pg_catalog.text[],
	lease pg_catalog.interval DEFAULT NULL,
	retention pg_catalog.interval DEFAULT NULL,
	payloads pg_catalog.jsonb[] DEFAULT NULL,
	wait pg_catalog.interval DEFAULT NULL,
	max_runs pg_catalog.int4 DEFAULT NULL,
	on_abort pg_catalog.text DEFAULT NULL,
	on_commit pg_catalog.text DEFAULT NULL,
	server pg_catalog.text DEFAULT NULL,
	compare pg_catalog.jsonpath[] DEFAULT NULL,
	on_lost pg_catalog.text DEFAULT NULL)
RETURNS SETOF @extschema@.idem_claim
LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000000 ROWS 100
AS 'MODULE_PATHNAME', 'eo_idem_acquire_many';
COMMENT ON FUNCTION @extschema@.idem_acquire_many(pg_catalog.text[], pg_catalog.interval, pg_catalog.interval, pg_catalog.jsonb[], pg_catalog.interval, pg_catalog.int4, pg_catalog.text, pg_catalog.text, pg_catalog.text, pg_catalog.jsonpath[], pg_catalog.text) IS
'idem_acquire for each key of an array, with the payload at the same position of payloads if there is one. compare: for all payloads. Returns a row for each key, in the order of the array. Up to parallel_requests requests (a server option) are in flight at a time. If a key is in the array twice and the first one is acquired, the second one is in_progress and mine. wait: for all keys together. At most 10,000 claims in a transaction; exactonce_progress shows the progress of a long call. After an error (ID003, ID006, ID007) the keys claimed so far are given back with the transaction or savepoint. Other errors: 2202E (the arrays differ in length), and those of idem_acquire';

CREATE FUNCTION @extschema@.idem_complete(
	key pg_catalog.text,
	result pg_catalog.jsonb DEFAULT NULL,
	token pg_catalog.uuid DEFAULT NULL,
	immediate pg_catalog.bool DEFAULT false,
	writes pg_catalog.jsonb DEFAULT NULL,
	server pg_catalog.text DEFAULT NULL)
RETURNS pg_catalog.void
LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000000
AS 'MODULE_PATHNAME', 'eo_idem_complete';
COMMENT ON FUNCTION @extschema@.idem_complete(pg_catalog.text, pg_catalog.jsonb, pg_catalog.uuid, pg_catalog.bool, pg_catalog.jsonb, pg_catalog.text) IS
'marks the key completed, with its result, if and only if the transaction commits; duplicates get the result. token: default the token that this transaction or session holds. immediate: completes at once, whether the transaction commits or not. writes: as those of idem_transact, without conditions; DynamoDB makes them when the key is marked completed, once, if and only if the transaction commits, and keys that write to one item in the order in which they were completed; a transaction that has handed in a write to an item keeps others from that until it ends. Errors: 22023 (a write that is malformed, has a condition, or is one that DynamoDB refuses whatever its tables contain; the message has its position), 0A000 (writes, and a table without transactions), 54000 (the result is too large for an item of 400 KB), ID002 (the claim was lost), ID005 (an earlier transaction completed the key with this token, and has committed), ID008 (this session holds no such claim, or has settled it already); at COMMIT, which is then rolled back, ID002 (also for a token that does not own the key), ID005, ID006 (no definite answer within commit_timeout), ID007 and ID008 (this claim has completed the key before, with another result)';

CREATE FUNCTION @extschema@.idem_complete_many(
	keys pg_catalog.text[],
	results pg_catalog.jsonb[] DEFAULT NULL,
	server pg_catalog.text DEFAULT NULL)
RETURNS pg_catalog.int4
LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000000
AS 'MODULE_PATHNAME', 'eo_idem_complete_many';
COMMENT ON FUNCTION @extschema@.idem_complete_many(pg_catalog.text[], pg_catalog.jsonb[], pg_catalog.text) IS
'idem_complete for each key of an array, with the result at the same position of results if there is one. Returns the number of keys, at most 10,000 in a transaction. Errors: 2202E (the arrays differ in length), and those of idem_complete';

CREATE FUNCTION @extschema@.idem_once(
	key pg_catalog.text,
	result pg_catalog.jsonb DEFAULT NULL,
	retention pg_catalog.interval DEFAULT NULL,
	writes pg_catalog.jsonb DEFAULT NULL,
	server pg_catalog.text DEFAULT NULL)
RETURNS pg_catalog.void
LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000000
AS 'MODULE_PATHNAME', 'eo_idem_once';
COMMENT ON FUNCTION @extschema@.idem_once(pg_catalog.text, pg_catalog.jsonb, pg_catalog.interval, pg_catalog.jsonb, pg_catalog.text) IS
'has COMMIT claim and complete the key, with one request: a unique constraint across services. No request is made before. writes: as for idem_complete. Errors at COMMIT, which is then rolled back: ID005 (the key is completed already), ID001 (another run holds it), ID004 (failed and may not be retried), ID006, ID007; at once: ID005 (a transaction of this database has completed it, or this one holds it), 54000, and for writes those of idem_complete';

CREATE FUNCTION @extschema@.idem_transact(
	key pg_catalog.text,
	writes pg_catalog.jsonb,
	result pg_catalog.jsonb DEFAULT NULL,
	payload pg_catalog.jsonb DEFAULT NULL,
	server pg_catalog.text DEFAULT NULL,
	compare pg_catalog.jsonpath[] DEFAULT NULL)
RETURNS @extschema@.idem_claim
LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000000
AS 'MODULE_PATHNAME', 'eo_idem_transact';
COMMENT ON FUNCTION @extschema@.idem_transact(pg_catalog.text, pg_catalog.jsonb, pg_catalog.jsonb, pg_catalog.jsonb, pg_catalog.text, pg_catalog.jsonpath[]) IS
'completes a key together with writes to other DynamoDB tables, in one TransactWriteItems: all of them are done or none is. It takes effect at once, whether the PostgreSQL transaction commits or not. writes: an array of 1 to 99 objects {"Put"|"Update"|"Delete"|"ConditionCheck": {...}} with DynamoDB''s members, 4 MB of items in all, on tables that the server option transact_tables names. Values of Item, Key and ExpressionAttributeValues are plain JSON (string S, number N, boolean BOOL, null NULL, array L, object M) or typed, at any depth. An object is typed if it has exactly one member, which is named S, N, B, BOOL, NULL, SS, NS, BS, L or M and has a value of that type''s kind (string; boolean; array of strings; array; object). Outcome completed: replayed is false if this call did the work (fence and run are then NULL), and true for a duplicate, which gets the stored result and writes nothing; otherwise in_progress, retry_later or failed, as for idem_acquire. The server''s retention applies. payload, compare: as for idem_acquire. Errors: 22023 (a write that is malformed, or that DynamoDB refuses whatever its tables contain; the message has its position), 42501 (a table that transact_tables does not name), HV00J (the server has no transact_tables), 0A000 (a table without transactions), 54000 (too many or too large writes), ID003, ID006 (DynamoDB is unavailable, or it is unknown whether the writes were applied; call again, nothing is done twice), ID007 (refused; DETAIL says which write and why; nothing was written), ID008 (this transaction or session holds the key)';

CREATE FUNCTION @extschema@.idem_call(
	key pg_catalog.text,
	handler pg_catalog.regprocedure,
	payload pg_catalog.jsonb DEFAULT NULL,
	lease pg_catalog.interval DEFAULT NULL,
	retention pg_catalog.interval DEFAULT NULL,
	wait pg_catalog.interval DEFAULT NULL,
	max_runs pg_catalog.int4 DEFAULT NULL,
	on_error pg_catalog.text DEFAULT NULL,
	server pg_catalog.text DEFAULT NULL,
	compare pg_catalog.jsonpath[] DEFAULT NULL)
RETURNS pg_catalog.jsonb
LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000000
AS 'MODULE_PATHNAME', 'eo_idem_call';
COMMENT ON FUNCTION @extschema@.idem_call(pg_catalog.text, pg_catalog.regprocedure, pg_catalog.jsonb, pg_catalog.interval, pg_catalog.interval, pg_catalog.interval, pg_catalog.int4, pg_catalog.text, pg_catalog.text, pg_catalog.jsonpath[]) IS
'runs handler(payload) once for the key and returns its result; a duplicate returns the stored result. handler: a function with one jsonb argument that returns jsonb. The key is completed if and only if the transaction commits. If the handler raises an error, its work is rolled back and the key fails with the error''s SQLSTATE, message, detail and context; it may be retried. A result that is too large for a record is such an error (54000), but the key fails for good. The record keeps the handler''s name, and the same key with another handler is error ID003, whatever has become of it, until idem_forget frees the key; an idem_call for a key that was claimed without a handler takes any. compare: as for idem_acquire; the handler gets the whole payload. on_error: with raise (default) the error is raised again; with return the result is NULL and the transaction can go on. Cancels, 40001, 40P01, 55P03, ID001 and ID006 are not failures of the work: they count no run and are always raised. Nor are errors of the machine (53100, 53200, class 08, 57P0x), ten times in a row; the next one counts. Errors: ID001 (another run holds the key), ID003 (another payload, or another handler), ID004 (failed for good, no runs left, or not to be retried yet), ID006, ID007, 42P13 (not such a function)';

CREATE FUNCTION @extschema@.idem_http(
	handler pg_catalog.regprocedure,
	payload pg_catalog.jsonb DEFAULT NULL,
	lease pg_catalog.interval DEFAULT NULL,
	retention pg_catalog.interval DEFAULT NULL,
	wait pg_catalog.interval DEFAULT NULL,
	max_runs pg_catalog.int4 DEFAULT NULL,
	server pg_catalog.text DEFAULT NULL,
	user_claim pg_catalog.text DEFAULT NULL,
	compare pg_catalog.jsonpath[] DEFAULT NULL)
RETURNS pg_catalog.jsonb
LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000000
AS 'MODULE_PATHNAME', 'eo_idem_http';
COMMENT ON FUNCTION @extschema@.idem_http(pg_catalog.regprocedure, pg_catalog.jsonb, pg_catalog.interval, pg_catalog.interval, pg_catalog.interval, pg_catalog.int4, pg_catalog.text, pg_catalog.text, pg_catalog.jsonpath[]) IS
'idem_call for a request that PostgREST passes on: the key is the header Idempotency-Key in the setting request.headers, and belongs to the handler, the role, and the user, whom the claim user_claim (sub) in request.jwt.claims names. Returns the handler''s result; for a duplicate the stored one, with the response header Idempotency-Replayed; otherwise an object with type, title and status (RFC 9457), and sets response.status and response.headers: 400 without a key, 409 with Retry-After (in progress, or not to be repeated yet), 422 (another payload under this key, or failed for good), 503 with Retry-After (DynamoDB is unavailable; nothing is done twice). An error of the handler is raised, and recorded as by idem_call. Other arguments as idem_call. Errors: ID007, 22023 (a token without the claim, unless it has a role and nothing else, or with one that is neither a string, a number nor a boolean), 42P13 (not such a function)';

CREATE FUNCTION @extschema@.idem_guard()
RETURNS pg_catalog.trigger
LANGUAGE C VOLATILE
AS 'MODULE_PATHNAME', 'eo_idem_guard';
COMMENT ON FUNCTION @extschema@.idem_guard() IS
'trigger function: a unique constraint across services. Arguments: the columns that make the key (a single column of type text, varchar, uuid or an integer type is used as it is, otherwise as by idem_key); prefix=; on_duplicate=error (AFTER INSERT, default; AFTER UPDATE OF the key columns claims the new key, and the old one stays claimed) or skip (BEFORE INSERT; not on partitions); at=now (default) or commit (COMMIT claims all keys of the transaction in parallel); retention= (an interval; default the server''s; after it a key may be used again, whatever the table holds); server= (default exactonce; the setting exactonce.server is ignored). The key is completed with the row''s transaction. Errors: 23505 (a duplicate; with table and trigger as table and constraint name), ID001 (another run holds the key), 22004 (a key column is null), 0A000 (a column whose collation is nondeterministic: keys are compared byte by byte), 39P01 (the trigger is defined wrongly). The function uses the server with the rights of the table''s owner and is therefore not granted to PUBLIC: a role that may create triggers on a table and execute this function can claim keys in the owner''s name';

CREATE FUNCTION @extschema@.idem_write(writes pg_catalog.jsonb)
RETURNS pg_catalog.void
LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000000
AS 'MODULE_PATHNAME', 'eo_idem_write';
COMMENT ON FUNCTION @extschema@.idem_write(pg_catalog.jsonb) IS
'within a handler of idem_call: adds writes to the key at hand, as the argument writes of idem_complete. If the work of the handler is rolled back, so are the writes that it has added. Errors: 55000 (no handler runs), 22004, and those of idem_complete for writes';

CREATE FUNCTION @extschema@.idem_mirror()
RETURNS pg_catalog.trigger
LANGUAGE C VOLATILE
AS 'MODULE_PATHNAME', 'eo_idem_mirror';
COMMENT ON FUNCTION @extschema@.idem_mirror() IS
'trigger function, AFTER INSERT OR UPDATE OR DELETE, FOR EACH ROW: copies the row to a DynamoDB table when its transaction has committed, once and in order. Arguments: the table, which the server option transact_tables names; the columns that make the key of its items, one or two, with commas between them; the columns that are copied, default * (all); server=. An attribute has the name of its column. Numbers are N, boolean BOOL, bytea B, json and jsonb maps, lists and plain values, date and timestamps ISO 8601 in UTC, and everything else is the text of its type as S, in UTC and whatever the settings of the session are, with names that are qualified by their schemas; a NULL is left out. A later change of a row in the same transaction replaces an earlier one. The rights of the table''s owner on the server apply. Errors: 39P01 (wrong definition), 42703, 22004 (a NULL in the key), 22003 (a number of more than 38 digits), those of idem_complete for writes; at COMMIT those of idem_once';

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
'records that the run failed. error: is stored, and shown to every caller that asks. retry_after: the key may be claimed again after this time, 0 to 3650 days, default at once; terminal: never. Within a transaction the failure takes effect when the transaction is over, whether it committed or not, because until then no other run may begin. It takes effect at once with immediate, and outside a transaction block for a claim from before. Errors: 22023 (retry_after together with terminal), 54000 (the error is too large), ID002, ID006, ID007, ID008';

CREATE FUNCTION @extschema@.idem_release(
	key pg_catalog.text,
	token pg_catalog.uuid DEFAULT NULL,
	server pg_catalog.text DEFAULT NULL)
RETURNS pg_catalog.bool
LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000000
AS 'MODULE_PATHNAME', 'eo_idem_release';
COMMENT ON FUNCTION @extschema@.idem_release(pg_catalog.text, pg_catalog.uuid, pg_catalog.text) IS
'gives a claimed key back: it can be claimed at once, and the run is not counted. False: this session holds no claim on it. Within a transaction it takes effect when the transaction is over, whether it committed or not. Errors: ID006, ID007, ID008 (this transaction has completed the key)';

CREATE FUNCTION @extschema@.idem_extend(
	key pg_catalog.text,
	lease pg_catalog.interval DEFAULT NULL,
	token pg_catalog.uuid DEFAULT NULL,
	server pg_catalog.text DEFAULT NULL,
	progress pg_catalog.jsonb DEFAULT NULL)
RETURNS pg_catalog.timestamptz
LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000000
AS 'MODULE_PATHNAME', 'eo_idem_extend';
COMMENT ON FUNCTION @extschema@.idem_extend(pg_catalog.text, pg_catalog.interval, pg_catalog.uuid, pg_catalog.text, pg_catalog.jsonb) IS
'moves the end of the lease to now plus lease (100 ms to 7 days, default the server''s), but never to an earlier time, and returns the end, by the clock of DynamoDB. progress: is for effects outside the database, and a rollback does not undo it. It is written at once, in place of what was noted before, and every later run gets it with its claim, until the key is completed or forgotten; at most 32 KB as text; SQL NULL leaves what there is. Errors: ID002 (the claim was lost), ID006, ID007, ID008 (this session holds no such claim, or this transaction has settled it), 54000 (the progress is too large), 55000 (there is progress that was not seen under this token in this session: read it, and note both)';

CREATE FUNCTION @extschema@.idem_get(
	key pg_catalog.text,
	server pg_catalog.text DEFAULT NULL)
RETURNS @extschema@.idem_record
LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000000
AS 'MODULE_PATHNAME', 'eo_idem_get';
COMMENT ON FUNCTION @extschema@.idem_get(pg_catalog.text, pg_catalog.text) IS
'reads the record of a key with one consistent read; NULL: there is no live record. Within a transaction it shows what the transaction itself has done to the key. Errors: ID006, ID007';

CREATE FUNCTION @extschema@.idem_list(
	status pg_catalog.text DEFAULT NULL,
	prefix pg_catalog.text DEFAULT NULL,
	older_than pg_catalog.interval DEFAULT NULL,
	units_per_second pg_catalog.int4 DEFAULT NULL,
	results pg_catalog.bool DEFAULT false,
	server pg_catalog.text DEFAULT NULL)
RETURNS SETOF @extschema@.idem_record
LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000000 ROWS 1000
AS 'MODULE_PATHNAME', 'eo_idem_list';
COMMENT ON FUNCTION @extschema@.idem_list(pg_catalog.text, pg_catalog.text, pg_catalog.interval, pg_catalog.int4, pg_catalog.bool, pg_catalog.text) IS
'for operators: scans the server''s table and returns the records of its keys, in no order. status: all (default), in_progress, committing, completed, failed, stuck (in progress, and the lease is over) or parked (failed for good). prefix: of the key. older_than: time since the latest change. units_per_second: read capacity that the scan may use, default 500; it reads each item of the table once, whatever is asked for. results: with true the results and progress come, too; errors always do. It needs the permission dynamodb:Scan, can be cancelled at any moment, and exactonce_progress shows how far it is. Keys are shown as they are, also with exactonce.log_keys = hash. A warning says how many items cannot be read, because they are too long or no records, and are not listed. Errors: 22023, ID006, ID007';

CREATE FUNCTION @extschema@.idem_sweep(
	units_per_second pg_catalog.int4 DEFAULT NULL,
	older_than pg_catalog.interval DEFAULT NULL,
	server pg_catalog.text DEFAULT NULL)
RETURNS pg_catalog.int8
LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000000
AS 'MODULE_PATHNAME', 'eo_idem_sweep';
COMMENT ON FUNCTION @extschema@.idem_sweep(pg_catalog.int4, pg_catalog.interval, pg_catalog.text) IS
'for operators: deletes what is past its ttl, for tables of which DynamoDB has no time to live, and returns how many items it has deleted. It scans the server''s table, and deletes the records of keys that are completed or failed, actions that have ended, and lives that are over, each if it is still as it was read. units_per_second: read and write capacity that it may use, default 500. older_than: time since the ttl, at least an hour, which is the default. What is left alone: records in progress or being committed, those whose fence is not below the clock, items without a ttl that can be read, those of other prefixes, and what other clients have written. It takes effect at once, needs the permissions dynamodb:Scan and dynamodb:DeleteItem, can be cancelled at any moment and run twice at once, and exactonce_progress shows how far it is. Errors: 22023, ID006, ID007';

CREATE FUNCTION @extschema@.idem_forget(
	key pg_catalog.text,
	server pg_catalog.text DEFAULT NULL)
RETURNS pg_catalog.bool
LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000000
AS 'MODULE_PATHNAME', 'eo_idem_forget';
COMMENT ON FUNCTION @extschema@.idem_forget(pg_catalog.text, pg_catalog.text) IS
'for operators: makes a key claimable as if it were new, with no runs counted and no result. A run in progress loses its claim. It waits up to two seconds for a completion of the key that is pending; what idem_give_up has left of one goes, too, by whatever address of the table the key was completed, unless its record is COMMITTING there. If the table does not exist, a claim that has ended and waits for it is given up. False: there is no record. Errors: ID001 (a transaction is committing the key, or its completion is still pending: nothing has changed), 55000 (what idem_give_up has left must stay), ID006, ID007';

CREATE FUNCTION @extschema@.idem_resolve(
	key pg_catalog.text,
	status pg_catalog.text,
	origin pg_catalog.uuid DEFAULT NULL,
	server pg_catalog.text DEFAULT NULL)
RETURNS pg_catalog.bool
LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000000
AS 'MODULE_PATHNAME', 'eo_idem_resolve';
COMMENT ON FUNCTION @extschema@.idem_resolve(pg_catalog.text, pg_catalog.text, pg_catalog.uuid, pg_catalog.text) IS
'for operators: settles a key that was sealed, if this database cannot tell whether the transaction committed. status: completed (the work was done) or failed (it was not; the key can be claimed again). Where PostgreSQL knows the answer, the other one is refused (55000; 55006 while the transaction is going on). origin: the life under which the key was sealed (exactonce_lives), required if that is none of this database or goes on; its server must be gone for good. With completed it also gives up a completion of exactonce_pending whose record is not sealed any more, and writes that DynamoDB has refused, or has not accepted for three minutes. False: there was nothing to settle. Errors: 22004, 22023, 55000, 55006, ID006, ID007';

CREATE FUNCTION @extschema@.idem_give_up(
	pending_id pg_catalog.uuid)
RETURNS pg_catalog.bool
LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000000
AS 'MODULE_PATHNAME', 'eo_idem_give_up';
COMMENT ON FUNCTION @extschema@.idem_give_up(pg_catalog.uuid) IS
'for operators: gives up the row of exactonce_pending that has this id: its record is not marked completed, and its writes are not made. A NOTICE says what that was, and what others see from now on. The row goes, or if its record may still be sealed it stays out of sight as evidence of the commit: the key still counts as completed here, for others it is being committed, and idem_resolve(key, ''completed'') ends that. Refused (55000) while the worker may still write it: until it has failed for three minutes, unless its record shows something else or is not there, its table or server is gone, or DynamoDB refuses it for good. False: there is no such row. Errors: 22004, 55000, ID006, ID007';

CREATE FUNCTION @extschema@.idem_take_over(
	life pg_catalog.uuid,
	server pg_catalog.text DEFAULT NULL)
RETURNS pg_catalog.bool
LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000000
AS 'MODULE_PATHNAME', 'eo_idem_take_over';
COMMENT ON FUNCTION @extschema@.idem_take_over(pg_catalog.uuid, pg_catalog.text) IS
'for operators: has this database inherit a life that is silent, or that another life has retired, in the table of a server: what it has sealed is settled by this data. Only for a life whose server is gone for good. Takes half a minute. True: it is inherited, and the worker settles what it has left. False: it was closed, or is inherited already. Errors: 22004, 22023 (it is none of this database), 55000 (the worker cannot take note of it yet, and why), 55006 (it is extended by somebody), ID006, ID007';

CREATE FUNCTION @extschema@.idem_lift(
	server pg_catalog.text DEFAULT NULL)
RETURNS pg_catalog.bool
LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000000
AS 'MODULE_PATHNAME', 'eo_idem_lift';
COMMENT ON FUNCTION @extschema@.idem_lift(pg_catalog.text) IS
'for operators: if this database''s life is barred in the table of a server (exactonce_lives), the next claim there begins another one, at the price of the commits with keys that are under way. In any case the budget of lives of the server''s owner begins anew, as on a new day. True: it was barred. Errors: those of the server''s options';

CREATE FUNCTION @extschema@.idem_drain(
	timeout pg_catalog.interval DEFAULT '1 min')
RETURNS pg_catalog.int4
LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000000
AS 'MODULE_PATHNAME', 'eo_idem_drain';
COMMENT ON FUNCTION @extschema@.idem_drain(pg_catalog.interval) IS
'for operators, before a switchover, pg_upgrade or DROP DATABASE: bars new claims of this database and waits until its claims and completions are settled and its life is closed. 0: nothing is left, and new claims are refused (55000) until the server is restarted or idem_drain(NULL) allows them again. Another number: so much is left after the timeout, and new claims are allowed again, unless another session drains the database. Errors: 22023, 54000 (too many other databases are in use), 55000, 55006 (this transaction has claims, or mirrored rows)';

CREATE FUNCTION @extschema@.idem_audit(
	server pg_catalog.text DEFAULT NULL,
	units_per_second pg_catalog.int4 DEFAULT NULL,
	OUT key pg_catalog.text,
	OUT finding pg_catalog.text,
	OUT status pg_catalog.text,
	OUT life pg_catalog.uuid,
	OUT xid pg_catalog.xid8,
	OUT timeline pg_catalog.int8,
	OUT lsn pg_catalog.pg_lsn,
	OUT updated_at pg_catalog.timestamptz,
	OUT pending pg_catalog.uuid,
	OUT detail pg_catalog.text,
	OUT advice pg_catalog.text)
RETURNS SETOF pg_catalog.record
LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000000
AS 'MODULE_PATHNAME', 'eo_idem_audit';
COMMENT ON FUNCTION @extschema@.idem_audit(pg_catalog.text, pg_catalog.int4) IS
'for operators, after a failover to a standby that nothing waited for, or a recovery to an earlier point in time: scans the server''s table, compares the completed keys of this database with its commit log, and returns a row for each that does not match: finding, the record''s status, the transaction that completed it (life, xid, timeline, lsn), and advice. finding: lost (completed; the transaction is not in this data), elsewhere (the same, or being committed, under a life that is not over: see idem_take_over), unknown (the commit log does not go back that far), in doubt (see idem_resolve), no record and settled twice (this data has completed the key, and its record is gone or is not by that transaction; pending names the row of exactonce_pending), not judged (rows without a key: the number of records whose lives nobody knows any more, or are those of the database that this one comes from, or that cannot be read). It writes nothing and shows no results. units_per_second: read capacity to use, 1 to 1000000, default 500; exactonce_progress shows how far it is. Needs dynamodb:Scan. Errors: 22023, 25006 (on a standby), ID006, ID007';

/* ---- the commit protocol ---- */

CREATE TABLE exactonce_internal.lives (
	id pg_catalog.uuid PRIMARY KEY,
	parent pg_catalog.uuid,
	number pg_catalog.int8 NOT NULL,
	system_identifier pg_catalog.int8 NOT NULL,
	dboid pg_catalog.oid NOT NULL,
	run pg_catalog.uuid,
	timeline pg_catalog.int8 NOT NULL,
	xid_floor pg_catalog.xid8 NOT NULL,
	xid_start pg_catalog.xid8 NOT NULL,
	beat pg_catalog.int8 NOT NULL,
	started_at pg_catalog.timestamptz NOT NULL,
	written_by pg_catalog.xid8 NOT NULL
);
COMMENT ON TABLE exactonce_internal.lives IS
'the identities under which this data has sealed records: a row for each, kept by the worker; rows of others came with a copy or by replication and are ignored';
COMMENT ON COLUMN exactonce_internal.lives.id IS 'random; it is the origin of the records that are claimed and sealed under this life';
COMMENT ON COLUMN exactonce_internal.lives.parent IS 'the life before it in this data; NULL: it is the first';
COMMENT ON COLUMN exactonce_internal.lives.number IS 'counts the lives of this data; 0: inserted by CREATE EXTENSION';
COMMENT ON COLUMN exactonce_internal.lives.system_identifier IS 'of the cluster, see pg_control_system()';
COMMENT ON COLUMN exactonce_internal.lives.dboid IS 'OID of the database';
COMMENT ON COLUMN exactonce_internal.lives.run IS 'the start of the server, a random number';
COMMENT ON COLUMN exactonce_internal.lives.timeline IS 'timeline of the WAL when the life began';
COMMENT ON COLUMN exactonce_internal.lives.xid_floor IS 'no start of the server since the one of the life before has given out a transaction id below this one';
COMMENT ON COLUMN exactonce_internal.lives.xid_start IS 'the next transaction id when the first of these starts had recovered: ids from here on are of that start or later';
COMMENT ON COLUMN exactonce_internal.lives.beat IS 'how often the life had been extended when that was last noted here, about once a minute';
COMMENT ON COLUMN exactonce_internal.lives.started_at IS 'when the life began';
COMMENT ON COLUMN exactonce_internal.lives.written_by IS 'id of the transaction that wrote this row';
INSERT INTO exactonce_internal.lives
	SELECT pg_catalog.gen_random_uuid(), NULL, 0, c.system_identifier, d.oid, NULL, 0,
		pg_catalog.pg_current_xact_id(), pg_catalog.pg_current_xact_id(), 0, pg_catalog.now(), pg_catalog.pg_current_xact_id()
	FROM pg_catalog.pg_control_system() c, pg_catalog.pg_database d
	WHERE d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database();

CREATE TABLE exactonce_internal.outbox (
	system_identifier pg_catalog.int8 NOT NULL,
	dboid pg_catalog.oid NOT NULL,
	digest pg_catalog.bytea NOT NULL,
	token pg_catalog.uuid NOT NULL,
	server pg_catalog.oid NOT NULL,
	role pg_catalog.oid NOT NULL,
	url pg_catalog.text NOT NULL,
	plain_http pg_catalog.bool NOT NULL,
	region pg_catalog.text NOT NULL,
	dynamodb_table pg_catalog.text NOT NULL,
	layout pg_catalog.text NOT NULL,
	pk pg_catalog.text NOT NULL,
	retention_s pg_catalog.int8 NOT NULL,
	xid pg_catalog.xid8 NOT NULL,
	created_at pg_catalog.timestamptz NOT NULL,
	given_up pg_catalog.bool NOT NULL,
	life pg_catalog.uuid NOT NULL,
	key_prefix pg_catalog.text NOT NULL,
	writes pg_catalog.int4,
	write_number pg_catalog.int8,
	write_items pg_catalog.text,
	write_body pg_catalog.bytea,
	trouble pg_catalog.int2 NOT NULL,
	attempts pg_catalog.int4 NOT NULL,
	failing_since pg_catalog.timestamptz,
	reason pg_catalog.text,
	reason_item pg_catalog.int4,
	PRIMARY KEY (system_identifier, dboid, digest),
	CONSTRAINT outbox_claim UNIQUE (system_identifier, dboid, token)
);
CREATE INDEX outbox_key ON exactonce_internal.outbox (system_identifier, dboid, pk COLLATE "C");
COMMENT ON TABLE exactonce_internal.outbox IS
'completions: if a row is visible, its transaction has committed and its key is completed. A row is kept until DynamoDB has confirmed that. Rows must never be changed by hand';
COMMENT ON COLUMN exactonce_internal.outbox.system_identifier IS 'of the cluster (pg_control_system()) in which the key was completed';
COMMENT ON COLUMN exactonce_internal.outbox.dboid IS 'OID of the database in which the key was completed; rows of others came with a copy, and are ignored';
COMMENT ON COLUMN exactonce_internal.outbox.digest IS 'SHA-256 of endpoint, region, table and partition key, as the key was completed';
COMMENT ON COLUMN exactonce_internal.outbox.token IS 'token of the claim: by it a row is found, however its table is reached';
COMMENT ON COLUMN exactonce_internal.outbox.server IS 'OID of the foreign server through which the key was completed';
COMMENT ON COLUMN exactonce_internal.outbox.role IS 'OID of the role whose user mapping is used';
COMMENT ON COLUMN exactonce_internal.outbox.url IS 'endpoint of DynamoDB when the key was completed';
COMMENT ON COLUMN exactonce_internal.outbox.plain_http IS 'true if the url is http and that was allowed';
COMMENT ON COLUMN exactonce_internal.outbox.region IS 'AWS region';
COMMENT ON COLUMN exactonce_internal.outbox.dynamodb_table IS 'name of the DynamoDB table';
COMMENT ON COLUMN exactonce_internal.outbox.layout IS 'layout of the record, a value of the server option';
COMMENT ON COLUMN exactonce_internal.outbox.pk IS 'partition key of the record';
COMMENT ON COLUMN exactonce_internal.outbox.retention_s IS 'how long the key is remembered from its completion, in seconds, if its record does not say';
COMMENT ON COLUMN exactonce_internal.outbox.xid IS 'id of the transaction';
COMMENT ON COLUMN exactonce_internal.outbox.created_at IS 'time at which idem_complete was called';
COMMENT ON COLUMN exactonce_internal.outbox.key_prefix IS 'key prefix of the server, a part of pk';
COMMENT ON COLUMN exactonce_internal.outbox.life IS 'the life under which the transaction committed, see lives';
COMMENT ON COLUMN exactonce_internal.outbox.writes IS 'how many writes to other items are made together with the completion; NULL: none';
COMMENT ON COLUMN exactonce_internal.outbox.write_number IS 'of two rows that write to one item the one with the lesser number is first';
COMMENT ON COLUMN exactonce_internal.outbox.write_items IS 'the items that are written, a line for each: tenant (OID of the server''s owner, or of the server with home false; 0: superusers), region, table and key';
COMMENT ON COLUMN exactonce_internal.outbox.write_body IS 'the writes as DynamoDB takes them, in UTF-8';
COMMENT ON COLUMN exactonce_internal.outbox.trouble IS '0: the worker has not failed on the row; 1: it has; 2: for minutes; 3: it is not written before somebody removes the cause';
COMMENT ON COLUMN exactonce_internal.outbox.attempts IS 'how often the worker has failed on the row, when that was last noted';
COMMENT ON COLUMN exactonce_internal.outbox.failing_since IS 'when the first failure was noted';
COMMENT ON COLUMN exactonce_internal.outbox.reason IS 'how it failed, when that was last noted; no values of keys, results or writes';
COMMENT ON COLUMN exactonce_internal.outbox.reason_item IS 'which of the writes DynamoDB refuses, from 1; NULL: none alone, or not known';
COMMENT ON COLUMN exactonce_internal.outbox.given_up IS 'an operator gave the row up while its record could still be COMMITTING: the worker leaves it alone, and it still says that its transaction committed';

CREATE TABLE exactonce_internal.targets (
	url pg_catalog.text NOT NULL,
	plain_http pg_catalog.bool NOT NULL,
	region pg_catalog.text NOT NULL,
	dynamodb_table pg_catalog.text NOT NULL,
	layout pg_catalog.text NOT NULL,
	first_used pg_catalog.timestamptz NOT NULL,
	tenant pg_catalog.oid NOT NULL
);
CREATE INDEX targets_layout ON exactonce_internal.targets (url COLLATE "C", region COLLATE "C", dynamodb_table COLLATE "C",
	layout COLLATE "C");
COMMENT ON TABLE exactonce_internal.targets IS
'the DynamoDB tables that servers of this database have or have had: the worker sends requests to no other';
COMMENT ON COLUMN exactonce_internal.targets.url IS 'endpoint of DynamoDB';
COMMENT ON COLUMN exactonce_internal.targets.plain_http IS 'true if the url is http and that was allowed';
COMMENT ON COLUMN exactonce_internal.targets.region IS 'AWS region';
COMMENT ON COLUMN exactonce_internal.targets.dynamodb_table IS 'name of the DynamoDB table';
COMMENT ON COLUMN exactonce_internal.targets.layout IS 'layout of the records, a value of the server option';
COMMENT ON COLUMN exactonce_internal.targets.first_used IS 'time at which a key was first completed there';
COMMENT ON COLUMN exactonce_internal.targets.tenant IS 'who owned the server then; 0: a superuser; of a server with the option home ''false'' that a superuser owns it is the OID of the server';

CREATE FUNCTION exactonce_internal.lives_of_cluster(
	OUT database pg_catalog.oid,
	OUT life pg_catalog.uuid,
	OUT dynamodb_table pg_catalog.text,
	OUT key_prefix pg_catalog.text,
	OUT state pg_catalog.text,
	OUT beat pg_catalog.int8,
	OUT since pg_catalog.timestamptz,
	OUT scanned pg_catalog.int8,
	OUT refused pg_catalog.text,
	OUT barred_since pg_catalog.timestamptz,
	OUT barred_why pg_catalog.text)
RETURNS SETOF pg_catalog.record
LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'eo_lives_of_cluster';
COMMENT ON FUNCTION exactonce_internal.lives_of_cluster() IS
'the lives of the whole cluster that go on, and those that its workers look at, one row for each table; the view exactonce_lives is made of it';

CREATE VIEW @extschema@.exactonce_lives AS
	SELECT COALESCE(l.id, p.life) AS life, l.number, l.started_at, l.timeline,
		p.dynamodb_table, p.key_prefix,
		COALESCE(p.state, 'over') AS state, p.beat, l.beat AS noted_beat, p.since, p.scanned,
		p.refused, p.barred_since, p.barred_why
	FROM (SELECT i.* FROM exactonce_internal.lives i
		JOIN pg_catalog.pg_control_system() c ON c.system_identifier OPERATOR(pg_catalog.=) i.system_identifier
		JOIN pg_catalog.pg_database d ON d.oid OPERATOR(pg_catalog.=) i.dboid
			AND d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database()
		WHERE i.number OPERATOR(pg_catalog.>) 0) l
	FULL JOIN (SELECT q.* FROM exactonce_internal.lives_of_cluster() q
		JOIN pg_catalog.pg_database d ON d.oid OPERATOR(pg_catalog.=) q.database
			AND d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database()) p
		ON p.life OPERATOR(pg_catalog.=) l.id;
COMMENT ON VIEW @extschema@.exactonce_lives IS
'the identities under which this database has sealed records, and for those that matter now the tables they use: one row for each life and table';
COMMENT ON COLUMN @extschema@.exactonce_lives.life IS 'the life; it is the origin of the records that are claimed and sealed under it';
COMMENT ON COLUMN @extschema@.exactonce_lives.number IS 'counts the lives of this data; NULL: it is none of them';
COMMENT ON COLUMN @extschema@.exactonce_lives.started_at IS 'when it began';
COMMENT ON COLUMN @extschema@.exactonce_lives.timeline IS 'timeline of the WAL then';
COMMENT ON COLUMN @extschema@.exactonce_lives.dynamodb_table IS 'name of the DynamoDB table; NULL: none is of interest';
COMMENT ON COLUMN @extschema@.exactonce_lives.key_prefix IS 'key prefix of the server';
COMMENT ON COLUMN @extschema@.exactonce_lives.state IS 'opening, open (this database''s own, going on), barred (its own, lost in the table of a tenant); alive (somebody else extends it), silent (nobody does, for not long enough), waits for idem_take_over() (silent; exactonce.takeover leaves it to an operator), has another heir, not reached, settled here; over';
COMMENT ON COLUMN @extschema@.exactonce_lives.beat IS 'how often it was extended, as far as is known';
COMMENT ON COLUMN @extschema@.exactonce_lives.noted_beat IS 'the same when it was last noted in this data';
COMMENT ON COLUMN @extschema@.exactonce_lives.scanned IS 'items of the table that were looked at so far for what the life has left; NULL: no scan goes on';
COMMENT ON COLUMN @extschema@.exactonce_lives.refused IS 'roles whose credentials were refused in the table when they were tried last, and why; the worker goes by those of others as long as it finds any';
COMMENT ON COLUMN @extschema@.exactonce_lives.barred_since IS 'when the life was lost in that table, which is a tenant''s; it goes on in the others';
COMMENT ON COLUMN @extschema@.exactonce_lives.barred_why IS 'what has become of its item there';
COMMENT ON COLUMN @extschema@.exactonce_lives.since IS 'open: when the last confirmed extension was sent; else when its item was first seen as it is';

CREATE FUNCTION exactonce_internal.claims_of_cluster(
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
AS 'MODULE_PATHNAME', 'eo_claims_of_cluster';
COMMENT ON FUNCTION exactonce_internal.claims_of_cluster() IS
'the claim table of the whole cluster, one row for each slot in use; the views exactonce_claims and exactonce_in_doubt are made of it';

CREATE FUNCTION exactonce_internal.key_of_record(pk pg_catalog.text, server pg_catalog.oid)
RETURNS pg_catalog.text
LANGUAGE C STABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'eo_key_of_record';
COMMENT ON FUNCTION exactonce_internal.key_of_record(pg_catalog.text, pg_catalog.oid) IS
'for the view exactonce_pending: the key of a record as the functions take it, without the key_prefix of its server; with exactonce.log_keys = hash, its hash';

CREATE VIEW @extschema@.exactonce_claims AS
	SELECT d.datname AS database, s.srvname AS server, r.rolname AS role, c.dynamodb_table,
		c.key, c.state, c.pid, c.since, c.lease_until, c.run, c.fence, a.application_name,
		p.gid, p.prepared AS prepared_at
	FROM exactonce_internal.claims_of_cluster() c
	LEFT JOIN pg_catalog.pg_database d ON d.oid OPERATOR(pg_catalog.=) c.database
	LEFT JOIN pg_catalog.pg_foreign_server s ON s.oid OPERATOR(pg_catalog.=) c.server
		AND d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database()
	LEFT JOIN pg_catalog.pg_roles r ON r.oid OPERATOR(pg_catalog.=) c.role
	LEFT JOIN pg_catalog.pg_stat_get_activity(NULL) a ON a.pid OPERATOR(pg_catalog.=) c.pid
		AND a.backend_start OPERATOR(pg_catalog.<=) c.since
	LEFT JOIN pg_catalog.pg_prepared_xact() p ON c.state OPERATOR(pg_catalog.=) 'prepared'
		AND p.dbid OPERATOR(pg_catalog.=) c.database
		AND p.transaction OPERATOR(pg_catalog.=) pg_catalog.xid(c.xid::pg_catalog.text::pg_catalog.xid8);
COMMENT ON VIEW @extschema@.exactonce_claims IS
'keys that transactions and sessions of this cluster hold, or have left for the worker to settle. A claim that has outlived its transaction, as on_commit => keep and statements outside a block have it, is in its record only: see idem_get and idem_list';
COMMENT ON COLUMN @extschema@.exactonce_claims.database IS 'database of the claim';
COMMENT ON COLUMN @extschema@.exactonce_claims.server IS 'name of the foreign server; NULL for claims of other databases, and if it was dropped';
COMMENT ON COLUMN @extschema@.exactonce_claims.role IS 'name of the role that made the claim; NULL if it was dropped';
COMMENT ON COLUMN @extschema@.exactonce_claims.dynamodb_table IS 'name of the DynamoDB table';
COMMENT ON COLUMN @extschema@.exactonce_claims.key IS 'the key, without the key_prefix of its server, and for claims of other databases with it; with exactonce.log_keys = hash, the hash of that';
COMMENT ON COLUMN @extschema@.exactonce_claims.state IS 'planned (idem_once before the commit), asking (a request is in flight), held, settled (failed or released; takes effect when the transaction is over), lost (another run has taken the key over), committing, prepared (PREPARE TRANSACTION has sealed or settled the key; it waits for COMMIT PREPARED or ROLLBACK PREPARED), ending (the transaction is over; the worker settles the key), no server (the transaction is over, and no server of this database leads to the table: the key waits until one does, or, if it was not sealed, until its lease is over), second look (over; remembered because a late request may still arrive), in doubt, session (the claim lasts as long as its session: on_commit => session)';
COMMENT ON COLUMN @extschema@.exactonce_claims.pid IS 'process that made the claim; NULL if an earlier life of the server left it, if its transaction is prepared, and for keys found in doubt';
COMMENT ON COLUMN @extschema@.exactonce_claims.since IS 'time at which the claim was begun; NULL if pid is NULL';
COMMENT ON COLUMN @extschema@.exactonce_claims.lease_until IS 'end of the lease, by the clock of DynamoDB; NULL if the key is not acquired yet, or is being committed';
COMMENT ON COLUMN @extschema@.exactonce_claims.run IS 'number of the run, from 1; NULL if not known';
COMMENT ON COLUMN @extschema@.exactonce_claims.fence IS 'number of the claim; NULL if not known';
COMMENT ON COLUMN @extschema@.exactonce_claims.application_name IS 'application_name of the session that made the claim; NULL: it has ended';
COMMENT ON COLUMN @extschema@.exactonce_claims.gid IS 'prepared: the global transaction identifier, for COMMIT PREPARED and ROLLBACK PREPARED in the database of the claim; else NULL';
COMMENT ON COLUMN @extschema@.exactonce_claims.prepared_at IS 'prepared: when the transaction was prepared; else NULL';

CREATE FUNCTION exactonce_internal.waits_for(
	xid pg_catalog.xid8,
	life pg_catalog.uuid,
	url pg_catalog.text,
	region pg_catalog.text,
	dynamodb_table pg_catalog.text,
	key_prefix pg_catalog.text)
RETURNS pg_catalog.text
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'eo_waits_for';
COMMENT ON FUNCTION exactonce_internal.waits_for(pg_catalog.xid8, pg_catalog.uuid, pg_catalog.text, pg_catalog.text, pg_catalog.text, pg_catalog.text) IS
'the life that must be over, or what must confirm the commit of this transaction, before the worker marks a key completed; NULL if nothing must, or has to any more; for exactonce_pending';

CREATE VIEW @extschema@.exactonce_pending AS
	WITH here AS MATERIALIZED (
		SELECT o.server, o.dynamodb_table, o.pk, o.token, o.xid, o.created_at, o.digest, o.writes, o.write_number,
			o.trouble, o.attempts, o.failing_since, o.reason, o.reason_item,
			-- Of each item its line, and another one by which rows of one server wait for each other.
			pg_catalog.string_to_array(o.write_items OPERATOR(pg_catalog.||) pg_catalog.chr(10) OPERATOR(pg_catalog.||)
				pg_catalog.regexp_replace(o.write_items, '^[0-9]+', pg_catalog.concat('server ', o.server), 'gn'),
				pg_catalog.chr(10)) AS items,
			exactonce_internal.waits_for(o.xid, o.life, o.url, o.region, o.dynamodb_table, o.key_prefix) AS waits_for
		FROM exactonce_internal.outbox o
		JOIN pg_catalog.pg_control_system() c ON c.system_identifier OPERATOR(pg_catalog.=) o.system_identifier
		JOIN pg_catalog.pg_database d ON d.oid OPERATOR(pg_catalog.=) o.dboid
			AND d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database()
		WHERE NOT o.given_up),
	-- For each line the row whose writes come first; no row waits for those of a life that goes on elsewhere.
	-- There is no join by lines, which a plan for few rows would make in a loop.
	lines AS MATERIALIZED (
		SELECT h.digest, i.item, pg_catalog.first_value(h.digest) OVER w AS first, pg_catalog.first_value(h.server) OVER w AS server,
			pg_catalog.first_value(h.pk) OVER w AS pk, pg_catalog.first_value(h.trouble OPERATOR(pg_catalog.=) 3) OVER w AS refused,
			pg_catalog.first_value(h.elsewhere) OVER w AS elsewhere
		FROM (SELECT *, waits_for IS NOT NULL AND pg_catalog.right(waits_for, 7) OPERATOR(pg_catalog.=) ': alive' AS elsewhere
			FROM here) h CROSS JOIN LATERAL pg_catalog.unnest(h.items) i(item)
		WINDOW w AS (PARTITION BY i.item ORDER BY h.elsewhere, h.write_number)),
	behind AS MATERIALIZED (
		SELECT DISTINCT ON (l.digest) l.digest, l.server, l.pk, l.refused
		FROM lines l
		WHERE l.first OPERATOR(pg_catalog.<>) l.digest AND NOT l.elsewhere
		ORDER BY l.digest, l.refused DESC)
	SELECT s.srvname AS server, h.dynamodb_table,
		exactonce_internal.key_of_record(h.pk, h.server) AS key,
		h.xid, h.created_at, pg_catalog.clock_timestamp() OPERATOR(pg_catalog.-) h.created_at AS age,
		pg_catalog."left"(pg_catalog.encode(pg_catalog.sha256(pg_catalog.uuid_send(h.token)
			OPERATOR(pg_catalog.||) pg_catalog.xid8send(h.xid)), 'hex'), 32)::pg_catalog.uuid AS id,
		CASE
			WHEN h.waits_for IS NOT NULL OR b.digest IS NULL THEN h.waits_for
			WHEN b.refused THEN pg_catalog.concat('refused writes: ', exactonce_internal.key_of_record(b.pk, b.server))
			ELSE pg_catalog.concat('earlier writes: ', exactonce_internal.key_of_record(b.pk, b.server))
		END AS waits_for,
		h.writes, NULLIF(h.attempts, 0) AS attempts, h.failing_since,
		CASE h.trouble WHEN 1 THEN 'fails' WHEN 2 THEN 'lasts' WHEN 3 THEN 'refused' END AS trouble,
		h.reason, h.reason_item
	FROM here h
	LEFT JOIN behind b ON b.digest OPERATOR(pg_catalog.=) h.digest
	LEFT JOIN pg_catalog.pg_foreign_server s ON s.oid OPERATOR(pg_catalog.=) h.server;
COMMENT ON VIEW @extschema@.exactonce_pending IS
'completions that have committed and that DynamoDB has not confirmed yet; usually empty after some milliseconds';
COMMENT ON COLUMN @extschema@.exactonce_pending.server IS 'name of the foreign server; NULL if it was dropped';
COMMENT ON COLUMN @extschema@.exactonce_pending.dynamodb_table IS 'name of the DynamoDB table';
COMMENT ON COLUMN @extschema@.exactonce_pending.key IS 'the key, without the key_prefix of its server; with exactonce.log_keys = hash, its hash';
COMMENT ON COLUMN @extschema@.exactonce_pending.xid IS 'id of the transaction that completed the key';
COMMENT ON COLUMN @extschema@.exactonce_pending.created_at IS 'time at which idem_complete was called';
COMMENT ON COLUMN @extschema@.exactonce_pending.age IS 'time since created_at';
COMMENT ON COLUMN @extschema@.exactonce_pending.id IS 'names the row for idem_give_up(id)';
COMMENT ON COLUMN @extschema@.exactonce_pending.waits_for IS 'the life under which it committed and its state in exactonce_lives, while that is not over; synchronous_standby_names or replication slots, if these have not confirmed the commit; earlier writes or refused writes, and the key that writes to the same item first; NULL if only DynamoDB has not confirmed it';
COMMENT ON COLUMN @extschema@.exactonce_pending.writes IS 'how many writes to other items are made together with the completion; NULL: none';
COMMENT ON COLUMN @extschema@.exactonce_pending.attempts IS 'how often the worker has failed to write it, when that was last noted: at the first failure, and whenever there are twice as many; NULL: it has not';
COMMENT ON COLUMN @extschema@.exactonce_pending.failing_since IS 'when its first failure was noted; NULL: it has not failed';
COMMENT ON COLUMN @extschema@.exactonce_pending.trouble IS 'fails: it is tried again every few seconds; lasts: so it is, for three minutes or more, and idem_give_up can end that; refused: it is not written before somebody removes the reason, or ends it with idem_give_up; NULL: it has not failed';
COMMENT ON COLUMN @extschema@.exactonce_pending.reason IS 'how it has failed, in the words of DynamoDB if that has answered, as it was last noted: at once if it has not failed before, else within a minute; without values of the writes';
COMMENT ON COLUMN @extschema@.exactonce_pending.reason_item IS 'which of the writes DynamoDB refuses, from 1; NULL: none alone, or not known';

CREATE VIEW @extschema@.exactonce_in_doubt AS
	SELECT s.srvname AS server, c.dynamodb_table,
		c.key, c.xid
	FROM exactonce_internal.claims_of_cluster() c
	JOIN pg_catalog.pg_database d ON d.oid OPERATOR(pg_catalog.=) c.database
		AND d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database()
	LEFT JOIN pg_catalog.pg_foreign_server s ON s.oid OPERATOR(pg_catalog.=) c.server
	WHERE c.state OPERATOR(pg_catalog.=) 'in doubt';
COMMENT ON VIEW @extschema@.exactonce_in_doubt IS
'keys that were sealed, and for which this database cannot tell whether the transaction committed; settle them with idem_resolve';
COMMENT ON COLUMN @extschema@.exactonce_in_doubt.server IS 'name of the foreign server; NULL if it was dropped';
COMMENT ON COLUMN @extschema@.exactonce_in_doubt.dynamodb_table IS 'name of the DynamoDB table';
COMMENT ON COLUMN @extschema@.exactonce_in_doubt.key IS 'the key, without the key_prefix of its server; with exactonce.log_keys = hash, its hash';
COMMENT ON COLUMN @extschema@.exactonce_in_doubt.xid IS 'id of the transaction that sealed the key';

CREATE FUNCTION exactonce_internal.progress_of_cluster(
	OUT database pg_catalog.oid,
	OUT server pg_catalog.oid,
	OUT pid pg_catalog.int4,
	OUT activity pg_catalog.text,
	OUT done pg_catalog.int8,
	OUT total pg_catalog.int8,
	OUT found pg_catalog.int8,
	OUT since pg_catalog.timestamptz)
RETURNS SETOF pg_catalog.record
LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'eo_progress_of_cluster';
COMMENT ON FUNCTION exactonce_internal.progress_of_cluster() IS
'long calls that go on in the whole cluster; the view exactonce_progress is made of it';

CREATE VIEW @extschema@.exactonce_progress AS
	SELECT p.pid, s.srvname AS server, p.activity, p.done, p.total, p.found, p.since
	FROM exactonce_internal.progress_of_cluster() p
	JOIN pg_catalog.pg_database d ON d.oid OPERATOR(pg_catalog.=) p.database
		AND d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database()
	LEFT JOIN pg_catalog.pg_foreign_server s ON s.oid OPERATOR(pg_catalog.=) p.server
	UNION ALL
	SELECT NULL, NULL, 'recovery scan', l.scanned, NULL, NULL, l.since
	FROM @extschema@.exactonce_lives l
	WHERE l.scanned IS NOT NULL;
COMMENT ON VIEW @extschema@.exactonce_progress IS
'long work that goes on in this database: calls for many keys or actions, lists, audits (a role is shown with 256 calls at least, if there is no other), and recovery scans of the worker';
COMMENT ON COLUMN @extschema@.exactonce_progress.pid IS 'process; NULL: the worker';
COMMENT ON COLUMN @extschema@.exactonce_progress.server IS 'name of the foreign server; NULL: of a recovery scan';
COMMENT ON COLUMN @extschema@.exactonce_progress.activity IS 'name of the function that was called, or "recovery scan"';
COMMENT ON COLUMN @extschema@.exactonce_progress.done IS 'keys or actions that are answered, or items of the table that were read';
COMMENT ON COLUMN @extschema@.exactonce_progress.total IS 'keys or actions in all; NULL for scans, which do not know it';
COMMENT ON COLUMN @extschema@.exactonce_progress.found IS 'keys acquired so far, rows that were found, or items that were deleted';
COMMENT ON COLUMN @extschema@.exactonce_progress.since IS 'when it began; of a recovery scan, see exactonce_lives';

/* ---- counters ---- */

CREATE FUNCTION exactonce_internal.stats_of_cluster(
	OUT database pg_catalog.text,
	OUT server pg_catalog.text,
	OUT server_oid pg_catalog.oid,
	OUT since pg_catalog.timestamptz,
	OUT since_reason pg_catalog.text,
	OUT calls pg_catalog.int8,
	OUT call_errors pg_catalog.int8,
	OUT duplicates_here pg_catalog.int8,
	OUT duplicates_cached pg_catalog.int8,
	OUT duplicates_service pg_catalog.int8,
	OUT requests pg_catalog.int8,
	OUT request_errors pg_catalog.int8,
	OUT retries pg_catalog.int8,
	OUT throttles pg_catalog.int8,
	OUT unknown_outcomes pg_catalog.int8,
	OUT own_writes pg_catalog.int8,
	OUT bytes_sent pg_catalog.int8,
	OUT bytes_received pg_catalog.int8,
	OUT capacity_units pg_catalog.float8,
	OUT rows_finished pg_catalog.int8,
	OUT given_back pg_catalog.int8,
	OUT worker_retries pg_catalog.int8,
	OUT call_p50 pg_catalog.float8,
	OUT call_p95 pg_catalog.float8,
	OUT call_p99 pg_catalog.float8,
	OUT request_p50 pg_catalog.float8,
	OUT request_p95 pg_catalog.float8,
	OUT request_p99 pg_catalog.float8,
	OUT seal_p50 pg_catalog.float8,
	OUT seal_p95 pg_catalog.float8,
	OUT seal_p99 pg_catalog.float8,
	OUT completion_p50 pg_catalog.float8,
	OUT completion_p95 pg_catalog.float8,
	OUT completion_p99 pg_catalog.float8)
RETURNS SETOF pg_catalog.record
LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'eo_stats_of_cluster';
COMMENT ON FUNCTION exactonce_internal.stats_of_cluster() IS
'counters of the servers that the role may see, one row for each; the view exactonce_stats is made of it';

CREATE FUNCTION exactonce_internal.stats_details_of_cluster(
	OUT database pg_catalog.text,
	OUT server pg_catalog.text,
	OUT server_oid pg_catalog.oid,
	OUT kind pg_catalog.text,
	OUT name pg_catalog.text,
	OUT result pg_catalog.text,
	OUT count pg_catalog.int8)
RETURNS SETOF pg_catalog.record
LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'eo_stats_details_of_cluster';
COMMENT ON FUNCTION exactonce_internal.stats_details_of_cluster() IS
'the same counters one by one; the view exactonce_stats_details is made of it';

CREATE FUNCTION exactonce_internal.stats_histograms_of_cluster(
	OUT database pg_catalog.text,
	OUT server pg_catalog.text,
	OUT server_oid pg_catalog.oid,
	OUT kind pg_catalog.text,
	OUT le pg_catalog.float8,
	OUT count pg_catalog.int8,
	OUT sum pg_catalog.float8)
RETURNS SETOF pg_catalog.record
LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'eo_stats_histograms_of_cluster';
COMMENT ON FUNCTION exactonce_internal.stats_histograms_of_cluster() IS
'histograms of the same servers; the view exactonce_stats_histograms is made of it';

CREATE VIEW @extschema@.exactonce_stats AS
	SELECT c.*,
		(SELECT pg_catalog.clock_timestamp() OPERATOR(pg_catalog.-) pg_catalog.min(o.created_at)
			FROM exactonce_internal.outbox o
			JOIN pg_catalog.pg_control_system() s ON s.system_identifier OPERATOR(pg_catalog.=) o.system_identifier
			JOIN pg_catalog.pg_database d ON d.oid OPERATOR(pg_catalog.=) o.dboid
				AND d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database()
			WHERE o.server OPERATOR(pg_catalog.=) c.server_oid AND c.database OPERATOR(pg_catalog.=) d.datname::pg_catalog.text
				AND NOT o.given_up) AS oldest_pending
	FROM exactonce_internal.stats_of_cluster() c;
COMMENT ON VIEW @extschema@.exactonce_stats IS
'cumulative counters of each server. They survive a clean restart, and begin anew after a crash. pg_read_all_stats (pg_monitor) sees the servers of all databases, other roles those of this database that they may use';
COMMENT ON COLUMN @extschema@.exactonce_stats.database IS 'name of the database; NULL for the row "others"';
COMMENT ON COLUMN @extschema@.exactonce_stats.server IS 'name of the foreign server; others: all servers for which there was no room, after the first 64 of the cluster';
COMMENT ON COLUMN @extschema@.exactonce_stats.server_oid IS 'OID of the foreign server';
COMMENT ON COLUMN @extschema@.exactonce_stats.since IS 'when counting began';
COMMENT ON COLUMN @extschema@.exactonce_stats.since_reason IS 'why it began then: first use (of the server), reset (exactonce_stats_reset was called), or crash (the first use after a crash, which loses the counters)';
COMMENT ON COLUMN @extschema@.exactonce_stats.calls IS 'calls of functions, by any outcome; of functions for many keys or actions each key or action counts';
COMMENT ON COLUMN @extschema@.exactonce_stats.call_errors IS 'calls that raised an error; exactonce_stats_details has their SQLSTATEs';
COMMENT ON COLUMN @extschema@.exactonce_stats.duplicates_here IS 'calls that found the key taken or finished, and were answered by this cluster without a request';
COMMENT ON COLUMN @extschema@.exactonce_stats.duplicates_cached IS 'the same, answered from a cache of finished keys; 0 without one';
COMMENT ON COLUMN @extschema@.exactonce_stats.duplicates_service IS 'the same, answered by DynamoDB; and transactions with idem_once that failed because the key was completed already';
COMMENT ON COLUMN @extschema@.exactonce_stats.requests IS 'requests sent to DynamoDB, each attempt counted; those that are in flight do not count yet';
COMMENT ON COLUMN @extschema@.exactonce_stats.request_errors IS 'requests that ended neither with success nor with a refused condition; exactonce_stats_details says how they ended';
COMMENT ON COLUMN @extschema@.exactonce_stats.retries IS 'requests that repeated an earlier attempt';
COMMENT ON COLUMN @extschema@.exactonce_stats.throttles IS 'requests that DynamoDB refused with a demand to slow down';
COMMENT ON COLUMN @extschema@.exactonce_stats.unknown_outcomes IS 'writes of which it stayed unknown whether they were applied, after all attempts; nothing is done twice because of them';
COMMENT ON COLUMN @extschema@.exactonce_stats.own_writes IS 'refused writes that were recognised as applied before, by an attempt whose answer was lost';
COMMENT ON COLUMN @extschema@.exactonce_stats.bytes_sent IS 'bodies of requests, in bytes';
COMMENT ON COLUMN @extschema@.exactonce_stats.bytes_received IS 'bodies of answers, in bytes';
COMMENT ON COLUMN @extschema@.exactonce_stats.capacity_units IS 'capacity units that DynamoDB has reported: always for scans and transactions, for other requests if the server option return_capacity is on; refused requests report none';
COMMENT ON COLUMN @extschema@.exactonce_stats.rows_finished IS 'completions that the worker has marked COMPLETED';
COMMENT ON COLUMN @extschema@.exactonce_stats.given_back IS 'keys that the worker has given back or marked FAILED, after their transactions were over';
COMMENT ON COLUMN @extschema@.exactonce_stats.worker_retries IS 'requests of the worker that failed after all attempts, and were put off';
COMMENT ON COLUMN @extschema@.exactonce_stats.call_p50 IS 'median of a call of a function, in milliseconds, estimated from a histogram with powers of two; NULL: none was counted';
COMMENT ON COLUMN @extschema@.exactonce_stats.call_p95 IS '95th percentile of a call of a function, in milliseconds, estimated from a histogram with powers of two; NULL: none was counted';
COMMENT ON COLUMN @extschema@.exactonce_stats.call_p99 IS '99th percentile of a call of a function, in milliseconds, estimated from a histogram with powers of two; NULL: none was counted';
COMMENT ON COLUMN @extschema@.exactonce_stats.request_p50 IS 'median of a request, from sending it to its answer or failure, in milliseconds, estimated from a histogram with powers of two; NULL: none was counted';
COMMENT ON COLUMN @extschema@.exactonce_stats.request_p95 IS '95th percentile of a request, from sending it to its answer or failure, in milliseconds, estimated from a histogram with powers of two; NULL: none was counted';
COMMENT ON COLUMN @extschema@.exactonce_stats.request_p99 IS '99th percentile of a request, from sending it to its answer or failure, in milliseconds, estimated from a histogram with powers of two; NULL: none was counted';
COMMENT ON COLUMN @extschema@.exactonce_stats.seal_p50 IS 'median of sealing the keys of a transaction, which is a part of its COMMIT, in milliseconds, estimated from a histogram with powers of two; NULL: none was counted';
COMMENT ON COLUMN @extschema@.exactonce_stats.seal_p95 IS '95th percentile of sealing the keys of a transaction, which is a part of its COMMIT, in milliseconds, estimated from a histogram with powers of two; NULL: none was counted';
COMMENT ON COLUMN @extschema@.exactonce_stats.seal_p99 IS '99th percentile of sealing the keys of a transaction, which is a part of its COMMIT, in milliseconds, estimated from a histogram with powers of two; NULL: none was counted';
COMMENT ON COLUMN @extschema@.exactonce_stats.completion_p50 IS 'median of the time from a commit until its key is COMPLETED in DynamoDB; if the worker was not running at the commit, or there was too much to be done, from the call of idem_complete, in milliseconds, estimated from a histogram with powers of two; NULL: none was counted';
COMMENT ON COLUMN @extschema@.exactonce_stats.completion_p95 IS '95th percentile of the time from a commit until its key is COMPLETED in DynamoDB; if the worker was not running at the commit, or there was too much to be done, from the call of idem_complete, in milliseconds, estimated from a histogram with powers of two; NULL: none was counted';
COMMENT ON COLUMN @extschema@.exactonce_stats.completion_p99 IS '99th percentile of the time from a commit until its key is COMPLETED in DynamoDB; if the worker was not running at the commit, or there was too much to be done, from the call of idem_complete, in milliseconds, estimated from a histogram with powers of two; NULL: none was counted';
COMMENT ON COLUMN @extschema@.exactonce_stats.oldest_pending IS 'age of the oldest completion that has committed and that DynamoDB has not confirmed; NULL: there is none, or the server is of another database';

CREATE VIEW @extschema@.exactonce_stats_details AS
	SELECT c.* FROM exactonce_internal.stats_details_of_cluster() c;
COMMENT ON VIEW @extschema@.exactonce_stats_details IS
'calls of functions by outcome, requests by operation of DynamoDB and result, and errors by code, as far as there were any; rights as exactonce_stats';
COMMENT ON COLUMN @extschema@.exactonce_stats_details.database IS 'name of the database; NULL for the server "others"';
COMMENT ON COLUMN @extschema@.exactonce_stats_details.server IS 'name of the foreign server, as in exactonce_stats';
COMMENT ON COLUMN @extschema@.exactonce_stats_details.server_oid IS 'OID of the foreign server';
COMMENT ON COLUMN @extschema@.exactonce_stats_details.kind IS 'call, request or error';
COMMENT ON COLUMN @extschema@.exactonce_stats_details.name IS 'call: name of the function; request: name of the operation (UpdateItem, GetItem, TransactWriteItems, BatchExecuteStatement, Scan, ...); error: call if a function has raised it, request if DynamoDB has answered it';
COMMENT ON COLUMN @extschema@.exactonce_stats_details.result IS 'call: its outcome; returned, if it has none; error, if it raised one; terminated, if its session ended meanwhile. request: ok; condition_failed (another write came first); throttled, denied, no_table, conflict, refused, transaction_cancelled (as DynamoDB answered); server_error (DynamoDB failed); unanswered (no answer, or none that can be believed); unreachable (no connection); canceled (the caller did not wait). error: the SQLSTATE, or the name of DynamoDB''s error; others: all codes after the first 31 of the server';
COMMENT ON COLUMN @extschema@.exactonce_stats_details.count IS 'number of calls, or of keys or actions if the function takes many; of requests, each attempt counted; of errors';

CREATE VIEW @extschema@.exactonce_stats_histograms AS
	SELECT c.* FROM exactonce_internal.stats_histograms_of_cluster() c;
COMMENT ON VIEW @extschema@.exactonce_stats_histograms IS
'histograms as Prometheus reads them: each bucket counts all durations up to its bound; rights as exactonce_stats';
COMMENT ON COLUMN @extschema@.exactonce_stats_histograms.database IS 'name of the database; NULL for the server "others"';
COMMENT ON COLUMN @extschema@.exactonce_stats_histograms.server IS 'name of the foreign server, as in exactonce_stats';
COMMENT ON COLUMN @extschema@.exactonce_stats_histograms.server_oid IS 'OID of the foreign server';
COMMENT ON COLUMN @extschema@.exactonce_stats_histograms.kind IS 'call (of a function), request (an attempt), seal (of the keys of a transaction), completion (from a commit until its key is COMPLETED)';
COMMENT ON COLUMN @extschema@.exactonce_stats_histograms.le IS 'upper bound of the bucket in seconds, from 64 microseconds in powers of two; Infinity: no bound';
COMMENT ON COLUMN @extschema@.exactonce_stats_histograms.count IS 'durations up to the bound';
COMMENT ON COLUMN @extschema@.exactonce_stats_histograms.sum IS 'sum of the durations of all buckets of this kind, in seconds';

CREATE FUNCTION @extschema@.exactonce_stats_reset(server pg_catalog.text DEFAULT NULL)
RETURNS pg_catalog.void
LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'eo_stats_reset_sql';
COMMENT ON FUNCTION @extschema@.exactonce_stats_reset(pg_catalog.text) IS
'for operators: sets the counters of a server to zero; NULL: of all servers of this database. Errors: 42704 (no such server)';

CREATE FUNCTION exactonce_internal.circuits_of_cluster(
	OUT endpoint pg_catalog.text,
	OUT request_timeout pg_catalog.interval,
	OUT is_open pg_catalog.bool,
	OUT answered_at pg_catalog.timestamptz,
	OUT failures pg_catalog.int8,
	OUT silent_since pg_catalog.timestamptz,
	OUT opened_at pg_catalog.timestamptz,
	OUT refused pg_catalog.int8,
	OUT next_probe_at pg_catalog.timestamptz,
	OUT last_error pg_catalog.text)
RETURNS SETOF pg_catalog.record
LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'eo_circuits_of_cluster';
COMMENT ON FUNCTION exactonce_internal.circuits_of_cluster() IS
'the endpoints that the whole cluster uses, and whether they answer; the view exactonce_circuits is made of it';

CREATE VIEW @extschema@.exactonce_circuits AS
	SELECT c.endpoint, c.request_timeout, c.is_open, c.answered_at, c.failures, c.silent_since,
		c.opened_at, c.refused, c.next_probe_at, c.last_error
	FROM exactonce_internal.circuits_of_cluster() c;
COMMENT ON VIEW @extschema@.exactonce_circuits IS
'the endpoints that this cluster uses, since it was started: one row for all servers with the same endpoint, ca_file and timeouts; while is_open, calls to it are refused at once';
COMMENT ON COLUMN @extschema@.exactonce_circuits.endpoint IS 'URL of the endpoint';
COMMENT ON COLUMN @extschema@.exactonce_circuits.request_timeout IS 'the option of its servers: nothing must be answered for so long before calls are refused';
COMMENT ON COLUMN @extschema@.exactonce_circuits.is_open IS 'true: it does not answer, calls are refused, and it is asked once a second';
COMMENT ON COLUMN @extschema@.exactonce_circuits.answered_at IS 'when it last answered, to a fiftieth of a second; NULL: never yet';
COMMENT ON COLUMN @extschema@.exactonce_circuits.failures IS 'calls in a row that had no answer; 0 if it answers';
COMMENT ON COLUMN @extschema@.exactonce_circuits.silent_since IS 'when the first of these calls was started; NULL if there are none';
COMMENT ON COLUMN @extschema@.exactonce_circuits.opened_at IS 'when calls were first refused; NULL if they are not';
COMMENT ON COLUMN @extschema@.exactonce_circuits.refused IS 'calls that were refused since then; NULL if they are not';
COMMENT ON COLUMN @extschema@.exactonce_circuits.next_probe_at IS 'when it is asked next; NULL if calls are not refused';
COMMENT ON COLUMN @extschema@.exactonce_circuits.last_error IS 'how the last call failed; NULL if it answers';

CREATE FUNCTION exactonce_internal.health_of_database(
	OUT enabled pg_catalog.bool,
	OUT worker_pid pg_catalog.int4,
	OUT worker_silent pg_catalog.interval,
	OUT worker_missing pg_catalog.bool,
	OUT failing_since pg_catalog.timestamptz,
	OUT last_error pg_catalog.text,
	OUT unsettled pg_catalog.int4,
	OUT max_claims pg_catalog.int8,
	OUT claims pg_catalog.int8,
	OUT fullest_share pg_catalog.float8,
	OUT lost_claims pg_catalog.int8)
RETURNS SETOF pg_catalog.record
LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'eo_health_of_database';
COMMENT ON FUNCTION exactonce_internal.health_of_database() IS
'the worker of this database and the room in the claim table; the view exactonce_health is made of it';

CREATE VIEW @extschema@.exactonce_health AS
	SELECT h.enabled, h.worker_pid, h.worker_silent, h.worker_missing,
		COALESCE(h.failing_since, p.failing_since) AS failing_since, COALESCE(h.last_error, p.reason) AS last_error,
		h.unsettled, h.max_claims, h.claims, h.fullest_share, h.lost_claims
	FROM exactonce_internal.health_of_database() h
	LEFT JOIN LATERAL (
		SELECT o.failing_since, o.reason
		FROM exactonce_internal.outbox o
		JOIN pg_catalog.pg_control_system() c ON c.system_identifier OPERATOR(pg_catalog.=) o.system_identifier
		JOIN pg_catalog.pg_database d ON d.oid OPERATOR(pg_catalog.=) o.dboid
			AND d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database()
		WHERE o.failing_since IS NOT NULL AND NOT o.given_up
		ORDER BY o.failing_since
		LIMIT 1) p ON true;
COMMENT ON VIEW @extschema@.exactonce_health IS
'one row: the worker of this database, and how full the claim table of the cluster is';
COMMENT ON COLUMN @extschema@.exactonce_health.enabled IS 'the setting exactonce.enabled, as this session has it';
COMMENT ON COLUMN @extschema@.exactonce_health.worker_pid IS 'process of the worker; NULL: none runs, as in a database without work';
COMMENT ON COLUMN @extschema@.exactonce_health.worker_silent IS 'time since its last sign of life; after 15 seconds calls are refused; NULL: none runs';
COMMENT ON COLUMN @extschema@.exactonce_health.worker_missing IS 'true: the database needs a worker, and none runs';
COMMENT ON COLUMN @extschema@.exactonce_health.failing_since IS 'since when requests of the worker fail, or else the oldest completion of exactonce_pending that has failed; NULL: the last request was answered, and none has';
COMMENT ON COLUMN @extschema@.exactonce_health.last_error IS 'how its last request has failed, or else that completion; NULL: it has not';
COMMENT ON COLUMN @extschema@.exactonce_health.unsettled IS 'claims of this database whose transactions are over, and that the worker has not settled yet';
COMMENT ON COLUMN @extschema@.exactonce_health.max_claims IS 'claims for which the claim table of the cluster has room';
COMMENT ON COLUMN @extschema@.exactonce_health.claims IS 'claims that are in it, those of all databases in all states';
COMMENT ON COLUMN @extschema@.exactonce_health.fullest_share IS 'the greatest part of its share of the claim table that a role has taken; from 1 on its claims are refused';
COMMENT ON COLUMN @extschema@.exactonce_health.lost_claims IS 'claims of the cluster that heartbeats have found lost to another run, since the file exactonce_claims was made';

CREATE FUNCTION exactonce_internal.room_of_cluster(
	OUT room pg_catalog.text,
	OUT size pg_catalog.int8,
	OUT database pg_catalog.oid,
	OUT role pg_catalog.oid,
	OUT taken pg_catalog.int8,
	OUT emptied_by pg_catalog.text)
RETURNS SETOF pg_catalog.record
LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'eo_room_of_cluster';
COMMENT ON FUNCTION exactonce_internal.room_of_cluster() IS
'how full the arrays in shared memory are; the view exactonce_room is made of it';

CREATE VIEW @extschema@.exactonce_room AS
	SELECT c.room, c.size,
		CASE WHEN c.database IS NOT NULL THEN COALESCE(d.datname::pg_catalog.text, pg_catalog.concat('(dropped: ', c.database, ')')) END AS database,
		CASE WHEN c.role OPERATOR(pg_catalog.<>) 0::pg_catalog.oid THEN COALESCE(r.rolname::pg_catalog.text, 'server ' OPERATOR(pg_catalog.||) f.srvname::pg_catalog.text,
			pg_catalog.concat('(dropped: ', c.role, ')')) END AS role,
		c.taken, c.emptied_by
	FROM exactonce_internal.room_of_cluster() c
	LEFT JOIN pg_catalog.pg_database d ON d.oid OPERATOR(pg_catalog.=) c.database
	LEFT JOIN pg_catalog.pg_roles r ON r.oid OPERATOR(pg_catalog.=) c.role
	LEFT JOIN pg_catalog.pg_foreign_server f ON f.oid OPERATOR(pg_catalog.=) c.role;
COMMENT ON VIEW @extschema@.exactonce_room IS
'what fills the shared memory of this cluster: a row for each array, and one for each role of a database that has a part of it. docs/security.md says what the shares are, and what happens when an array is full';
COMMENT ON COLUMN @extschema@.exactonce_room.room IS 'the array: claims, texts of claims, targets of claims, second looks, lives, places, lives met, lives shown, lives settled, refused roles, circuits, service clocks, statistics, long calls';
COMMENT ON COLUMN @extschema@.exactonce_room.size IS 'entries that it has room for';
COMMENT ON COLUMN @extschema@.exactonce_room.database IS 'database whose entries they are; NULL: all entries of the array';
COMMENT ON COLUMN @extschema@.exactonce_room.role IS 'role by which they were made, or which owns their servers (places, circuits, service clocks, statistics); a server with home false that a superuser owns stands for itself; NULL: superusers, or no role in particular';
COMMENT ON COLUMN @extschema@.exactonce_room.taken IS 'entries in use';
COMMENT ON COLUMN @extschema@.exactonce_room.emptied_by IS 'what gives room back: the view that lists the entries, and the call';

CREATE FUNCTION exactonce_internal.credentials_of_cluster(
	OUT profile pg_catalog.text,
	OUT role_arn pg_catalog.text,
	OUT source pg_catalog.text,
	OUT is_usable pg_catalog.bool,
	OUT expires_at pg_catalog.timestamptz,
	OUT failing_since pg_catalog.timestamptz,
	OUT last_error pg_catalog.text,
	OUT fetches pg_catalog.int8,
	OUT failed_fetches pg_catalog.int8)
RETURNS SETOF pg_catalog.record
LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'eo_credentials_of_cluster';
COMMENT ON FUNCTION exactonce_internal.credentials_of_cluster() IS
'the credentials that this cluster has fetched, without any secret; the view exactonce_credentials is made of it';

CREATE VIEW @extschema@.exactonce_credentials AS
	SELECT c.profile, c.role_arn, c.source, c.is_usable, c.expires_at, c.failing_since, c.last_error,
		c.fetches, c.failed_fetches
	FROM exactonce_internal.credentials_of_cluster() c;
COMMENT ON VIEW @extschema@.exactonce_credentials IS
'credentials that this cluster has fetched for servers with credentials ''chain'' or a role_arn, and has used within the hour: one row for all servers with the same options. The keys of user mappings are not among them';
COMMENT ON COLUMN @extschema@.exactonce_credentials.profile IS 'the option profile of its servers; NULL: they have none';
COMMENT ON COLUMN @extschema@.exactonce_credentials.role_arn IS 'the option role_arn of its servers; NULL: they have none';
COMMENT ON COLUMN @extschema@.exactonce_credentials.source IS 'which source of the chain has answered last; NULL: none has';
COMMENT ON COLUMN @extschema@.exactonce_credentials.is_usable IS 'true: there are credentials that have neither expired nor been rejected';
COMMENT ON COLUMN @extschema@.exactonce_credentials.expires_at IS 'when they end; the worker fetches others ten minutes before, or at half of their life if that is shorter; NULL: never, or there are none';
COMMENT ON COLUMN @extschema@.exactonce_credentials.failing_since IS 'since when they cannot be fetched; NULL: the last fetch succeeded';
COMMENT ON COLUMN @extschema@.exactonce_credentials.last_error IS 'why the last fetch failed; NULL: it did not';
COMMENT ON COLUMN @extschema@.exactonce_credentials.fetches IS 'fetches that have ended, by any process of the cluster, since its start or the first use of these options';
COMMENT ON COLUMN @extschema@.exactonce_credentials.failed_fetches IS 'those of them that have failed';

/* ---- making keys ---- */

CREATE FUNCTION @extschema@.idem_key(VARIADIC pg_catalog."any")
RETURNS pg_catalog.text
LANGUAGE C IMMUTABLE PARALLEL SAFE
AS 'MODULE_PATHNAME', 'eo_idem_key';
COMMENT ON FUNCTION @extschema@.idem_key(pg_catalog."any") IS
'makes a key of 64 hexadecimal digits from any number of values. The same values make the same key whatever the session''s settings; different values, NULL and empty ones included, make different keys. Errors: 22004 (all values are NULL), 0A000 (a type without a canonical form)';

CREATE FUNCTION @extschema@.idem_key_from(payload pg_catalog.jsonb, VARIADIC paths pg_catalog.jsonpath[])
RETURNS pg_catalog.text
LANGUAGE C IMMUTABLE PARALLEL SAFE
AS 'MODULE_PATHNAME', 'eo_idem_key_from';
COMMENT ON FUNCTION @extschema@.idem_key_from(pg_catalog.jsonb, pg_catalog.jsonpath[]) IS
'makes a key of 64 hexadecimal digits from the values that the paths select from the payload; a path that selects nothing counts as NULL. Errors: 22004 (payload or a path is NULL, or the paths select nothing, or only JSON nulls)';

CREATE FUNCTION @extschema@.idem_key_powertools(
	runtime pg_catalog.text,
	payload pg_catalog.json,
	prefix pg_catalog.text)
RETURNS pg_catalog.text
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'eo_idem_key_powertools';
COMMENT ON FUNCTION @extschema@.idem_key_powertools(pg_catalog.text, pg_catalog.json, pg_catalog.text) IS
'makes the key that Powertools for AWS Lambda makes of a payload: the prefix, #, and the MD5 of the payload as the library writes it. runtime: python, typescript, java or dotnet; payload: what the event key path selects; prefix: as the library has it, without #. For java and dotnet the order of members counts, for dotnet also the blanks. Errors: 22004 (the payload is null, an empty string, array or object, or an array of nulls: the libraries write no record then), 22023 (another runtime), 22P05 (a string that the library cannot read)';

-- The types of its other arguments let a payload of unknown type be a json.
CREATE FUNCTION @extschema@.idem_key_powertools(
	runtime pg_catalog.varchar,
	payload pg_catalog.jsonb,
	prefix pg_catalog.varchar)
RETURNS pg_catalog.text
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'eo_idem_key_powertools';
COMMENT ON FUNCTION @extschema@.idem_key_powertools(pg_catalog.varchar, pg_catalog.jsonb, pg_catalog.varchar) IS
'the same for a payload of type jsonb, where the library sorts the members: runtime is python or typescript. Errors: 22023 also for java and dotnet, because jsonb does not keep the order of members';

CREATE FUNCTION @extschema@.idem_validation_powertools(
	runtime pg_catalog.text,
	payload pg_catalog.json)
RETURNS pg_catalog.text
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'eo_idem_validation_powertools';
COMMENT ON FUNCTION @extschema@.idem_validation_powertools(pg_catalog.text, pg_catalog.json) IS
'makes the hash by which Powertools for AWS Lambda validates a payload: as idem_key_powertools, of what the validation path selects, without prefix. Errors: 22023, 22P05';

CREATE FUNCTION @extschema@.idem_validation_powertools(
	runtime pg_catalog.varchar,
	payload pg_catalog.jsonb)
RETURNS pg_catalog.text
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'eo_idem_validation_powertools';
COMMENT ON FUNCTION @extschema@.idem_validation_powertools(pg_catalog.varchar, pg_catalog.jsonb) IS
'the same for a payload of type jsonb, as idem_key_powertools. Errors: 22023 also for java and dotnet';

/* ---- one-shot actions ---- */

CREATE TYPE @extschema@.action_outcome AS ENUM
	('created', 'already_exists', 'consumed', 'already_used', 'not_active', 'expired', 'canceled', 'burned',
	'invalid_pin', 'action_not_found', 'in_progress');
COMMENT ON TYPE @extschema@.action_outcome IS
'result of creating, consuming or cancelling an action; http_status beside it is the HTTP status that means the same';

CREATE TYPE @extschema@.action_state AS ENUM
	('pending', 'active', 'consumed', 'expired', 'canceled', 'burned', 'committing');
COMMENT ON TYPE @extschema@.action_state IS
'pending: cannot be consumed before active_at; active: can be consumed; consumed, expired, canceled and burned (no attempt at the PIN is left) are final; committing: a transaction that consumes it is being committed';

CREATE TYPE @extschema@.action_created AS (
	id pg_catalog.text,
	outcome @extschema@.action_outcome,
	http_status pg_catalog.int4,
	created_at pg_catalog.timestamptz,
	active_at pg_catalog.timestamptz,
	expires_at pg_catalog.timestamptz
);
COMMENT ON TYPE @extschema@.action_created IS
'the answer of action_create and action_create_many about an action';
COMMENT ON COLUMN @extschema@.action_created.id IS 'the id as it was passed, or 22 characters of base64url that nobody can guess (128 random bits)';
COMMENT ON COLUMN @extschema@.action_created.outcome IS 'created or already_exists';
COMMENT ON COLUMN @extschema@.action_created.http_status IS '201 or 409';
COMMENT ON COLUMN @extschema@.action_created.created_at IS 'current time, by the clock of DynamoDB; NULL with already_exists, like the next two columns';
COMMENT ON COLUMN @extschema@.action_created.active_at IS 'the action can be consumed from this time on; NULL: at once';
COMMENT ON COLUMN @extschema@.action_created.expires_at IS 'the action can be consumed before this time';

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
'the answer of action_consume and action_cancel';
COMMENT ON COLUMN @extschema@.action_result.id IS 'the id as it was passed';
COMMENT ON COLUMN @extschema@.action_result.outcome IS 'of action_consume: consumed, already_used, not_active, expired, canceled, burned, invalid_pin, action_not_found or in_progress; of action_cancel: canceled, already_used, expired, burned, action_not_found or in_progress';
COMMENT ON COLUMN @extschema@.action_result.http_status IS 'consumed 200, invalid_pin 401, action_not_found 404, already_used, not_active and in_progress 409, expired, canceled and burned 410; of action_cancel canceled 200';
COMMENT ON COLUMN @extschema@.action_result.payload IS 'with consumed: the payload that the action was created with';
COMMENT ON COLUMN @extschema@.action_result.consumed_at IS 'with consumed and already_used: time of the consume, by the clock of DynamoDB; NULL if the transaction consumes the action when it commits';
COMMENT ON COLUMN @extschema@.action_result.active_at IS 'with not_active: the action can be consumed from this time on';
COMMENT ON COLUMN @extschema@.action_result.attempts_left IS 'with invalid_pin: number of guesses that are left';
COMMENT ON COLUMN @extschema@.action_result.replayed IS 'true if an earlier call had this effect: consumed with the same token, or canceled';

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
'an action as it is in DynamoDB, without payload and PIN';
COMMENT ON COLUMN @extschema@.action_view.id IS 'the id as it was passed';
COMMENT ON COLUMN @extschema@.action_view.state IS 'state at this moment, by the clock of DynamoDB';
COMMENT ON COLUMN @extschema@.action_view.has_pin IS 'true if the action has a PIN';
COMMENT ON COLUMN @extschema@.action_view.attempts_left IS 'number of guesses at the PIN that are left; NULL if the action has no PIN';
COMMENT ON COLUMN @extschema@.action_view.created_at IS 'time of creation';
COMMENT ON COLUMN @extschema@.action_view.active_at IS 'the action can be consumed from this time on; NULL: from its creation on';
COMMENT ON COLUMN @extschema@.action_view.expires_at IS 'the action can be consumed before this time';
COMMENT ON COLUMN @extschema@.action_view.consumed_at IS 'time of the consume';
COMMENT ON COLUMN @extschema@.action_view.canceled_at IS 'time of the cancellation';
COMMENT ON COLUMN @extschema@.action_view.reason IS 'the reason that was passed to action_consume or action_cancel';
COMMENT ON COLUMN @extschema@.action_view.consumer IS 'the consumer that was passed to action_consume';

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
'creates an action, an object that can be consumed once. It takes effect at once, whether the transaction commits or not. payload: is given to the caller that consumes the action; about 390 KB. active_at, expires_at: the action can be consumed from the first and before the second time; default at once, and 30 days later. pin: 1 to 256 bytes, stored as a hash; the server option pin_attempts says how many guesses there are. Pass the PIN as a parameter, because a literal is part of the statement''s text. id: default one that nobody can guess. Call it in FROM: (action_create(...)).* calls it once for each column, unless an id is passed. Errors: 23505 (an action with this id exists or existed), 22023, 54000 (id or payload too large), ID006 (DynamoDB is unavailable, or it is unknown whether the action was created), ID007 (refused by DynamoDB)';

CREATE FUNCTION @extschema@.action_create_many(
	actions pg_catalog.jsonb,
	server pg_catalog.text DEFAULT NULL)
RETURNS SETOF @extschema@.action_created
LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000000 ROWS 100
AS 'MODULE_PATHNAME', 'eo_action_create_many_sql';
COMMENT ON FUNCTION @extschema@.action_create_many(pg_catalog.jsonb, pg_catalog.text) IS
'action_create for each object of an array. Each object may have the members id, payload, active_at and expires_at (strings, read as timestamptz) and pin (a string); a null counts as left out. Returns a row for each object, in the order of the array. Up to parallel_requests requests (a server option) are in flight at a time. An id that exists or existed is outcome already_exists, not an error. All objects are checked before the first request: 22023 (an unknown member, an id that occurs twice, ...; DETAIL has the position), 54000. After ID006 and ID007 the actions created so far stay. A PIN costs 50 ms of a core for each action';

CREATE FUNCTION @extschema@.action_get(
	id pg_catalog.text,
	server pg_catalog.text DEFAULT NULL)
RETURNS @extschema@.action_view
LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000000
AS 'MODULE_PATHNAME', 'eo_action_get_sql';
COMMENT ON FUNCTION @extschema@.action_get(pg_catalog.text, pg_catalog.text) IS
'reads an action with one consistent read, consumes nothing, and shows neither payload nor PIN; NULL: there is no such action. Use it to answer a GET request, because link scanners follow links. Errors: ID006, ID007';

CREATE FUNCTION @extschema@.action_list(
	state pg_catalog.text DEFAULT NULL,
	prefix pg_catalog.text DEFAULT NULL,
	older_than pg_catalog.interval DEFAULT NULL,
	units_per_second pg_catalog.int4 DEFAULT NULL,
	server pg_catalog.text DEFAULT NULL)
RETURNS SETOF @extschema@.action_view
LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000000 ROWS 1000
AS 'MODULE_PATHNAME', 'eo_action_list_sql';
COMMENT ON FUNCTION @extschema@.action_list(pg_catalog.text, pg_catalog.text, pg_catalog.interval, pg_catalog.int4, pg_catalog.text) IS
'for operators: scans the server''s table and returns its actions, without payloads and PINs, in no order. state: a value of action_state, default all. prefix: of the id. older_than: time since the creation. units_per_second: read capacity that the scan may use, default 500; it reads each item of the table once. It needs the permission dynamodb:Scan, can be cancelled at any moment, and exactonce_progress shows how far it is. Everybody who knows an id may consume its action, so let nobody else see the list. Errors: 22023, ID006, ID007';

CREATE FUNCTION @extschema@.action_consume(
	id pg_catalog.text,
	pin pg_catalog.text DEFAULT NULL,
	reason pg_catalog.text DEFAULT NULL,
	consumer pg_catalog.jsonb DEFAULT NULL,
	token pg_catalog.uuid DEFAULT NULL,
	at pg_catalog.text DEFAULT NULL,
	server pg_catalog.text DEFAULT NULL)
RETURNS @extschema@.action_result
LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000000
AS 'MODULE_PATHNAME', 'eo_action_consume_sql';
COMMENT ON FUNCTION @extschema@.action_consume(pg_catalog.text, pg_catalog.text, pg_catalog.text, pg_catalog.jsonb, pg_catalog.uuid, pg_catalog.text, pg_catalog.text) IS
'consumes an action: only one call gets outcome consumed and the payload. An outcome is never an error. at: now (default), it takes effect at once, and a rollback does not undo it; or commit, the payload is returned at once, and the action is consumed if and only if the transaction commits, which fails (ID001, ID002, ID005) if another caller was first. Then do the work only if outcome is consumed and replayed is false: consumed with replayed says that the transaction which did it has committed, or that this one has done it. pin: a guess; ignored if the action has no PIN. A guess uses up an attempt before it is checked, and after the last wrong one the action is burned. reason: up to 1024 bytes; consumer: up to 16 KB; both are stored with the action. token: a random UUID made by the caller; a repeated call with the same token gets the same answer, with replayed, and needs no PIN. Without a token a lost answer cannot be asked for again. Call it in FROM: if (action_consume(...)).* is sorted by a column, that is an additional call. Errors: 54000 (reason or consumer too large), ID006 (DynamoDB is unavailable, or it is unknown whether the action was consumed; call again with the same token), ID007, 40001 (above READ COMMITTED: the transaction that consumed the action with this token is not visible)';

CREATE FUNCTION @extschema@.action_cancel(
	id pg_catalog.text,
	reason pg_catalog.text DEFAULT NULL,
	server pg_catalog.text DEFAULT NULL)
RETURNS @extschema@.action_result
LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000000
AS 'MODULE_PATHNAME', 'eo_action_cancel_sql';
COMMENT ON FUNCTION @extschema@.action_cancel(pg_catalog.text, pg_catalog.text, pg_catalog.text) IS
'ends a pending or active action before it is consumed. Outcome: canceled, or the state in which the action was already (already_used, expired, burned), or action_not_found. It takes effect at once, and a rollback does not undo it. The outcome is final, also for requests that are still in flight. reason: up to 1024 bytes, stored with the action. Errors: 54000 (reason too large), ID006, ID007';

CREATE FUNCTION @extschema@.action_resolve(
	id pg_catalog.text,
	status pg_catalog.text,
	origin pg_catalog.uuid DEFAULT NULL,
	server pg_catalog.text DEFAULT NULL)
RETURNS pg_catalog.bool
LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000000
AS 'MODULE_PATHNAME', 'eo_action_resolve';
COMMENT ON FUNCTION @extschema@.action_resolve(pg_catalog.text, pg_catalog.text, pg_catalog.uuid, pg_catalog.text) IS
'for operators: settles an action that a transaction was to consume at commit, if this database cannot tell whether that committed. status: completed (it is consumed) or failed (it can be consumed). origin, what is refused and what is returned: as for idem_resolve. Errors: 22004, 22023, 55000, 55006, ID006, ID007';

/* ---- administration ---- */

CREATE FUNCTION @extschema@.idem_create_table(server pg_catalog.text DEFAULT NULL)
RETURNS pg_catalog.text
LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000000
AS 'MODULE_PATHNAME', 'eo_idem_create_table';
COMMENT ON FUNCTION @extschema@.idem_create_table(pg_catalog.text) IS
'for operators: creates the server''s DynamoDB table, billed on demand and with time to live switched on, and waits until it can be used. Returns created or exists. Errors: ID006, ID007 (refused by DynamoDB, or the table exists with another key)';

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
'for operators: checks whether a server works: a row for each check, with status ok, warning, failure or skipped, a detail, and advice (NULL with ok). Without USAGE on the server the checks of DynamoDB are skipped. It writes nothing';

/* ---- rights ---- */

/*
 * Default privileges may have given rights to roles.  All of them are taken back
 * for what administrators alone may use, or nobody: the internal tables and
 * functions, the views, and the functions that change or remove data other callers rely on.
 */
DO LANGUAGE plpgsql $rights$
DECLARE
	o pg_catalog.record;
BEGIN
	FOR o IN
		SELECT pg_catalog.concat('SCHEMA ', n.nspname) AS object, a.grantee
		FROM pg_catalog.pg_namespace n, pg_catalog.aclexplode(n.nspacl) a
		WHERE n.nspname OPERATOR(pg_catalog.=) 'exactonce_internal'::pg_catalog.name
			AND a.grantee OPERATOR(pg_catalog.<>) n.nspowner
		UNION
		SELECT pg_catalog.concat('TABLE ', c.oid::pg_catalog.regclass), a.grantee
		FROM pg_catalog.pg_class c, pg_catalog.aclexplode(c.relacl) a
		WHERE a.grantee OPERATOR(pg_catalog.<>) c.relowner
			AND (c.relnamespace OPERATOR(pg_catalog.=) 'exactonce_internal'::pg_catalog.regnamespace::pg_catalog.oid
				OR c.oid OPERATOR(pg_catalog.=) ANY (ARRAY['@extschema@.exactonce_claims'::pg_catalog.regclass::pg_catalog.oid,
					'@extschema@.exactonce_lives'::pg_catalog.regclass::pg_catalog.oid,
					'@extschema@.exactonce_progress'::pg_catalog.regclass::pg_catalog.oid,
					'@extschema@.exactonce_stats'::pg_catalog.regclass::pg_catalog.oid,
					'@extschema@.exactonce_stats_details'::pg_catalog.regclass::pg_catalog.oid,
					'@extschema@.exactonce_stats_histograms'::pg_catalog.regclass::pg_catalog.oid,
					'@extschema@.exactonce_circuits'::pg_catalog.regclass::pg_catalog.oid,
					'@extschema@.exactonce_health'::pg_catalog.regclass::pg_catalog.oid,
					'@extschema@.exactonce_room'::pg_catalog.regclass::pg_catalog.oid,
					'@extschema@.exactonce_credentials'::pg_catalog.regclass::pg_catalog.oid,
					'@extschema@.exactonce_pending'::pg_catalog.regclass::pg_catalog.oid,
					'@extschema@.exactonce_in_doubt'::pg_catalog.regclass::pg_catalog.oid]))
		UNION
		SELECT pg_catalog.concat('FUNCTION ', p.oid::pg_catalog.regprocedure), a.grantee
		FROM pg_catalog.pg_proc p,
			pg_catalog.aclexplode(COALESCE(p.proacl, pg_catalog.acldefault('f', p.proowner))) a
		WHERE a.grantee OPERATOR(pg_catalog.<>) p.proowner
			AND (p.pronamespace OPERATOR(pg_catalog.=) 'exactonce_internal'::pg_catalog.regnamespace::pg_catalog.oid
				OR p.pronamespace OPERATOR(pg_catalog.=) '@extschema@'::pg_catalog.regnamespace::pg_catalog.oid
				AND p.proname OPERATOR(pg_catalog.=) ANY (ARRAY['idem_forget', 'idem_list', 'idem_sweep', 'action_list', 'idem_resolve', 'action_resolve', 'idem_give_up', 'idem_create_table', 'idem_check',
					'idem_guard', 'idem_mirror', 'idem_take_over', 'idem_lift', 'idem_drain', 'idem_audit', 'exactonce_stats_reset']::pg_catalog.name[]))
	LOOP
		EXECUTE pg_catalog.format('REVOKE ALL ON %s FROM %s', o.object,
			CASE WHEN o.grantee OPERATOR(pg_catalog.=) 0::pg_catalog.oid THEN 'PUBLIC'
			ELSE pg_catalog.quote_ident(pg_catalog.pg_get_userbyid(o.grantee)) END);
	END LOOP;
END
$rights$;

GRANT SELECT ON @extschema@.exactonce_claims, @extschema@.exactonce_lives, @extschema@.exactonce_progress, @extschema@.exactonce_circuits, @extschema@.exactonce_health, @extschema@.exactonce_room, @extschema@.exactonce_credentials, @extschema@.exactonce_pending, @extschema@.exactonce_in_doubt TO pg_monitor;
GRANT SELECT ON @extschema@.exactonce_stats, @extschema@.exactonce_stats_details, @extschema@.exactonce_stats_histograms TO PUBLIC;

-- A view calls its functions with the rights of whoever reads it.  Without rights on their schema nobody else can.
GRANT EXECUTE ON FUNCTION exactonce_internal.claims_of_cluster, exactonce_internal.lives_of_cluster, exactonce_internal.progress_of_cluster, exactonce_internal.circuits_of_cluster, exactonce_internal.health_of_database, exactonce_internal.room_of_cluster, exactonce_internal.credentials_of_cluster, exactonce_internal.key_of_record, exactonce_internal.waits_for TO pg_monitor;
GRANT EXECUTE ON FUNCTION exactonce_internal.stats_of_cluster, exactonce_internal.stats_details_of_cluster, exactonce_internal.stats_histograms_of_cluster TO PUBLIC;

GRANT EXECUTE ON FUNCTION @extschema@.idem_check(pg_catalog.text) TO pg_monitor;
