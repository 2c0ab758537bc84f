-- The sessions of the magic links, and the rights of the role that the program connects as.
-- A session belongs to one button of one page, so that pressing it again makes no other.
CREATE TABLE sessions (
    button   uuid PRIMARY KEY,
    secret   uuid NOT NULL DEFAULT gen_random_uuid(),
    customer int NOT NULL
);
GRANT INSERT, SELECT, UPDATE ON sessions TO shop;
GRANT USAGE ON FOREIGN SERVER exactonce TO shop;
