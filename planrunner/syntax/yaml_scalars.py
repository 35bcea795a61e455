"""The scalars of YAML that are more than a string as written: typed words, tags, and what older readers misread."""

from __future__ import annotations

import re
from typing import Any

from planrunner.diagnostics import Diagnostic
from planrunner.source import Span
from planrunner.syntax.limits import Refused, check_scalar
from planrunner.syntax.scalars import SUSPICIOUS_KEYS, Unusable, resolve, trap
from planrunner.syntax.tree import Plain, Scalar
from planrunner.syntax.yaml_errors import old_yaml

_CORE = "tag:yaml.org,2002:"
_CORE_SCALARS = ("str", "int", "float", "bool", "null")
_PROPERTIES = re.compile(r"(?:[&!][^\s,\[\]{}]*(?:\s|#[^\n]*\n)*)+")


class ScalarReader:
    """Reads the scalars of one text; ``words`` are the values of the words met so far, but for those with a finding."""

    __slots__ = ("_findings", "_text", "words")

    def __init__(self, text: str, findings: list[Diagnostic]) -> None:
        self._text = text
        self._findings = findings
        self.words: dict[str, Plain] = {}

    def typed(self, text: str, start: int, end: int) -> Plain:
        """The value of an unquoted scalar whose first character leaves open what it is."""
        value = self._resolved(text, start, end)
        mistaken = trap(text)
        if mistaken:
            self._misread(text, value, mistaken, Span(start, end))
        else:
            self.words[text] = value
        return value

    def check_key(self, text: str, start: int, end: int) -> None:
        if not text:
            raise Refused(Diagnostic("PLAN001", "a key is missing before `:`", Span(start, start + 1)))
        self._misread(text, text, "a boolean", Span(start, end))

    def _misread(self, text: str, value: Plain, mistaken: str, span: Span) -> None:
        self._findings.append(old_yaml(text, value, mistaken, span))

    def _resolved(self, text: str, start: int, end: int) -> Plain:
        try:
            return resolve(text)
        except Unusable as problem:
            raise Refused(
                Diagnostic("PLAN013", str(problem), Span(start, end), help="quote it if text is meant")
            ) from None

    def special(self, event: Any, is_key: bool) -> Scalar:
        """A scalar with an anchor or a tag, or one that is too long."""
        anchor, tag, _, text, start_mark, end_mark, style = event
        begin, end = start_mark.index, end_mark.index
        check_scalar(len(text), begin, end)
        start = self.after_properties(begin, end)
        raw = self._text[start:end].rstrip(" \t\r\n") if style in ("|", ">") else self._text[start:end]
        end = start + len(raw)
        kind = self.check_tag(tag, begin, _CORE_SCALARS)
        value: Plain = text
        if is_key:
            if not style and text in SUSPICIOUS_KEYS:
                self.check_key(text, start, end)
        elif kind and kind != "str":
            value = self._tagged(kind, text, Span(start, end))
        elif not kind and not style:
            value = self.typed(text, start, end)
        node = Scalar(value, start, end, raw, style or "")
        node.anchor = anchor or ""
        return node

    def after_properties(self, start: int, end: int) -> int:
        """The start of a node itself, behind its anchor and tag (libyaml starts it with those)."""
        found = _PROPERTIES.match(self._text, start)
        return min(found.end(), end) if found else start

    def check_tag(self, found: Any, begin: int, allowed: tuple[str, ...]) -> str:
        """The core type that a tag names, ``str`` for a lone ``!``, empty without a tag."""
        if found is None:
            return ""
        tag = str(found)
        if tag == "!":
            return "str"
        name = tag[len(_CORE) :] if tag.startswith(_CORE) else ""
        if name in allowed:
            return name
        shown = f"!!{name}" if name else tag
        start = self._text.find("!", begin)
        help = "plans use plain YAML: only !!str, !!int, !!float, !!bool, !!null, !!seq and !!map are read"
        raise Refused(
            Diagnostic("PLAN013", f"the tag `{shown}` is not supported", Span(start, start + len(shown)), help=help)
        )

    def _tagged(self, kind: str, text: str, span: Span) -> Plain:
        value = self._resolved(text, *span)
        if kind == "float" and isinstance(value, int) and not isinstance(value, bool):
            return float(value)
        expected = {"int": int, "float": float, "bool": bool, "null": type(None)}[kind]
        if type(value) is not expected:
            raise Refused(Diagnostic("PLAN013", f"`{text[:40]}` is not what its tag `!!{kind}` says", span))
        return value
