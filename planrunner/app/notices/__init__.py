"""Notices: who is told that a run waits for people, failed or is done."""
