"""Where the values of a command end up: as data, or as what runs, as a host, as an option of another program.

A template in a script is data already (``plan/shelltext.py``), so what is looked for here are the few commands that
make something of an argument: a shell, an interpreter, ``eval``, ``ssh``, ``curl`` and what starts other commands. A
variable of the task counts like a template.
"""

from __future__ import annotations

import os
import re

from planrunner.plan.placeholders import Placeholder, placeholders
from planrunner.plan.shellcommand import CARRIERS, SHELLS, Command, Word
from planrunner.plan.shellquotes import DEEPEST
from planrunner.plan.shellscan import Scan
from planrunner.plan.taint.hosts import in_authority
from planrunner.record import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from planrunner.plan.expressions.problem import Problem

HOLE = "\0"
VARIABLE = "env"
"""The name under which a variable of the task stands in the place of a template: ``{{ env.NAME }}``."""

_ASSIGNMENT = r"(?s)[A-Za-z_][A-Za-z0-9_]*(?:\[.*\])?\+?="
_INTERPRETERS = r"(python|pypy|perl|ruby|node|nodejs|deno|bun|php|lua|Rscript|osascript|tclsh|pwsh)[0-9.]*"
_CODE = {"perl": r"-\w*[eE]", "ruby": "-e", "node": "-e|-p|--eval|--print", "nodejs": "-e", "php": "-r", "lua": "-e"}
_TAKING = frozenset("-u -g -h -p -C -n -P -d -L -s -k -I -E -a -c -o -e --user --signal --kill-after".split())
"""Options of these that take the next word."""
ASKING = frozenset("curl wget http https xh aria2c lynx w3m gh glab".split())
"""Programs that print, or keep, what a server answers."""
_CURL = frozenset("-d -H -o -u -A -e -F -X -b -c -T -w -m -K -O -P --data --data-raw --data-binary --header".split())
_CURL |= frozenset("--data-urlencode --output --user --form --request --cookie --write-out --max-time --retry".split())
_VOTES = frozenset("approve reject answer done vote".split())
_SAYING = frozenset("echo printf test [ : true false exit return export local readonly read cd".split())
_READING = r"(?:\S*/)?(?:sh|bash|dash|zsh|ksh|python[0-9.]*|perl|ruby|node|php)\s*(?:-\s*|-s\s*)?"
_PIPED = rf"\|\s*(?:sudo\s+|exec\s+)*{_READING}(?=$|[;&|)\n])"
_HERE = rf"(?:^|[;&|(\n])\s*{_READING}<<"


class Position(NamedTuple):
    """What becomes of something in a command: the ``template`` of a value, or the ``file`` whose content it is.
    ``word`` is the argument in which the template stands, where all of it counts."""

    use: str
    template: str = ""
    file: str = ""
    word: str = ""


class _Words(Command):
    """Keeps the commands of a script instead of judging them."""

    __slots__ = ("_found",)

    def __init__(self, problems: list[Problem], found: list[list[Word]]) -> None:
        super().__init__(problems)
        self._found = found

    def judge(self, words: list[Word]) -> None:
        if words:
            self._found.append(words)


class _Reader(Scan):
    """The words of every command that a script may run, wherever it stands."""

    def __init__(self, text: str) -> None:
        super().__init__(text, "PR_")
        self.found: list[list[Word]] = []

    def _substituted(self, script: str) -> None:
        inner = _Reader(script)
        inner.run()
        self.found += inner.found

    def command(self) -> Command:
        return _Words(self.problems, self.found)


def every_command(text: str) -> list[list[Word]]:
    """The words of every command that a script may run, assignments before it included."""
    reader = _Reader(text)
    reader.run()
    return reader.found


def in_script(text: str, variables: Iterable[str] = ()) -> list[Position]:
    """The positions of a script for a shell; ``variables`` are those whose values matter."""
    text = _with_variables(text, variables)
    found = [position for words in every_command(text) for position in in_words(words)]
    if re.search(_PIPED, text) or re.search(_HERE, text):
        found += [Position("command", text[each.start : each.end]) for each in placeholders(text)]
    return list(dict.fromkeys(found))


def in_arguments(arguments: Sequence[str], variables: Iterable[str] = ()) -> list[Position]:
    """The positions of a program with its arguments, which no shell reads."""
    words = []
    for argument in arguments:
        word, at = Word(), 0
        for found in placeholders(argument):
            word.add(argument[at : found.start])
            word.hole(found)
            at = found.end
        word.add(argument[at:])
        words.append(word)
    return list(dict.fromkeys(in_words(words, tuple(variables))))


def asks(text: str) -> bool:
    """Whether a script has a command that asks a server."""
    if not any(name in text for name in ASKING):
        return False
    return any(map(_words_ask, every_command(text)))


def _words_ask(words: list[Word]) -> bool:
    *_, words = _carrying(words)
    name = os.path.basename(words[0].text) if words else ""
    if name in SHELLS or name in ("eval", "find", *CARRIERS):
        return any(asks(word.text) for word in words[1:])
    return name in ASKING


def _with_variables(text: str, variables: Iterable[str]) -> str:
    for name in variables:
        text = re.sub(rf"\$(?:{re.escape(name)}\b|\{{{re.escape(name)}\}})", f"{{{{ {VARIABLE}.{name} }}}}", text)
    return text


def _command(words: list[Word]) -> list[Word]:
    """A command without the assignments before it."""
    start = 0
    while start < len(words) and re.match(_ASSIGNMENT, words[start].text):
        start += 1
    return words[start:]


def in_words(words: list[Word], variables: tuple[str, ...] = ()) -> list[Position]:
    """The positions of one command."""
    found: list[Position] = []
    last = words
    for last in _carrying(words):
        if last and last[0].holes:
            return found + _all("command", last[:1])
        found += [Position("command", file=word.text) for word in last[:1] if "/" in word.text]
    if not last:
        return found
    name, rest = os.path.basename(last[0].text), last[1:]
    if name in CARRIERS:
        return found + _all("command", rest)
    if name == "find":
        found += [position for each in _found(rest) for position in in_words(each, variables)]
    if name in SHELLS or re.fullmatch(_INTERPRETERS, name):
        return found + _interpreted(name, rest, variables)
    return found + _others(name, rest, variables) + _options(name, rest)


def _carrying(words: list[Word]) -> Iterator[list[Word]]:
    """A command, the one it starts, the one that this one starts … none further than any sense goes."""
    for _ in range(DEEPEST):
        words = _command(words)
        yield words
        if not words or words[0].holes or os.path.basename(words[0].text) not in CARRIERS:
            return
        words = _carried(words[1:])
    yield words


def _found(words: list[Word]) -> Iterator[list[Word]]:
    """The commands that ``find`` starts, each to where the next begins, for one may be another ``find``."""
    places = [at for at, word in enumerate(words) if word.text in ("-exec", "-execdir", "-ok", "-okdir")]
    for at, end in zip(places, [*places, len(words)][1:], strict=True):
        yield words[at + 1 : end]


def _options(name: str, words: list[Word]) -> list[Position]:
    """Arguments that a program would take for options if the values in them began like one."""
    if name in _SAYING:
        return []
    ends = next((at for at, word in enumerate(words) if word.text == "--"), len(words))
    begun = [word for word in words[:ends] if word.text.startswith(HOLE)]
    return [Position("option", _template(word.holes[0].body), "", _written(word)) for word in begun]


def _template(body: str) -> str:
    return f"{{{{{body}}}}}"


def _written(word: Word) -> str:
    """The argument as a text with templates."""
    holes = iter(word.holes)
    return re.sub(HOLE, lambda _: _template(next(holes).body), word.text)


def _carried(words: list[Word]) -> list[Word]:
    """The command that another one starts, behind its options and numbers."""
    at = 0
    while at < len(words) and not words[at].text.startswith(HOLE):
        text = words[at].text
        if text.startswith("-"):
            at += 2 if text in _TAKING else 1
        elif re.match(_ASSIGNMENT, text) or re.fullmatch(r"[0-9.]+[smhd]?", text):
            at += 1
        else:
            break
    return words[at:]


def _interpreted(name: str, words: list[Word], variables: tuple[str, ...]) -> list[Position]:
    """A shell or an interpreter with its arguments: what it is told to run comes from an option or from a file."""
    code = r"-[A-Za-z]*c|--command" if name in SHELLS or name.startswith(("py", "pwsh")) else _CODE.get(name, "-e")
    for at, word in enumerate(words):
        if word.holes and not word.text.startswith("-"):
            return _all("command", [word])
        if re.fullmatch(code, word.text) and at + 1 < len(words):
            return _inner(words[at + 1], variables if name in SHELLS else ())
        if word.text == "-m" and at + 1 < len(words):
            return _others(words[at + 1].text, words[at + 2 :], variables)
        if not word.text.startswith("-"):
            return [Position("command", file=word.text)]
    return []


def _inner(code: Word, variables: tuple[str, ...]) -> list[Position]:
    """Code for another shell: a template becomes part of it, a variable is read by it."""
    if not all(hole.body.strip().startswith(f"{VARIABLE}.") for hole in code.holes):
        return _all("command", [code])
    return in_script(_written(code), variables)


def _others(name: str, words: list[Word], variables: tuple[str, ...]) -> list[Position]:
    """Programs that make something of their arguments."""
    plain = [word for word in words if not word.text.startswith("-")]
    if name in ("eval", "trap", "alias"):
        return _all("command", words)
    if name in ("source", "."):
        file = [Position("command", file=word.text) for word in plain[:1] if not word.holes]
        return file + _all("command", plain[:1])
    if name == "awk":
        return _all("command", plain[:1])
    if name == "planrunner" and plain:
        return _planrunner(plain)
    return _reaching(name, words, plain)


def _planrunner(words: list[Word]) -> list[Position]:
    """The product itself: what it runs is a plan, and nobody but a person answers a gate."""
    verb, rest = words[0].text, words[1:]
    if verb in _VOTES:
        return _all("approval", rest)
    if verb not in ("exec", "resume", "rerun"):
        return []
    return [Position("plan", file=word.text) for word in rest[:1] if not word.holes] + _all("plan", rest[:1])


def _reaching(name: str, words: list[Word], plain: list[Word]) -> list[Position]:
    """Programs that reach a host which an argument names."""
    if name == "ssh":
        return _all("host", plain[:1]) + _all("command", plain[1:])
    if name in ("nc", "ncat", "telnet", "ping"):
        return _all("host", plain[:1])
    if name in ASKING:
        before = ["", *(word.text for word in words)]
        asked = [word for word, option in zip(words, before, strict=False) if option not in _CURL]
        return _hosts([word for word in asked if not word.text.startswith("-")])
    if name == "git" and plain and plain[0].text in ("clone", "ls-remote"):
        return _hosts(plain[1:2])
    if name in ("scp", "rsync", "sftp"):
        return _hosts([word for word in plain if ":" in word.text])
    return []


def _all(use: str, words: Iterable[Word]) -> list[Position]:
    return [found for word in words for found in _each(use, word, word.holes)]


def _hosts(words: Iterable[Word]) -> list[Position]:
    found = []
    for word in words:
        found += _each("url", word, [word.holes[number] for number in in_authority(word.text)])
    return found


def _each(use: str, word: Word, holes: Iterable[Placeholder]) -> list[Position]:
    """A position for each different template among those of an argument."""
    whole = _written(word)
    return [Position(use, template, "", whole) for template in dict.fromkeys(_template(hole.body) for hole in holes)]
