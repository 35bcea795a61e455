"""Proof that a plan does what its author means: imagined runs for plan tests and for chaos."""
