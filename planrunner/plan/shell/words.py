"""The words of one command while a script is read: commands that evaluate their arguments take no values."""

from __future__ import annotations

import re

from planrunner.plan.expressions.values import Problem
from planrunner.plan.templates import Placeholder

SHELLS = frozenset("sh bash dash ash ksh mksh zsh fish busybox su".split())
CARRIERS = frozenset(
    "env sudo doas nohup timeout nice ionice setsid stdbuf time exec command builtin xargs parallel chroot watch flock "
    "unshare strace taskset caffeinate".split()
)
"""Programs that start the one which their arguments name."""
EVALUATING = frozenset("eval let unset read declare typeset getopts mapfile readarray alias source . trap".split())
"""Built-in commands that evaluate an argument as code, as arithmetic or as the name of a variable."""
DECLARING = frozenset("export local readonly".split())
LEADS = frozenset("if then elif else while until do ! {".split())
"""Words of the grammar that a command follows."""
_LEADS = LEADS | frozenset(("time", "coproc", "-p"))  # the last is an option of `time`
_LEADING = frozenset("builtin command exec time".split())
_NUMERIC = frozenset("-eq -ne -lt -le -gt -ge -v".split())
_ASSIGNMENT = r"[A-Za-z_][A-Za-z0-9_]*\+?="
_OF_ANY = r"[A-Za-z_][A-Za-z0-9_]*(\[[^]]*\])?\+?="
"""An assignment to a variable or, in bash, to one place of an array."""
_DESCRIPTOR = r"[0-9]+|\{[A-Za-z_][A-Za-z0-9_]*\}"
_HOLE = "\0"
_QUOTED = "\1"


class Word:
    """The text of a word without its quotes, with a NUL for each template, and the templates.

    The text is joined when it is asked for: to lengthen it sign by sign costs the square of its length.
    """

    __slots__ = ("_parts", "_shape", "holes", "single", "within")

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._shape: list[str] = []
        self.holes: list[Placeholder] = []
        self.single: list[Placeholder] = []
        """The templates in single quotes, where the reader tells them apart."""
        self.within: list[Word] = []
        """The words of the commands that give a part of it, where the reader follows them."""

    @property
    def text(self) -> str:
        if len(self._parts) != 1:
            self._parts[:] = ["".join(self._parts)]
        return self._parts[0]

    @property
    def shape(self) -> str:
        """What of the text is not quoted, with one sign that is in no name for each part that is."""
        if len(self._shape) != 1:
            self._shape[:] = ["".join(self._shape)]
        return self._shape[0]

    @property
    def bare(self) -> bool:
        """Whether nothing of it is quoted: only then it can be a word of the grammar."""
        return _QUOTED not in self.shape

    def add(self, text: str) -> None:
        self._parts.append(text)
        self._shape.append(text)

    def quote(self, text: str) -> None:
        """More text whose signs mean nothing to the shell."""
        self._parts.append(text)
        self._shape.append(_QUOTED)

    def spread(self, text: str) -> None:
        """More text, of which the shell may make other words."""
        self._parts.append(text)
        self._shape.append("*")

    def hole(self, found: Placeholder) -> None:
        self.quote(_HOLE)
        self.holes.append(found)


def started(words: list[Word]) -> list[Word]:
    """The program that a command starts, with its arguments: without the assignments before it, and without those words
    of the shell that only lead to it. Empty without one."""
    at = 0
    while at < len(words) and re.match(_OF_ANY, words[at].shape):
        at += 1
    while at < len(words) and words[at].text in _LEADING:
        at += 1
        while at < len(words) and words[at].text.startswith("-"):
            at += 1
    return words[at:]


class Command:
    """The command being read, and the ``case`` constructs around it (their patterns end with a lone bracket)."""

    __slots__ = ("_begun", "_brackets", "_cases", "_named", "_problems", "_read", "_target", "_words", "word")

    def __init__(self, problems: list[Problem]) -> None:
        self.word: Word | None = None
        self._words: list[Word] = []
        self._cases: list[str] = []
        self._problems = problems
        self._brackets = False
        self._begun = False
        self._named = False
        self._target: str | None = None
        self._read: list[Word] = []

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
        if self._target is not None:
            target, self._target = self._target, None
            self._begun = True  # no word of the grammar stands behind a redirection
            self.goes(target, word)
            return
        if self._case_word(word) or (not self._words and not self._begun and self._leads(word)):
            return
        if not self._words and word.text == "[[":
            self._brackets = True
        self._words.append(word)
        if word.text == "]]":
            self._brackets = False

    def redirected(self, sign: str) -> None:
        """At a redirection, which takes the next word (with "" as ``sign`` none); a number before it is not a word."""
        if self._brackets:
            self.word_ends()  # there it compares
            return
        if self.word is not None and self.word.bare and re.fullmatch(_DESCRIPTOR, self.word.text):
            self.word = None
        self.word_ends()
        self._target = sign or None
        self._begun = self._begun or not sign

    def goes(self, sign: str, word: Word) -> None:
        """The word of a redirection: what is read counts like an argument, for an interpreter runs it."""
        if sign in ("<", "<>", "<<<"):
            self._read.append(word)

    def defines(self) -> bool:
        """At ``()``: whether the one word before it names a function, whose commands follow."""
        self.word_ends()
        found = len(self._words) == 1 and not self._brackets
        if found:
            self._words = []
        return found

    def _leads(self, word: Word) -> bool:
        """Whether a word stands before the command."""
        if self._named:
            self._named = False
            return True
        self._named = word.bare and word.text == "function"
        return self._named or (word.bare and word.text in _LEADS)

    def _case_word(self, word: Word) -> bool:
        state = self._cases[-1] if self._cases else ""
        text = word.text
        if state == "subject":
            if text == "in":
                self._cases[-1] = "pattern"
            return True
        if state in ("pattern", "body") and text == "esac" and word.bare and not self._words:
            self._cases.pop()
            return True
        if text == "case" and word.bare and not self._words and state != "pattern":
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
        self._target = None
        if self._brackets:
            return
        self.judge(self._words + self._read)
        self._words, self._read, self._begun, self._named = [], [], False, False
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
                Problem("PLAN211", f"a value cannot be passed safely {where}", hole.start, hole.end, way_out)
            )
