"""Use cases of people: which plans may run, and what gates ask."""
