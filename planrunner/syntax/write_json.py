"""A tree as JSON: two spaces a level, and on one line what stood on one line and still fits."""

from __future__ import annotations

from json import dumps

from planrunner.syntax.tree import Node, Scalar, Sequence

WIDTH = 100


def write_json(tree: Node) -> str:
    """JSON that reads as equal data; shared nodes are written out each time."""
    return _value(tree, "", 0) + "\n"


def _value(node: Node, indent: str, column: int) -> str:
    if isinstance(node, Scalar):
        return dumps(node.value, ensure_ascii=False)
    if node.flow and indent:
        line = _line(node)
        if column + len(line) <= WIDTH:
            return line
    deeper = indent + "  "
    if isinstance(node, Sequence):
        items = [f"{deeper}{_value(item, deeper, len(deeper))}" for item in node.items]
        return "[\n" + ",\n".join(items) + f"\n{indent}]" if items else "[]"
    names = [f"{deeper}{_name(key)}: " for key, _ in node.entries]
    values = [_value(value, deeper, len(name)) for name, (_, value) in zip(names, node.entries)]
    return "{\n" + ",\n".join(name + value for name, value in zip(names, values)) + f"\n{indent}}}" if names else "{}"


def _line(node: Node) -> str:
    if isinstance(node, Scalar):
        return dumps(node.value, ensure_ascii=False)
    if isinstance(node, Sequence):
        return f"[{', '.join(_line(item) for item in node.items)}]"
    return f"{{{', '.join(f'{_name(key)}: {_line(value)}' for key, value in node.entries)}}}"


def _name(key: Scalar) -> str:
    return dumps(str(key.value), ensure_ascii=False)
