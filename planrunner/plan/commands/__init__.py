"""The command language: calls of capabilities in sequence inside one task, each with a named result.

``search(query) -> top10; fetch(top10) -> docs`` becomes an inline subplan of its task: each call is a task of its own,
so that it is journalled, resumed, budgeted, replayed and undone like any other.
"""
