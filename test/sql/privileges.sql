-- USAGE on the server is the gate; operators' functions are for operators.
SET client_min_messages = warning;
DROP ROLE IF EXISTS eo_app, eo_owner;
RESET client_min_messages;
CREATE ROLE eo_app;
CREATE ROLE eo_owner;
\! curl -s -X POST "$EO_CONTROL/reset" >/dev/null
SET ROLE eo_app;
SELECT idem_acquire('private');
SELECT idem_get('private');
SELECT idem_forget('private');
SELECT idem_create_table();
SELECT * FROM idem_check();
\echo `curl -s "$EO_CONTROL/count"`
RESET ROLE;
GRANT USAGE ON FOREIGN SERVER exactonce TO eo_app;
SET ROLE eo_app;
SELECT outcome FROM idem_acquire('private');
SELECT idem_complete('private', '1');
SELECT idem_forget('private');
RESET ROLE;
-- the server that code without a server argument uses is not the caller's choice
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
-- what belongs to the operating-system user is for superusers' servers
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
-- ... nor by changing hands
CREATE SERVER given FOREIGN DATA WRAPPER exactonce
	OPTIONS (region 'eu-west-1', table 'regress', endpoint 'http://example.com', allow_http 'true');
ALTER SERVER given OWNER TO eo_owner;
SET ROLE eo_owner;
SELECT idem_get('private', server => 'given');
RESET ROLE;
DROP SERVER theirs;
DROP SERVER given;
-- the caller's mapping, else the owner's, else PUBLIC's
SELECT detail FROM idem_check() WHERE "check" = 'credentials';
REVOKE USAGE ON FOREIGN DATA WRAPPER exactonce FROM eo_owner;
DROP ROLE eo_app;
DROP ROLE eo_owner;
