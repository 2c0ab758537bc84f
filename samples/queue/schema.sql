-- A queue in a table, what its messages make, and the rights of the role that consumes it.
CREATE TABLE queue (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    message_id text NOT NULL,               -- the same for every copy of a message
    body       jsonb NOT NULL,
    not_before timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX ON queue (not_before, id);
CREATE TABLE dead_letters (message_id text PRIMARY KEY, body jsonb NOT NULL, error jsonb);
CREATE TABLE shipments (order_id int PRIMARY KEY, parcels int NOT NULL CHECK (parcels > 0));
GRANT SELECT, INSERT, UPDATE, DELETE ON queue, dead_letters TO shop;
GRANT SELECT, INSERT ON shipments TO shop;
GRANT USAGE ON FOREIGN SERVER exactonce TO shop;
