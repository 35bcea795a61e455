"""The findings of the YAML reader, in our words: libyaml's own name the rule of its scanner, not what a person did."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from typing import Any

from planrunner.diagnostics import Diagnostic, Edit, Fix, Label
from planrunner.records import Struct
from planrunner.source import Span
from planrunner.syntax.limits import find_unreadable
from planrunner.syntax.tree import Mapping, Node, Plain, Scalar


def old_yaml(text: str, value: Plain, mistaken: str, span: Span) -> Diagnostic:
    """The warning about a word that readers of YAML 1.1 take for something else."""
    if isinstance(value, str):
        fix = Fix("quote it", (Edit(span, f'"{text}"'),))
        return Diagnostic(
            "PLAN010", f"`{text}` is text here, but {mistaken} for older YAML readers", span, fix=fix, help="quote it"
        )
    fix = Fix("quote it", (Edit(span, f'"{text}"'),), safe=False)
    help = f'write {value}, or "{text}" if text is meant'
    return Diagnostic(
        "PLAN010", f"`{text}` is {value} here, but {mistaken} for older YAML readers", span, fix=fix, help=help
    )


def other_digits(tree: Node | None) -> Iterator[Diagnostic]:
    """Whole numbers among the values of a mapping that are written in another way than they are shown, such as
    ``0012345`` and ``0x1F``: where the type that a plan declares is not known yet, they may be meant as text."""
    for _, node in tree.entries if isinstance(tree, Mapping) else ():
        if not isinstance(node, Scalar) or node.style or type(node.value) is not int:
            continue
        if node.raw.removeprefix("+") != str(node.value):
            help = f'write {node.value}, or "{node.raw}" if text is meant'
            yield Diagnostic("PLAN006", f"`{node.raw}` reads as the number {node.value}", node.span, help=help)


def nearest(name: str, known: Iterable[str]) -> str:
    """The known name that looks most like ``name``, or an empty string."""
    return next(iter(get_close_matches(name, list(known), n=1)), "")


def collection_as_key(text: str, start: int, outer: int) -> Diagnostic:
    if text[start - 1 : start + 1] == "{{" and outer == start - 1:
        return _template(text, outer)
    message = "a mapping or a list stands where a key should be"
    return Diagnostic("PLAN013", message, Span(start, start + 1), help="keys are plain words or strings")


def _template(text: str, start: int) -> Diagnostic:
    whole = Span(start, _template_end(text, start))
    raw = text[whole.start : whole.end]
    escaped = raw.replace("\\", "\\\\").replace('"', '\\"')
    fix = Fix("quote the value", (Edit(whole, f'"{escaped}"'),))
    message = "a value that starts with `{{` must be quoted"
    return Diagnostic("PLAN001", message, whole, help=f'write "{escaped}"' if len(raw) < 60 else "quote it", fix=fix)


_IN_BRACKETS = re.compile(r"\{\{[^{}\n]*\}\}[^,\]}\s]*")


def _template_end(text: str, start: int) -> int:
    """Where the value ends that a template begins: in brackets before a comma or bracket, else with its line."""
    before = text[_start_of_line(text, start) : start]
    inner = _IN_BRACKETS.match(text, start) if re.search(r"[\[{]", before) else None
    return inner.end() if inner else _value_end(text, start)


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end


def _value_end(text: str, start: int) -> int:
    value = re.split(r"\s#", text[start : _line_end(text, start)], maxsplit=1)[0]
    return start + len(value.rstrip())


class _Problem(Struct):
    """libyaml's report: its words, where the trouble showed (``at``) and where the construct began (``begin``)."""

    words: str
    context: str
    at: int
    begin: int


def explain(error: Any, text: str) -> Diagnostic:
    """The finding for an exception of the YAML parser."""
    mark = getattr(error, "problem_mark", None)
    unreadable = find_unreadable(text)
    if mark is None or (unreadable is not None and unreadable.span.start <= mark.index):
        return unreadable or Diagnostic("PLAN001", "the text cannot be read", Span(0, 0))
    begin = getattr(error, "context_mark", None) or mark
    at = min(mark.index, len(text))
    problem = _Problem(str(error.problem or ""), str(error.context or ""), at, min(begin.index, len(text)))
    return _cause(problem, text)


def _cause(problem: _Problem, text: str) -> Diagnostic:
    for cause in (_tab, _odd_start, _quote, _escape, _bracket, _after_quote, _colon, _indent, _alias, _directive):
        finding = cause(problem, text)
        if finding is not None:
            return finding
    return _at(problem.at, "the text does not follow the rules of YAML here", f"the parser says: {problem.words}")


def _at(start: int, message: str, help: str = "", end: int = 0, labels: tuple[Label, ...] = ()) -> Diagnostic:
    return Diagnostic("PLAN001", message, Span(start, end or start + 1), labels=labels, help=help)


def _start_of_line(text: str, at: int) -> int:
    return text.rfind("\n", 0, at) + 1


def _tab(problem: _Problem, text: str) -> Diagnostic | None:
    begin = _start_of_line(text, problem.at)
    indent = re.compile(r"[ \t]*").match(text, begin)
    assert indent is not None
    tab = indent.group().find("\t")
    if tab < 0 or problem.at > indent.end() or "quoted" in problem.context:
        return None
    return _at(begin + tab, "a tab stands in the indentation; YAML indents with spaces", "replace the tab by spaces")


def _odd_start(problem: _Problem, text: str) -> Diagnostic | None:
    if "cannot start any token" not in problem.words:
        return None
    character = text[problem.at : problem.at + 1]
    shown = "a backtick" if character == "`" else f"`{character}`"
    return _at(problem.at, f"a value cannot start with {shown}", "quote the value")


def _quote(problem: _Problem, text: str) -> Diagnostic | None:
    if "quoted scalar" not in problem.context or "escape" in problem.words:
        return None
    if "document indicator" in problem.words:
        return _at(problem.begin, "a quoted text is not closed before the next `---`", "close the quote")
    return _at(
        problem.begin,
        f"this quote ({text[problem.begin : problem.begin + 1]}) is never closed",
        "close it, on the same line if you can",
    )


def _escape(problem: _Problem, text: str) -> Diagnostic | None:
    if "quoted scalar" not in problem.context:
        return None
    start = text.rfind("\\", problem.begin, problem.at + 2)
    start = problem.at if start < 0 else start
    shown = text[start : start + 2]
    if "unknown escape" in problem.words:
        return _at(
            start,
            f"`{shown}` is not an escape that YAML knows",
            "write `\\\\` for a backslash, or use single quotes",
            start + 2,
        )
    return _at(start, f"the escape `{shown}` does not name a character", "write the character itself", start + 2)


def _bracket(problem: _Problem, text: str) -> Diagnostic | None:
    what = "list" if "sequence" in problem.context else "mapping"
    if "flow" not in problem.context:
        if "node content" not in problem.words:
            return None
        character = text[problem.at : problem.at + 1]
        if character in "]}":
            return _at(problem.at, f"this `{character}` closes nothing", "delete it, or quote the value")
        return _at(problem.at, f"a value cannot start with `{character}`", "quote the value")
    if "node content" in problem.words:
        if not text[problem.at :].strip():
            return _unclosed(text)
        character = text[problem.at : problem.at + 1]
        return _at(problem.at, f"a value is missing before this `{character}`", "write the value, or delete the comma")
    bracket = text[problem.begin : problem.begin + 1]
    if text[problem.begin : problem.begin + 2] == "{{":
        return _template(text, problem.begin)
    close = "]" if bracket == "[" else "}"
    if text[problem.at : problem.at + 1] in ("]", "}"):
        return _at(
            problem.at,
            f"this `{text[problem.at]}` does not close the `{bracket}` that is open",
            f"close the {what} with `{close}`",
        )
    between = text[problem.begin : problem.at]
    if "\n" in between or not text[problem.at :].strip():
        return _at(problem.begin, f"this `{bracket}` is never closed", f"close the {what} with `{close}`")
    if text[problem.at] == "?":
        help = f"quote the text that has it: {_quoted(problem, text)}"
        return _at(problem.at, "a `?` in braces or brackets must be quoted", help)
    return _at(
        problem.at,
        f"a comma is missing in this {what}",
        "separate the items with commas, quote an item that has `:` or quotes in it",
    )


def _quoted(problem: _Problem, text: str) -> str:
    """The value around a question mark, in quotes: libyaml ends it there, though YAML 1.2 does not."""
    start = max(text.rfind(sign, 0, problem.at) for sign in (", ", ": ", "[", "{")) + 1
    end = re.compile(r"[^,\]}\n]*").match(text, problem.at)
    value = text[start : end.end() if end else problem.at].strip()
    return f'"{value}"' if value and len(value) < 60 and not set(value) & set('"\\\n') else '"…?"'


def _unclosed(text: str) -> Diagnostic:
    start = max(text.rfind("["), text.rfind("{"), 0)
    return _at(start, f"this `{text[start : start + 1]}` is never closed", "close it, or quote the value")


_GLUED = re.compile(r"[ \t]*(?:- +)*([A-Za-z_][\w.-]*):(?=[^\s:/])")


def _after_quote(problem: _Problem, text: str) -> Diagnostic | None:
    begin = _start_of_line(text, problem.at)
    before = text[begin : problem.at]
    if re.search("anchor|alias|block scalar|a tag", problem.context):  # `"x" && y`, `"x" | "y"`
        before = text[begin : problem.begin]
        if before.rstrip()[-1:] not in ("'", '"'):
            return None
        problem = problem._replace(at=problem.begin)
    elif "expected key" not in problem.words and "expected '-'" not in problem.words:
        return None
    if not before.strip():
        return None
    character = text[problem.at : problem.at + 1]
    if character and character in "]}":
        return _at(problem.at, f"this `{character}` closes nothing", "delete it, or quote the value")
    if before.rstrip()[-1:] in "'\"":
        help = "quote the whole value, with the other kind of quotes if it has quotes in it"
        return _at(problem.at, "the value goes on after its closing quote", help)
    return _at(problem.at, "the value goes on after its end", "quote the whole value")


def _colon(problem: _Problem, text: str) -> Diagnostic | None:
    begin = _start_of_line(text, problem.at)
    if "found unexpected ':'" in problem.words and "plain scalar" in problem.context:
        if text[: problem.begin].rstrip().endswith("{{"):
            return _template(text, text.rfind("{{", 0, problem.begin))
        return colon_in_flow(text, problem.begin, problem.at)
    if "mapping values are not allowed" in problem.words:
        return _misplaced_colon(problem.at, begin, text)
    if "could not find expected ':'" in problem.words:
        start = problem.begin
        if problem.at - start > 1000 and "\n" not in text[start : problem.at]:
            return _at(start, "a key is longer than 1,024 characters", "shorten it")
        line = text[start : _line_end(text, start)]
        glued = _GLUED.match(line)
        if glued:
            return _glued(start, glued)
        return _at(
            start,
            "a key without `:` and a value",
            "write `key: value`, or indent the line if it goes on",
            start + len(line.rstrip()),
        )
    if "block sequence entries are not allowed" in problem.words:
        return _at(
            problem.at,
            "a list item cannot stand on the line of its key",
            "put each `- item` on a line of its own, or write [a, b]",
        )
    return None


def _glued(line: int, glued: re.Match[str]) -> Diagnostic:
    at = line + glued.end(1)
    fix = Fix("put a space after the colon", (Edit(Span(at + 1, at + 1), " "),))
    return Diagnostic(
        "PLAN001", f"a space is missing after `{glued[1]}:`", Span(at, at + 1), help=f"write `{glued[1]}: …`", fix=fix
    )


def _misplaced_colon(at: int, begin: int, text: str) -> Diagnostic:
    before = text[begin:at]
    previous = _start_of_line(text, max(begin - 1, 0))
    if ": " in before or re.search(r":\s", before):
        is_script = re.match(r"[\s-]*run:", before) is not None
        way_out = "write `run: |` and the script below it, indented" if is_script else "quote the value"
        return _at(at, "a second `: ` stands in a value that is not quoted", way_out)
    if begin > previous:
        glued = _GLUED.match(text[previous : begin - 1])
        if glued:
            return _glued(previous, glued)
        above = text[previous : begin - 1]
        first = begin + len(before) - len(before.lstrip())
        if len(before) - len(before.lstrip()) > len(above) - len(above.lstrip(" -")) and ":" in above:
            key = above.strip().partition(":")[0].lstrip("- ")
            message = f"this line is indented deeper than `{key}`, which has a value already"
            return _at(first, message, "indent it as its neighbours, or take the value above away", at)
        if ":" not in above:
            return _at(
                previous + len(above) - len(above.lstrip()),
                "a line without `:` stands between keys",
                "write `key: value`",
                begin - 1,
            )
    return _at(at, "this `:` stands where no key can be", "quote the text if the colon belongs to it")


def _indent(problem: _Problem, text: str) -> Diagnostic | None:
    if "expected key" in problem.words:
        begin = _start_of_line(text, problem.at)
        label = (Label(Span(problem.begin, problem.begin + 1), "the mapping starts here"),)
        if text[problem.at : problem.at + 2] in ("- ", "-\n"):
            return _at(
                problem.at,
                "this list item is not in line with the others",
                "indent it as the items above",
                labels=label,
            )
        if text[problem.at : problem.at + 1] == ":":
            return _at(problem.at, "a key is missing before `:`", "write `key: value`")
        if problem.at - begin == 0 and text[problem.at : problem.at + 1] == "%":
            return _at(problem.at, "a value cannot start with `%`", "quote the value")
        return _at(
            problem.at, "this line is not in line with the keys above", "indent it as its neighbours", labels=label
        )
    if "expected '-'" in problem.words:
        label = (Label(Span(problem.begin, problem.begin + 1), "the list starts here"),)
        line = text[_start_of_line(text, problem.at) :].partition("\n")[0]
        if key := re.match(r" *([\w-]+):(?:\s|$)", line):
            message = f"the key `{key[1]}` is not in line with the keys of the item above"
            return _at(problem.at, message, "indent it as they are; an item begins with `- `", labels=label)
        return _at(problem.at, "an item of this list must start with `- ` in the same column", "", labels=label)
    if "block scalar" in problem.context:
        return _at(
            problem.at, "after `|` or `>` only `+`, `-` and a digit may stand", "start the text on the next line"
        )
    return None


def _alias(problem: _Problem, text: str) -> Diagnostic | None:
    if "anchor" in problem.context or "alias" in problem.context:
        character = text[problem.begin : problem.begin + 1]
        return _at(problem.begin, f"after `{character}` a name must follow", "quote the value if text is meant")
    if "tag" in problem.context or "tag" in problem.words:
        return Diagnostic(
            "PLAN013",
            "this tag is not supported",
            Span(problem.begin, problem.begin + 1),
            help="quote the value if text is meant",
        )
    return None


def _directive(problem: _Problem, text: str) -> Diagnostic | None:
    if "directive" in problem.context or "incompatible" in problem.words:
        return _at(problem.begin, "this `%` line is not a directive that plans use", "delete it")
    if "document start" in problem.words:
        message = "a plan file holds one document; the text goes on after its end"
        return Diagnostic(
            "PLAN013",
            message,
            Span(problem.at, problem.at + 1),
            help="delete the `...` line, or put each plan into its own file",
        )
    return None


_REST = re.compile(r"[^,\[\]{}\n]*")
_KEY = re.compile(r"[A-Za-z_][\w.-]*(?=:)")
_SHOWN = 60


def colon_in_flow(text: str, begin: int, at: int) -> Diagnostic:
    """What to do about the colon at ``at`` in the text that begins at ``begin``: quote it, or put a space after it."""
    key = _KEY.match(text, begin)
    if key is not None and key.end() == at and _is_key(text, begin):
        fix = Fix("put a space after the colon", (Edit(Span(at + 1, at + 1), " "),))
        message, help_ = f"a space is missing after `{key[0]}:`", f"write `{key[0]}: …`"
        return Diagnostic("PLAN001", message, Span(at, at + 1), help=help_, fix=fix)
    rest = _REST.match(text, at)
    assert rest is not None, "nothing is a rest as well"
    raw = text[begin : rest.end()].rstrip()
    message = "a text with `:` in it must be quoted in braces or brackets"
    if set(raw) & set('"\\'):
        return Diagnostic("PLAN001", message, Span(at, at + 1), help="quote the whole value")
    help_ = f'write "{raw}"' if len(raw) <= _SHOWN else "quote the value"
    span = Span(begin, begin + len(raw))
    return Diagnostic("PLAN001", message, span, help=help_, fix=Fix("quote it", (Edit(span, f'"{raw}"'),)))


def _is_key(text: str, begin: int) -> bool:
    """Whether a text in a flow collection begins where a key of a mapping does."""
    before = text[:begin].rstrip()
    if before[-1:] != ",":
        return before[-1:] == "{"
    depth = 0
    for sign in reversed(before):
        depth += (sign in "]}") - (sign in "[{")
        if depth < 0:
            return sign == "{"
    return False
