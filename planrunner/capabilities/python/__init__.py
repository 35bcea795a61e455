"""Python of the project, run in a process of its own."""
