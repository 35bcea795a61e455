"""Shell text: one tree of a script, and what is read off it: the templates in its quotes, commands, variables and
programs.

Imported by everything that starts a script or judges one; no script is run here.
"""
