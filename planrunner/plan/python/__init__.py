"""Python code in plans: what generated code may do, and a scan for what it does."""
