"""Foreign text on its way through a plan: which values come from outside, what they would become, and who has
looked at them before. Pure: lint asks about a plan as it is written, the engine about a call that is about to be made.
"""
