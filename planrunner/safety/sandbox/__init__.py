"""The sandbox of processes that tasks start: what it shuts them into, how, and whether it holds."""
