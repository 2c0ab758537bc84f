-- Without USAGE on the server nothing can be called, and operators' functions are for operators.
SET client_min_messages = warning;
DROP ROLE IF EXISTS eo_app, eo_owner, eo_monitor;
RESET client_min_messages;
CREATE ROLE eo_app;
CREATE ROLE eo_owner;
\! curl -s -X POST "$EO_CONTROL/reset" >/dev/null
SET ROLE eo_app;
SELECT idem_acquire('private');
SELECT idem_get('private');
SELECT idem_forget('private');
SELECT idem_resolve('private', 'failed');
SELECT action_resolve('private', 'failed');
SELECT idem_create_table();
SELECT * FROM idem_check();
SELECT * FROM idem_audit();
SELECT * FROM exactonce_progress;
SELECT * FROM exactonce_circuits;
SELECT * FROM exactonce_health;
SELECT * FROM exactonce_credentials;
SET exactonce.enabled = off;
\echo `curl -s "$EO_CONTROL/count"`
CREATE SERVER own FOREIGN DATA WRAPPER exactonce OPTIONS (region 'eu-west-1', table 'own');
RESET ROLE;
GRANT USAGE ON FOREIGN SERVER exactonce TO eo_app;
SET ROLE eo_app;
SELECT outcome FROM idem_acquire('private');
SELECT idem_complete('private', '1');
SELECT idem_forget('private');
RESET ROLE;
-- A role cannot choose the server of code that names none, unless it was granted that.
SET ROLE eo_app;
SET exactonce.server = 'elsewhere';
ALTER ROLE eo_app SET exactonce.server = 'elsewhere';
RESET ROLE;
GRANT SET ON PARAMETER exactonce.server TO eo_app;
SET ROLE eo_app;
SET exactonce.server = 'elsewhere';
RESET exactonce.server;
RESET ROLE;
REVOKE SET ON PARAMETER exactonce.server FROM eo_app;
REVOKE USAGE ON FOREIGN SERVER exactonce FROM eo_app;
SET ROLE eo_app;
SELECT idem_get('private');
RESET ROLE;
-- The right to call idem_audit() does not replace USAGE on the server.
GRANT EXECUTE ON FUNCTION idem_audit TO eo_app;
SET ROLE eo_app;
SELECT * FROM idem_audit();
RESET ROLE;
REVOKE EXECUTE ON FUNCTION idem_audit FROM eo_app;
-- Who may read which view, and that nobody calls the functions behind them.
CREATE FUNCTION answer_to(command text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE command;
	RETURN 'ok';
EXCEPTION WHEN OTHERS THEN
	RETURN SQLERRM;
END $$;
CREATE VIEW of_views AS
SELECT viewname, answer_to(format('SELECT count(*) FROM %I', viewname)) FROM pg_views
WHERE viewname LIKE 'exactonce%' ORDER BY viewname COLLATE "C";
CREATE VIEW of_functions AS
SELECT proname, answer_to(format('SELECT exactonce_internal.%I(%s)', proname,
	(SELECT string_agg('NULL::' || format_type(t, NULL), ', ') FROM unnest(proargtypes) t))) FROM pg_proc
WHERE pronamespace = 'exactonce_internal'::regnamespace ORDER BY proname COLLATE "C";
GRANT SELECT ON of_views, of_functions TO PUBLIC;
CREATE ROLE eo_monitor IN ROLE pg_monitor;
SET ROLE eo_app;
TABLE of_views;
SET ROLE eo_monitor;
TABLE of_views;
TABLE of_functions;
RESET ROLE;
SELECT proname, string_agg(CASE grantee WHEN 0 THEN 'PUBLIC' ELSE grantee::regrole::text END, ', ') AS granted
FROM pg_proc LEFT JOIN LATERAL (SELECT grantee FROM aclexplode(coalesce(proacl, acldefault('f', proowner)))
	WHERE grantee <> proowner) a ON true
WHERE pronamespace = 'exactonce_internal'::regnamespace GROUP BY proname ORDER BY proname COLLATE "C";
DROP VIEW of_views, of_functions;
DROP FUNCTION answer_to;
DROP ROLE eo_monitor;
-- What belongs to the operating-system user is for servers of superusers.
GRANT USAGE ON FOREIGN DATA WRAPPER exactonce TO eo_owner;
SET ROLE eo_owner;
CREATE SERVER theirs FOREIGN DATA WRAPPER exactonce
	OPTIONS (region 'eu-west-1', table 'regress', ca_file '/etc/passwd');
CREATE SERVER theirs FOREIGN DATA WRAPPER exactonce
	OPTIONS (region 'eu-west-1', table 'regress', endpoint 'http://example.com', allow_http 'true');
CREATE SERVER theirs FOREIGN DATA WRAPPER exactonce
	OPTIONS (region 'eu-west-1', table 'regress');
SELECT idem_get('private', server => 'theirs');
RESET ROLE;
-- A server of a superuser loses it when another role gets the server.
CREATE SERVER given FOREIGN DATA WRAPPER exactonce
	OPTIONS (region 'eu-west-1', table 'regress', endpoint 'http://example.com', allow_http 'true');
ALTER SERVER given OWNER TO eo_owner;
SET ROLE eo_owner;
SELECT idem_get('private', server => 'given');
RESET ROLE;
DROP SERVER theirs;
DROP SERVER given;
-- The mapping for PUBLIC is used if neither the caller nor the owner has one.
SELECT detail FROM idem_check() WHERE "check" = 'credentials';
REVOKE USAGE ON FOREIGN DATA WRAPPER exactonce FROM eo_owner;
DROP ROLE eo_app;
DROP ROLE eo_owner;
