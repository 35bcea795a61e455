"""The plan: what a text means.

    load         from a source to a plan and its findings: all of what follows, in order
    schema       the published schema, checked on the tree
    canonical    one spelling for every key
    lower/       the canonical tree to a Plan
    model        the Plan: records that hold it
    expressions/ conditions and criteria; ``templates`` has them inside texts
    graph        who waits for whom
    compiled     a loaded plan as text, for the next run; ``identity`` has its digest and what a change means
    rules/       the checks of the linter

Import from the modules: a run of a plan seen before needs only ``compiled`` and ``model``.
"""
