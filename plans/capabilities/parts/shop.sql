-- The tables of plans/capabilities/sql.yaml; SQLite and PostgreSQL read it alike.
CREATE TABLE IF NOT EXISTS account (
    name TEXT PRIMARY KEY,
    cents INTEGER NOT NULL CHECK (cents >= 0)
);
DELETE FROM account;
INSERT INTO account (name, cents) VALUES ('ana', 5000), ('bob', 100);
