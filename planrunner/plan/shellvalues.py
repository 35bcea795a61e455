"""What becomes of the templates of a script: each is replaced by a variable, refused, or dropped."""

from __future__ import annotations

from planrunner.plan.expressions.problem import Problem
from planrunner.plan.placeholders import placeholders
from planrunner.plan.shellcommand import Word

ARGUMENT = "set a shell variable first, such as `value={{ … }}`, and use `$value`"


class Values:
    """A place in a script, its templates, the text written so far. ``ambiguous``: shells disagree from here on."""

    def __init__(self, text: str, prefix: str, templates: bool = True) -> None:
        self.text = text
        self.at = 0
        self.problems: list[Problem] = []
        self.names: dict[str, str] = {}
        self.ambiguous = False
        self._prefix = prefix
        self._holes = {found.start: found for found in placeholders(text) if found.closed} if templates else {}
        self._out: list[str] = []
        self._copied = 0

    def result(self) -> str:
        """The script with every template replaced."""
        return "".join([*self._out, self.text[self._copied :]])

    def _name(self, template: str) -> str:
        return self.names.setdefault(template, f"{self._prefix}{len(self.names)}")

    def _put(self, form: str) -> None:
        """Replace the template here; ``form`` holds ``@`` for the name of its variable."""
        hole = self._holes[self.at]
        if self.ambiguous:
            self._refuse("behind `$'…\\'…'`, which shells read differently", ARGUMENT)
            return
        template = self.text[hole.start : hole.end]
        self._out += [self.text[self._copied : hole.start], form.replace("@", self._name(template)) if form else ""]
        self._copied = self.at = hole.end

    def _refuse(self, where: str, way_out: str = ARGUMENT) -> None:
        hole = self._holes[self.at]
        self.problems.append(
            Problem("PLAN211", f"no value can be passed safely {where}", hole.start, hole.end, way_out)
        )
        self.at = hole.end

    def _beyond(self) -> None:
        """At a place that is more than words, quotes and lists of commands, or that is never closed. Here all of it is
        passed over; whoever must know every command stops."""

    def _escaped(self, word: Word | None = None, inside: bool = False) -> None:
        """A backslash and what it quotes, which ``word`` gets; ``inside`` double quotes most of it stays as it is."""
        self.at += 1
        if self.at in self._holes:
            self._refuse("right after a backslash", "put the template into quotes, without the backslash")
            return
        sign = self.text[self.at : self.at + 1]
        self.at += 1
        if not sign:
            self._beyond()
        elif word is not None and sign != "\n":
            word.quote(f"\\{sign}" if inside and sign not in '$`"\\' else sign)
