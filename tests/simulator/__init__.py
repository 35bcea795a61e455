"""Runs of plans without a world: random plans, scripted outcomes, crashes at writes of the journal."""
