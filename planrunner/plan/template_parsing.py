"""Parsing of templates: numbers that Python cannot read or hold are told of like anything else that does not parse."""

from __future__ import annotations

import math

from jinja2 import TemplateSyntaxError, nodes
from jinja2.sandbox import ImmutableSandboxedEnvironment


class ParsingEnvironment(ImmutableSandboxedEnvironment):
    """Jinja's own lets what Python says of a literal through: digits of other scripts (SyntaxError), whole numbers of
    thousands of digits (ValueError); and numbers beyond the largest are names that nobody has defined."""

    def parse(self, source: str, name: str | None = None, filename: str | None = None) -> nodes.Template:
        try:
            tree = super().parse(source, name, filename)
        except (SyntaxError, ValueError):
            raise TemplateSyntaxError("a number in it cannot be read", 1) from None
        for found in tree.find_all(nodes.Const):
            if isinstance(found.value, float) and not math.isfinite(found.value):
                raise TemplateSyntaxError("a number in it is too large", found.lineno or 1)
        return tree
