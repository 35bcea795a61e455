"""Use cases that read runs back: lists, states, logs, artifacts, proof of the journal, replay."""
