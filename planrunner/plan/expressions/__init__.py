"""The expression language: conditions, criteria, preconditions, detectors, loops and fan-outs.

    parse.py      text → Expression (grammar/expr.lark)
    evaluate.py   tree and scope → value, true or false, and why a condition does not hold; pure
    check.py      expression and types of names → problems for the linter
    classify.py   text of a criterion → expression, plain words, or an expression gone wrong

Import from these modules: each has a function of its own name.
"""
