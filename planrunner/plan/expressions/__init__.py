"""The expression language: conditions, criteria, preconditions, detectors, loops and fan-outs.

parse      text to an Expression, by hand or by ``grammar``; the text of a criterion to an expression or plain words
evaluate   tree and scope to a value, true or false, and why a condition does not hold; pure
check      expression and types of names to problems for the linter
values     kinds of values, arithmetic and errors; ``quantities`` has the amounts with a unit
functions  the functions that an expression may call; ``texts`` and ``patterns`` have those over texts
"""
