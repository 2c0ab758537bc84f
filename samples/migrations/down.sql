-- The way back.  The keys of the codes stay in DynamoDB until their retention is over.
BEGIN;
DROP TABLE coupons;
COMMIT;
