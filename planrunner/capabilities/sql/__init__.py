"""SQL on SQLite and PostgreSQL: values are bound and never written into a statement."""
