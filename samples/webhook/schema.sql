-- The table of the webhook receivers, and the rights of the role that they connect as.
-- The role needs no right on the tables of the extension.
CREATE TABLE payments (
    receipt int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    invoice int NOT NULL,
    amount  int NOT NULL CHECK (amount > 0)
);
GRANT INSERT, SELECT ON payments TO shop;
GRANT USAGE ON FOREIGN SERVER exactonce TO shop;
