"""Plans that cost a reader as much as their size allows: each shape is made as large as it is asked for."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

HEAD = "plan: p\n"


def filled(size: int, head: str, part: Callable[[int], str], tail: str = "") -> str:
    """As many parts as fit between head and tail; ``size`` in bytes."""
    parts, length = [head], len(head) + len(tail)
    for number in count():
        piece = part(number)
        length += len(piece.encode())
        if length > size:
            return "".join(parts) + tail
        parts.append(piece)
    raise AssertionError


def repeated(size: int, head: str, part: str, tail: str = "") -> str:
    return head + part * ((size - len(head) - len(tail)) // len(part.encode())) + tail


SCALAR = 1 << 20
"""Characters of the longest scalar."""


def expressions(inner: Callable[[int], str], each: int = SCALAR - 1000) -> Callable[[int], str]:
    """Tasks whose ``when`` is what ``inner`` makes for a size; as many as fit."""

    def make(size: int) -> str:
        length = min(each, size - 100)
        return filled(size, f"{HEAD}tasks:\n", lambda n: f"  - {{id: t{n}, uses: noop, when: '{inner(length)}'}}\n")

    return make


def templates(inner: Callable[[int], str], each: int = SCALAR - 1000, head: str = HEAD) -> Callable[[int], str]:
    """Tasks that run what ``inner`` makes for a size; as many as fit."""

    def make(size: int) -> str:
        length = min(each, size - 100)
        return filled(size, f"{head}tasks:\n", lambda n: f'  - {{id: t{n}, run: "{inner(length)}"}}\n')

    return make


JUDGED = f"{HEAD}policy: {{foreign: true, capabilities: {{deny: [{{uses: shell, run: git push *}}]}}}}\n"
"""Every script is read for its commands, by the policy and for what text from outside becomes."""


def _tasks(part: Callable[[int], str]) -> Callable[[int], str]:
    return lambda size: filled(size, f"{HEAD}tasks:\n", part)


def _ladder(number: int) -> str:
    """Every task needs all of the twenty before it: paths without number."""
    needs = ", ".join(f"t{before}" for before in range(max(0, number - 20), number))
    return f"  - {{id: t{number}, uses: noop, needs: [{needs}]}}\n"


def _circle(size: int) -> str:
    tasks = size // 40
    return _tasks(lambda n: f"  - {{id: t{n}, uses: noop, needs: [t{(n + 1) % tasks}]}}\n")(size)


def _star(size: int) -> str:
    body = filled(size // 2, f"{HEAD}tasks:\n", lambda n: f"  - {{id: t{n}, uses: noop}}\n")
    tasks = body.count("id: t")
    return body + repeated(size - len(body), "", "") if not tasks else body + _all(tasks, size - len(body))


def _all(tasks: int, room: int) -> str:
    names = filled(room - 60, "", lambda n: f"t{n % tasks}, ")
    return f"  - {{id: last, uses: noop, needs: [{names}]}}\n"


def _nested_loops(size: int) -> str:
    lines, indent = [HEAD + "tasks:\n"], "  "
    for level in range(14):
        lines.append(f"{indent}- id: l{level}\n{indent}  loop:\n{indent}    max: 999999\n{indent}    tasks:\n")
        indent += "      "
    return filled(size, "".join(lines), lambda n: f"{indent}- {{id: t{n}, uses: noop}}\n")


def _doubling(size: int) -> str:
    """Named subplans, each of which uses the one before it as often as fits: tasks without number."""
    levels = 7
    each = max(2, size // levels // 40)
    parts = [HEAD, "subplans:\n", "  s0: {tasks: [{id: a, uses: noop}]}\n"]
    for level in range(1, levels):
        uses = ", ".join(f"{{id: u{n}, subplan: s{level - 1}}}" for n in range(each))
        parts.append(f"  s{level}: {{tasks: [{uses}]}}\n")
    return "".join(parts) + f"tasks: [{{id: x, subplan: s{levels - 1}}}]\n"


def _references(size: int) -> str:
    return _tasks(
        lambda n: (
            f"  - {{id: t{n}, run: 'echo {{{{ t{max(0, n - 1)}.output.x }}}} {{{{ params.p{n} }}}}', needs: [t{max(0, n - 1)}]}}\n"
        )
    )(size)


def _misspelt(size: int) -> str:
    """Every name is one letter off, and each asks for the nearest of all."""
    body = filled(size // 2, f"{HEAD}tasks:\n", lambda n: f"  - {{id: task_{n}, uses: noop}}\n")
    return filled(size, body, lambda n: f"  - {{id: other_{n}, uses: noop, needs: [tusk_{n}]}}\n")


def _aliased(size: int) -> str:
    head = f"{HEAD}x: &a\n" + "".join(f"  k{n}: v\n" for n in range(1000)) + "tasks:\n"
    return filled(size, head, lambda n: "  - <<: *a\n" if n < 1000 else f"  - {{id: t{n}, uses: noop}}\n")


def _keys(size: int) -> str:
    return filled(size, HEAD + "params:\n", lambda n: f"  p{n}: {n}\n", "tasks: [{id: a, uses: noop}]\n")


YAML: dict[str, Callable[[int], str]] = {
    "small tasks": _tasks(lambda n: f"  - {{id: t{n}, uses: noop}}\n"),
    "tasks that run": _tasks(lambda n: f"  - {{id: t{n}, run: x}}\n"),
    "a chain": _tasks(lambda n: f"  - {{id: t{n}, uses: noop, needs: [{'' if not n else f't{n - 1}'}]}}\n"),
    "a ladder": _tasks(_ladder),
    "a circle": _circle,
    "a star": _star,
    "gates": _tasks(lambda n: f"  - {{id: t{n}, ask: Well, approvers: [a{n}]}}\n"),
    "routes back": _tasks(lambda n: f"  - {{id: t{n}, uses: noop, on_failure: [{{to: t{max(0, n - 1)}, max: 3}}]}}\n"),
    "the same id": _tasks(lambda n: "  - {id: t, uses: noop}\n"),
    "unknown keys": _tasks(lambda n: f"  - {{id: t{n}, uses: noop, k{n}: 1}}\n"),
    "unknown capabilities": _tasks(lambda n: f"  - {{id: t{n}, uses: noob{n}}}\n"),
    "misspelt needs": _misspelt,
    "references": _references,
    "nested loops": _nested_loops,
    "doubling subplans": _doubling,
    "merged keys": _aliased,
    "parameters": _keys,
    "top level keys": lambda size: filled(size, HEAD, lambda n: f"k{n}: v\n"),
    "duplicate keys": lambda size: repeated(size, HEAD, "a: b\n"),
    "a list of dots": lambda size: repeated(size, "[", ".,", "]"),
    "a list of nothing": lambda size: repeated(size, "[", "~,", "]"),
    "empty lists": lambda size: repeated(size, HEAD + "tasks: [", "[],", "]"),
    "anchors": lambda size: filled(size, HEAD, lambda n: f"k{n}: &a{n} x\n"),
    "comments": lambda size: repeated(
        size, f"{HEAD}tasks: [{{id: a, uses: noop}}]\n", "# planrunner: ignore PLAN501\n"
    ),
    "blank lines": lambda size: repeated(size, f"{HEAD}tasks: [{{id: a, uses: noop}}]\n", "\n"),
    "open quote": lambda size: repeated(size, 'a: "', "b c\n"),
    "escapes": lambda size: repeated(size, 'a: "', "\\u0041", '"'),
    "tags": lambda size: repeated(size, "a:\n", "- !!str x\n"),
    "wide characters": lambda size: repeated(size, "plan: p\ntasks:\n  - id: ", "\U0001f468"),
    "not and not": expressions(lambda size: "not " * (size // 4) + "a"),
    "parentheses": expressions(lambda size: "(" * (size // 2) + "1" + ")" * (size // 2)),
    "a sum": expressions(lambda size: "1 + " * (size // 4) + "1"),
    "a product": expressions(lambda size: "99999999 * " * (size // 11) + "9"),
    "powers": expressions(lambda size: "9 ** " * (size // 5) + "9"),
    "conditions": expressions(lambda size: "a.output.x > 1 and " * (size // 19) + "b"),
    "a list of lists": expressions(lambda size: "x in [" + "[1], " * (size // 5) + "1]"),
    "a path": expressions(lambda size: "a" + ".b" * (size // 2)),
    "indices": expressions(lambda size: "a" + "[0]" * (size // 3)),
    "strings": expressions(lambda size: "x = " + '"' + "a" * (size - 10) + '"'),
    "an open string": expressions(lambda size: "x = " + '"' * (size - 10)),
    "a pattern": expressions(lambda size: 'matches(x, "' + "(a+)+" * (size // 6) + '$")'),
    "a constant pattern": expressions(lambda size: '"' + "a" * 40 + 'b" matches "(a|a)*(a|a)*(a|a)*$"', 100),
    "small patterns": expressions(lambda size: '"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!" matches "^(a+)+$"', 100),
    "calls in calls": expressions(lambda size: "len(" * (size // 5) + "a" + ")" * (size // 5)),
    "small conditions": expressions(lambda size: "a.output.x > 1 and not (b or c)", 60),
    "odd conditions": expressions(lambda size: "every test was fine, as far as one can see", 60),
    "templates": templates(lambda size: "{{ a }}" * (size // 7)),
    "open templates": templates(lambda size: "{{" * (size // 2)),
    "filters": templates(lambda size: "{{ a" + " | upper" * (size // 8) + " }}"),
    "a template of a list": templates(lambda size: "{{ [" + "1," * (size // 2) + "1] }}"),
    "nested templates": templates(lambda size: "{{ " + "(" * (size // 2) + "1" + ")" * (size // 2) + " }}"),
    "template additions": templates(lambda size: "{{ 1" + "+1" * (size // 2) + " }}"),
    "template products": templates(lambda size: "{{ " + " * ".join(["99999999999"] * 9) + " }}", 200),
    "statements": templates(lambda size: "{% if a %}" * (size // 20) + "{% endif %}" * (size // 22)),
    "small templates": templates(lambda size: "echo {{ params.a }} {{ b.output.c | default(1) }}", 80),
    "shell quotes": templates(lambda size: "echo " + "'" * (size - 10)),
    "shell brackets": templates(lambda size: "$(" * (size // 2)),
    "shell words": templates(lambda size: "a;" * (size // 2)),
    "here documents": templates(lambda size: "cat <<E {{ a }} " * (size // 16)),
    "shell commands": templates(lambda size: "a;" * (size // 2), head=JUDGED),
    "shell finders": templates(lambda size: "find -exec " * (size // 11), head=JUDGED),
    "shell carriers": templates(lambda size: "env " * (size // 4 - 4) + "curl", head=JUDGED),
    "shell braces": templates(lambda size: "{" * (size - 10), head=JUDGED),
    "small scripts": templates(lambda size: "curl a | b && c", 60, JUDGED),
    "shell templates": templates(lambda size: "$({{ a }} " * (size // 10)),
}
"""Shapes in YAML, by name."""

TEXT: dict[str, Callable[[int], str]] = {
    "text tasks": lambda size: filled(size, "", lambda n: f"task t{n} using:noop\n"),
    "text routes": lambda size: filled(size, "", lambda n: f"task t{n} using:noop\n  on success -> t{n + 1}\n"),
    "text faults": lambda size: repeated(size, "task a\n", "  nothing here\n"),
    "text keys": lambda size: filled(size, "plan p\n", lambda n: f"k{n}: v\n"),
    "text brackets": lambda size: repeated(size, "task a x:", "["),
    "text quotes": lambda size: repeated(size, "task a x:", "'"),
    "text templates": lambda size: repeated(size, "task a x:", "{{ "),
    "text words": lambda size: repeated(size, "task a ", "x "),
    "text dashes": lambda size: repeated(size, "task a\n  x:\n", "    - - -\n"),
}
JSON: dict[str, Callable[[int], str]] = {
    "json tasks": lambda size: filled(
        size,
        '{"plan": "p", "tasks": [{"id": "x", "uses": "noop"}',
        lambda n: f',{{"id": "t{n}", "uses": "noop"}}',
        "]}",
    ),
    "json keys": lambda size: filled(size, '{"plan": "p"', lambda n: f',"k{n}": 1', "}"),
    "json numbers": lambda size: repeated(size, "[1", ",1", "]"),
    "json escapes": lambda size: repeated(size, '{"plan": "', "\\u0041", '"}'),
    "json digits": lambda size: repeated(size, '{"plan": ', "9", "}"),
    "json commands": lambda size: filled(
        size, '{"plan": "p", "commands": [{"a": 1}', lambda n: f',{{"shell": "echo {n}"}}', "]}"
    ),
}
SHAPES = {
    **{name: ("x.yaml", make) for name, make in YAML.items()},
    **{name: ("x.plan", make) for name, make in TEXT.items()},
    **{name: ("x.json", make) for name, make in JSON.items()},
}
"""The name of a file and what makes its text, by the name of the shape."""
