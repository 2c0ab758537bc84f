-- Events that are to reach another service if and only if the transaction that wrote them commits,
-- and the rights of the role that sends them.
CREATE TABLE outbox (
    event_id   uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    body       jsonb NOT NULL,
    attempts   int NOT NULL DEFAULT 0,
    not_before timestamptz NOT NULL DEFAULT now(),
    refused    text                         -- why the receiver will never take it
);
CREATE INDEX ON outbox (not_before) WHERE refused IS NULL;
GRANT SELECT, UPDATE, DELETE ON outbox TO shop;
