"""Use cases that act on runs: start, resume, rerun, revise, fork, roll back, steer."""
