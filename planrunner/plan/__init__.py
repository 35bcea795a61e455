"""The plan: what a text means.

    canonical.py   one spelling for every key
    schema.py      the published schema, checked on the tree
    lower.py       the canonical tree to a Plan (model.py)
    load.py        all of it, from a source to a plan and its findings
    digest.py      the identity of a plan
    compiled.py    a loaded plan as text, for the next run
    expressions/   conditions and criteria
    graph.py       who waits for whom
    rules/         the checks of the linter

Import from the modules: a run of a plan seen before needs only ``compiled`` and ``model``.
"""
