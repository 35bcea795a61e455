"""The words of one command while a script is read: commands that evaluate their arguments take no values."""

from __future__ import annotations

import re

from planrunner.plan.expressions.problem import Problem
from planrunner.plan.placeholders import Placeholder

SHELLS = frozenset("sh bash dash ash ksh mksh zsh fish busybox su".split())
EVALUATING = frozenset("eval let unset read declare typeset getopts mapfile readarray alias source . trap".split())
"""Built-in commands that evaluate an argument as code, as arithmetic or as the name of a variable."""
DECLARING = frozenset("export local readonly".split())
_LEADS = frozenset("if then elif else while until do ! { time".split())
_NUMERIC = frozenset("-eq -ne -lt -le -gt -ge -v".split())
_ASSIGNMENT = r"[A-Za-z_][A-Za-z0-9_]*\+?="
_HOLE = "\0"


class Word:
    """The literal text of a word, with a NUL for each template, and the templates.

    The text is joined when it is asked for: to lengthen it sign by sign costs the square of its length.
    """

    __slots__ = ("_parts", "add", "holes")

    def __init__(self) -> None:
        self._parts: list[str] = []
        self.add = self._parts.append
        self.holes: list[Placeholder] = []

    @property
    def text(self) -> str:
        if len(self._parts) != 1:
            self._parts[:] = ["".join(self._parts)]
        return self._parts[0]

    def hole(self, found: Placeholder) -> None:
        self.add(_HOLE)
        self.holes.append(found)


class Command:
    """The command being read, and the ``case`` constructs around it (their patterns end with a lone bracket)."""

    __slots__ = ("_brackets", "_cases", "_problems", "_words", "word")

    def __init__(self, problems: list[Problem]) -> None:
        self.word: Word | None = None
        self._words: list[Word] = []
        self._cases: list[str] = []
        self._problems = problems
        self._brackets = False

    def current(self) -> Word:
        if self.word is None:
            self.word = Word()
        return self.word

    @property
    def in_pattern(self) -> bool:
        return bool(self._cases) and self._cases[-1] == "pattern"

    def word_ends(self) -> None:
        if self.word is None:
            return
        word, self.word = self.word, None
        if self._case_word(word.text):
            return
        if not self._words and word.text in _LEADS:
            return
        if not self._words and word.text == "[[":
            self._brackets = True
        self._words.append(word)
        if word.text == "]]":
            self._brackets = False

    def _case_word(self, text: str) -> bool:
        state = self._cases[-1] if self._cases else ""
        if state == "subject":
            if text == "in":
                self._cases[-1] = "pattern"
            return True
        if state in ("pattern", "body") and text == "esac" and not self._words:
            self._cases.pop()
            return True
        if text == "case" and not self._words and state != "pattern":
            self._cases.append("subject")
            return True
        return state == "pattern"

    def pattern_ends(self) -> bool:
        """At a closing bracket: whether it ends the pattern of a ``case`` branch."""
        self.word_ends()
        if not self.in_pattern:
            return False
        self._cases[-1] = "body"
        return True

    def ends(self, branch: bool = False) -> None:
        """The command is complete; ``branch``: by ``;;``, after which the next pattern of a ``case`` follows."""
        self.word_ends()
        if self._brackets:
            return
        self.judge(self._words)
        self._words = []
        if branch and self._cases:
            self._cases[-1] = "pattern"

    def judge(self, words: list[Word]) -> None:
        """Report templates that the command would evaluate."""
        if not any(word.holes for word in words):
            return
        start = 0
        while start < len(words) and (
            re.match(_ASSIGNMENT, words[start].text) or words[start].text in ("command", "builtin")
        ):
            start += 1
        if start == len(words):
            return
        name, arguments = words[start].text.rpartition("/")[2], words[start + 1 :]
        texts = [word.text for word in arguments]
        if name in EVALUATING or (name == "printf" and "-v" in texts) or (name in ("test", "[") and "-v" in texts):
            self._refuse(arguments, f"to `{name}`, which evaluates its arguments")
        elif name == "[[" and _NUMERIC & set(texts):
            self._refuse(arguments, "to a numeric test in `[[ … ]]`, which evaluates it", "use `[ … ]` instead")
        elif name in DECLARING:
            unsafe = any(re.match(r"-\w*[inA]", text) for text in texts)
            self._refuse([word for word in arguments if unsafe or not re.match(_ASSIGNMENT, word.text)], f"to `{name}`")
        self._judge_shells(words[start:])

    def _judge_shells(self, words: list[Word]) -> None:
        """``bash -c "…"`` anywhere in the command, also behind ``sudo`` or ``xargs``: its code takes no values."""
        for position, word in enumerate(words):
            if word.text.rpartition("/")[2] not in SHELLS:
                continue
            for option, code in zip(words[position + 1 :], words[position + 2 :], strict=False):
                if re.fullmatch(r"-[A-Za-z]*c|--command", option.text):
                    shell = word.text.rpartition("/")[2]
                    way_out = f"pass it as an argument: `{shell} -c '… \"$1\" …' {shell} {{{{ … }}}}`"
                    self._refuse([code], f"into code for `{shell} -c`", way_out)
                    break

    def _refuse(
        self, words: list[Word], where: str, way_out: str = "pass the value to a command that takes data"
    ) -> None:
        for hole in (hole for word in words for hole in word.holes):
            self._problems.append(
                Problem("PLAN211", f"no value can be passed safely {where}", hole.start, hole.end, way_out)
            )
