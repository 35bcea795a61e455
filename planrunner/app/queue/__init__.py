"""The queue of runs: what waits for its turn, and the worker that runs it."""
