"""The names that an expression reads."""

from __future__ import annotations

from typing import Any, TypeAlias

Tree: TypeAlias = "Any"


def path_of(tree: Tree) -> tuple[str, ...] | None:
    """The path that a chain of names is, such as ``("tasks", "test", "outputs")``, or None for any other tree.

    An index by a literal text counts as a name: ``tasks["sign-off"].ok`` is ``("tasks", "sign-off", "ok")``.
    """
    names: list[str] = []
    while tree[0] in ("attr", "index"):
        operation, _, _, tree, key = tree
        if operation == "index":
            if key[0] != "const" or not isinstance(key[3], str):
                return None
            key = key[3]
        names.append(key)
    if tree[0] != "name":
        return None
    return (tree[3], *reversed(names))


def paths_of(tree: Tree) -> tuple[tuple[str, ...], ...]:
    """Every path that a tree reads, each once, in the order of the text.

    Where a name stands before a computed index the path ends there: ``params.hosts[attempt]`` reads
    ``("params", "hosts")`` and ``("attempt",)``.
    """
    found: dict[tuple[str, ...], None] = {}
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        path = path_of(node)
        if path is not None:
            found[path] = None
            continue
        waiting.extend(reversed(children(node)))
    return tuple(found)


def children(tree: Tree) -> list[Tree]:
    """The operands of one operation, in the order of the text."""
    operation = tree[0]
    if operation in ("const", "quantity", "name", "local"):
        return []
    if operation == "map":
        return [value for _, value in tree[3]]
    if operation in ("and", "or", "list", "concat"):
        return list(tree[3])
    if operation == "call":
        return list(tree[4])
    if operation == "each":
        return [operand for operand in tree[4:] if operand is not None]
    return [operand for operand in tree[3:] if isinstance(operand, (tuple, list))]


def paths_with_places(tree: Tree) -> list[tuple[tuple[str, ...], int, int]]:
    """Every path that a tree reads, with its offsets, in the order of the text."""
    found: list[tuple[tuple[str, ...], int, int]] = []
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        path = path_of(node)
        if path is not None:
            found.append((path, node[1], node[2]))
        else:
            waiting.extend(children(node))
    return sorted(found, key=lambda one: one[1])


def localized(tree: Tree, names: tuple[str, ...]) -> Tree:
    """The tree with the names that a comprehension or a loop gives marked as such: they are not names of the plan."""
    if not isinstance(tree, tuple):
        return tree
    if len(tree) == 4 and tree[0] == "name" and tree[3] in names:
        return ("local", *tree[1:])
    return tuple([localized(part, names) for part in tree])
