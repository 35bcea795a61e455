"""What is remembered of a run, in a project and by a user: entries by key, found by text and by vector, and lessons."""
