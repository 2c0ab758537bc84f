-- Options of servers and user mappings: every bad one is an error with a reason.
\set VERBOSITY default
-- Unknown names.
CREATE SERVER bad FOREIGN DATA WRAPPER exactonce OPTIONS (regoin 'eu-west-1');
CREATE USER MAPPING FOR CURRENT_USER SERVER exactonce OPTIONS (user 'x', password 'secret');
ALTER FOREIGN DATA WRAPPER exactonce OPTIONS (region 'eu-west-1');
-- Bad values.
CREATE SERVER bad FOREIGN DATA WRAPPER exactonce OPTIONS (region 'EU West');
CREATE SERVER bad FOREIGN DATA WRAPPER exactonce OPTIONS (region '');
CREATE SERVER bad FOREIGN DATA WRAPPER exactonce OPTIONS (table 'ab');
CREATE SERVER bad FOREIGN DATA WRAPPER exactonce OPTIONS (table 'arn:aws:dynamodb:x');
CREATE SERVER bad FOREIGN DATA WRAPPER exactonce OPTIONS (layout 'modern');
CREATE SERVER bad FOREIGN DATA WRAPPER exactonce OPTIONS (lease 'soon');
CREATE SERVER bad FOREIGN DATA WRAPPER exactonce OPTIONS (lease '0');
CREATE SERVER bad FOREIGN DATA WRAPPER exactonce OPTIONS (lease '8 days');
CREATE SERVER bad FOREIGN DATA WRAPPER exactonce OPTIONS (retention '10 minutes');
CREATE SERVER bad FOREIGN DATA WRAPPER exactonce OPTIONS (connect_timeout '2 minutes');
CREATE SERVER bad FOREIGN DATA WRAPPER exactonce OPTIONS (request_timeout '1ms');
CREATE SERVER bad FOREIGN DATA WRAPPER exactonce OPTIONS (clock_skew '-1s');
CREATE SERVER bad FOREIGN DATA WRAPPER exactonce OPTIONS (max_attempts '0');
CREATE SERVER bad FOREIGN DATA WRAPPER exactonce OPTIONS (max_attempts '3x');
CREATE SERVER bad FOREIGN DATA WRAPPER exactonce OPTIONS (allow_http 'perhaps');
CREATE SERVER bad FOREIGN DATA WRAPPER exactonce OPTIONS (ca_file 'ca.pem');
CREATE SERVER bad FOREIGN DATA WRAPPER exactonce OPTIONS (ca_file '/nonexistent/ca.pem');
-- Endpoints that are refused.
CREATE SERVER bad FOREIGN DATA WRAPPER exactonce OPTIONS (endpoint 'dynamodb.eu-west-1.amazonaws.com');
CREATE SERVER bad FOREIGN DATA WRAPPER exactonce OPTIONS (endpoint 'ftp://localhost');
CREATE SERVER bad FOREIGN DATA WRAPPER exactonce OPTIONS (endpoint 'https://');
CREATE SERVER bad FOREIGN DATA WRAPPER exactonce OPTIONS (endpoint 'https://user@host');
CREATE SERVER bad FOREIGN DATA WRAPPER exactonce OPTIONS (endpoint 'https://host:99999');
CREATE SERVER bad FOREIGN DATA WRAPPER exactonce OPTIONS (endpoint 'https://host/path?q');
CREATE SERVER bad FOREIGN DATA WRAPPER exactonce OPTIONS (endpoint 'http://example.com');
-- Options that every server needs.
CREATE SERVER bad FOREIGN DATA WRAPPER exactonce;
CREATE SERVER bad FOREIGN DATA WRAPPER exactonce OPTIONS (region 'eu-west-1');
CREATE SERVER bad FOREIGN DATA WRAPPER exactonce OPTIONS (table 'regress');
-- Options of layouts, which are read together.
CREATE SERVER bad FOREIGN DATA WRAPPER exactonce OPTIONS (region 'r', table 'regress', key_attribute 'id');
CREATE SERVER bad FOREIGN DATA WRAPPER exactonce OPTIONS (region 'r', table 'regress', layout 'native', instants 's');
CREATE SERVER bad FOREIGN DATA WRAPPER exactonce OPTIONS (region 'r', table 'regress', layout 'custom', key_attribute 'eo_key');
CREATE SERVER bad FOREIGN DATA WRAPPER exactonce OPTIONS (region 'r', table 'regress', layout 'custom', key_attribute 'a;b');
CREATE SERVER bad FOREIGN DATA WRAPPER exactonce OPTIONS (region 'r', table 'regress', layout 'custom', lease_attribute 'ttl');
CREATE SERVER bad FOREIGN DATA WRAPPER exactonce OPTIONS (region 'r', table 'regress', layout 'custom', status_words 'completed=C');
CREATE SERVER bad FOREIGN DATA WRAPPER exactonce OPTIONS (region 'r', table 'regress', layout 'powertools-java',
	status_words 'in_progress=I, completed=C, failed=F');
CREATE SERVER bad FOREIGN DATA WRAPPER exactonce OPTIONS (region 'r', table 'regress', layout 'custom', partition_value 'p');
CREATE SERVER bad FOREIGN DATA WRAPPER exactonce OPTIONS (region 'r', table 'regress', layout 'custom', instants 'us');
CREATE SERVER bad FOREIGN DATA WRAPPER exactonce OPTIONS (region 'r', table 'regress', layout 'custom', result_form 'json');
CREATE SERVER bad FOREIGN DATA WRAPPER exactonce OPTIONS (region 'r', table 'regress', layout 'custom', stale_after '5min');
CREATE SERVER bad FOREIGN DATA WRAPPER exactonce OPTIONS (region 'r', table 'regress', layout 'custom', stale_after 'soon');
CREATE SERVER bad FOREIGN DATA WRAPPER exactonce OPTIONS (region 'r', table 'regress', layout 'custom', failed 'never');
CREATE SERVER bad FOREIGN DATA WRAPPER exactonce OPTIONS (region 'r', table 'regress', layout 'powertools-java', failed 'retry');
CREATE SERVER fine FOREIGN DATA WRAPPER exactonce OPTIONS (region 'r', table 'regress', layout 'custom',
	key_attribute 'PK', sort_key_attribute 'SK', item_prefix 'IDEMPOTENCY#', status_attribute 'State',
	status_words 'in_progress=Pending, completed=Completed, failed=Failed', expiry_attribute 'TTL',
	updated_attribute 'LastUpdated', instants 'iso');
ALTER SERVER fine OPTIONS (SET layout 'native');
ALTER SERVER fine OPTIONS (ADD stale_after '5min', DROP status_words);
DROP SERVER fine;
-- Actions in a table of another service.
CREATE SERVER bad FOREIGN DATA WRAPPER exactonce OPTIONS (region 'eu-west-1', table 'regress', action_layout 'other');
CREATE SERVER bad FOREIGN DATA WRAPPER exactonce OPTIONS (region 'eu-west-1', table 'regress', action_layout 'seed');
CREATE SERVER bad FOREIGN DATA WRAPPER exactonce OPTIONS (region 'eu-west-1', table 'regress', layout 'custom', action_layout 'seed');
CREATE SERVER bad FOREIGN DATA WRAPPER exactonce OPTIONS (region 'eu-west-1', table 'regress', layout 'custom', key_attribute 'actionId',
	expiry_attribute 'expiresAtMs', action_layout 'seed');
CREATE SERVER bad FOREIGN DATA WRAPPER exactonce OPTIONS (region 'eu-west-1', table 'regress', layout 'custom', key_attribute 'actionId',
	action_layout 'seed', action_active 'activeAt us');
CREATE SERVER bad FOREIGN DATA WRAPPER exactonce OPTIONS (region 'eu-west-1', table 'regress', layout 'custom', key_attribute 'actionId',
	action_layout 'seed', action_consumed 'pinHash iso');
CREATE SERVER bad FOREIGN DATA WRAPPER exactonce OPTIONS (region 'eu-west-1', table 'regress', action_expires 'expiresAt');
CREATE SERVER bad FOREIGN DATA WRAPPER exactonce OPTIONS (region 'eu-west-1', table 'regress', layout 'custom', key_attribute 'actionId',
	action_layout 'seed', action_pin_hash 'md5');
CREATE SERVER fine FOREIGN DATA WRAPPER exactonce OPTIONS (region 'eu-west-1', table 'regress', layout 'custom', key_attribute 'actionId',
	action_layout 'seed', action_active 'activeAt iso', action_expires 'expiresAt', action_pin_hash 'sha256');
ALTER SERVER fine OPTIONS (SET key_attribute 'id');
DROP SERVER fine;
-- Options that are accepted.
CREATE SERVER fine FOREIGN DATA WRAPPER exactonce OPTIONS (
	region 'cn-north-1', table 'a.b-c_D', layout 'native', key_prefix 'app/', lease '90s',
	retention '30 days', connect_timeout '500ms', request_timeout '10s', max_attempts '6',
	clock_skew '0', endpoint 'http://[::1]:8000/', allow_http 'off');
ALTER SERVER fine OPTIONS (SET endpoint 'https://example.com:8443');
ALTER SERVER fine OPTIONS (ADD lease '1s');
ALTER SERVER fine OPTIONS (SET endpoint 'http://example.com', SET allow_http 'on');
ALTER SERVER fine OPTIONS (DROP table);
ALTER SERVER fine OPTIONS (DROP region);
DROP SERVER fine;
-- An error about a credential does not repeat it.
CREATE USER MAPPING FOR CURRENT_USER SERVER exactonce
	OPTIONS (access_key_id 'not an id', secret_access_key 'x');
CREATE USER MAPPING FOR CURRENT_USER SERVER exactonce
	OPTIONS (access_key_id 'AKID', secret_access_key E'line\nbreak');
-- One half of the credentials is not enough.
CREATE USER MAPPING FOR CURRENT_USER SERVER exactonce OPTIONS (access_key_id 'AKID');
SELECT idem_get('k');
DROP USER MAPPING FOR CURRENT_USER SERVER exactonce;
-- A prefix cannot be the beginning of another one, and a source of credentials is not guessed.
CREATE SERVER bad FOREIGN DATA WRAPPER exactonce OPTIONS (region 'eu-west-1', table 'regress', key_prefix 'app');
CREATE SERVER bad FOREIGN DATA WRAPPER exactonce OPTIONS (region 'eu-west-1', table 'regress', key_prefix 'app/1/');
CREATE SERVER bad FOREIGN DATA WRAPPER exactonce OPTIONS (region 'eu-west-1', table 'regress', credentials 'files');
-- The chain, its profile and its role; what would have no effect is refused.
CREATE SERVER bad FOREIGN DATA WRAPPER exactonce OPTIONS (region 'eu-west-1', table 'regress', profile 'app');
CREATE SERVER bad FOREIGN DATA WRAPPER exactonce OPTIONS (region 'eu-west-1', table 'regress', credentials 'environment', profile 'app');
CREATE SERVER bad FOREIGN DATA WRAPPER exactonce OPTIONS (region 'eu-west-1', table 'regress', credentials 'chain', profile 'a]b');
CREATE SERVER bad FOREIGN DATA WRAPPER exactonce OPTIONS (region 'eu-west-1', table 'regress', role_arn 'arn:aws:iam::123456789012:role/app');
CREATE SERVER bad FOREIGN DATA WRAPPER exactonce OPTIONS (region 'eu-west-1', table 'regress', credentials 'chain', role_arn 'app');
CREATE SERVER bad FOREIGN DATA WRAPPER exactonce OPTIONS (region 'eu-west-1', table 'regress', credentials 'chain', external_id 'ab');
CREATE SERVER bad FOREIGN DATA WRAPPER exactonce OPTIONS (region 'eu-west-1', table 'regress', credentials 'chain', role_arn 'arn:aws:iam::123456789012:role/app', external_id 'a b');
CREATE SERVER chained FOREIGN DATA WRAPPER exactonce OPTIONS (region 'eu-west-1', table 'regress', credentials 'chain', profile 'app',
	role_arn 'arn:aws:iam::123456789012:role/app', external_id 'ab');
ALTER SERVER chained OPTIONS (DROP role_arn);
-- The region may be left to them, and the kinds of AWS's endpoints are no others.
ALTER SERVER chained OPTIONS (DROP region);
ALTER SERVER chained OPTIONS (ADD fips 'true', ADD dualstack 'yes');
ALTER SERVER chained OPTIONS (ADD endpoint 'http://localhost:8000');
ALTER SERVER chained OPTIONS (SET fips 'maybe');
ALTER SERVER chained OPTIONS (DROP credentials, DROP profile, DROP role_arn, DROP external_id);
ALTER SERVER chained OPTIONS (ADD region 'eu-west-1', DROP fips, DROP dualstack);
-- They are the database server's own: only a superuser may set them, and own the server.
CREATE ROLE chain_owner;
GRANT USAGE ON FOREIGN DATA WRAPPER exactonce TO chain_owner;
ALTER SERVER chained OWNER TO chain_owner;
SELECT idem_get('k', server => 'chained');
SET ROLE chain_owner;
SELECT idem_get('k', server => 'chained');
ALTER SERVER chained OPTIONS (SET profile 'other');
CREATE SERVER bad FOREIGN DATA WRAPPER exactonce OPTIONS (region 'eu-west-1', table 'regress', credentials 'chain');
RESET ROLE;
DROP SERVER chained;
REVOKE USAGE ON FOREIGN DATA WRAPPER exactonce FROM chain_owner;
DROP ROLE chain_owner;
