"""A real PostgreSQL server on 127.0.0.1 with the database of a small shop; nothing is simulated.

The migration adds a column, fills it, and makes two indexes outside of a transaction.
"""

from __future__ import annotations

from planrunner.testing.rehearsal import Scene, rehearse

SHOP = """
CREATE TABLE customer (id serial PRIMARY KEY, name text NOT NULL, email text NOT NULL);
CREATE TABLE purchase (id bigserial PRIMARY KEY, customer int NOT NULL REFERENCES customer, cents int NOT NULL);
CREATE INDEX purchase_customer ON purchase (customer);
INSERT INTO customer (name, email) SELECT 'Customer ' || n, 'M' || n || '@Example.org' FROM generate_series(1, 200) n;
INSERT INTO purchase (customer, cents) SELECT 1 + n % 200, 100 + n FROM generate_series(1, 1000) n;
SELECT setval('purchase_id_seq', 5000);
CREATE ROLE clerk;
ALTER TABLE purchase OWNER TO clerk;
GRANT SELECT ON customer TO clerk;
ALTER DATABASE shop SET work_mem = '8MB';
"""
COLUMN = """\
ALTER TABLE customer ADD COLUMN email_lower text;
UPDATE customer SET email_lower = lower(email);
ALTER TABLE customer ALTER COLUMN email_lower SET NOT NULL;
"""
INDEXES = """\
-- no transaction
CREATE UNIQUE INDEX CONCURRENTLY customer_email_lower ON customer (email_lower);
CREATE INDEX CONCURRENTLY purchase_cents ON purchase (cents);
"""
CHECK = "SELECT count(*) = 200 FROM customer WHERE email_lower = lower(email)"


def prepare(scene: Scene) -> None:
    server = scene.postgresql()
    if scene.new:
        server.psql("CREATE DATABASE shop")
        server.psql(SHOP, database="shop")
        scene.write({"migrations/01-column.sql": COLUMN, "migrations/02-indexes.sql": INDEXES})
    scene.arguments += ["-p", "database=shop", "-p", f'checks=["{CHECK}"]']


if __name__ == "__main__":
    rehearse(prepare, __file__)
