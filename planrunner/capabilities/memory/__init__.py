"""What runs remember for later tasks, runs and projects: entries by key, text and vector, and lessons."""
