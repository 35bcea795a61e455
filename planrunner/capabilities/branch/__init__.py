"""``branch.*``: candidates side by side, each in a working tree of its own, of which the best is applied."""
