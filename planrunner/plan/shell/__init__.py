"""Shell text: its words and commands, the templates in its quotes, the variables and programs it names.

Imported by everything that starts a script or judges one; no script is run here.
"""
