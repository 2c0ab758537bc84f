-- What a superuser does once in each database, before the migrations of the application:
--
--   psql -v region=eu-west-1 -v table=idempotency -f superuser.sql shop
--
-- The library must be in shared_preload_libraries.  With credentials 'chain' no key is stored; else
-- give the mapping access_key_id and secret_access_key.  The roles are those of docs/security.md.
CREATE EXTENSION IF NOT EXISTS exactonce;
CREATE SERVER IF NOT EXISTS exactonce FOREIGN DATA WRAPPER exactonce
    OPTIONS (region :'region', table :'table', credentials 'chain');
GRANT USAGE ON FOREIGN SERVER exactonce TO shop_migrations, shop;
GRANT EXECUTE ON FUNCTION idem_guard, idem_mirror TO shop_migrations;
SELECT "check", status, detail, advice FROM idem_check() WHERE status <> 'ok';
