-- A migration in plain SQL, for psql and every tool that runs files: coupon codes become unique
-- across all databases and services that share the DynamoDB table.  It is run by the role that owns
-- the application's tables.  Codes that were there before have no keys.
BEGIN;
CREATE TABLE coupons (code text NOT NULL, customer int NOT NULL);
CREATE TRIGGER coupon_once AFTER INSERT ON coupons
    FOR EACH ROW EXECUTE FUNCTION idem_guard('code', 'prefix=coupon/');
GRANT SELECT, INSERT ON coupons TO shop;
COMMIT;
