"""Where the values of a command end up: as data, or as what runs, as a host, as an option of another program.

A template in a script is data already (``plan/shell/quoting.py``), so what is looked for here are the few commands that
make something of an argument: a shell, an interpreter, ``eval``, ``ssh``, ``curl`` and what starts other commands. A
variable of the task counts like a template.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from planrunner.plan.shell.parse import DEEPEST
from planrunner.plan.shell.programs import CARRIERS, LAUNCHERS, SHELLS
from planrunner.plan.shell.tree import HOLE, Part, Word
from planrunner.plan.shell.variables import ASSIGNMENT, Carried, folders, names_in, read_script, spelt, variables_of
from planrunner.plan.taint.traits import STEERING
from planrunner.plan.templates import Placeholder, placeholders

_SCHEME = r"(?:[A-Za-z][A-Za-z0-9+.-]*:/{0,2})?"
_AUTHORITY = r"[^/?#\\]+[/?#]"


def in_authority(text: str) -> list[int]:
    """The numbers of those holes (NUL characters) of an address that stand before the end of its host."""
    scheme = re.match(_SCHEME, text)
    whole = re.compile(_AUTHORITY).match(text, scheme.end() if scheme is not None else 0)
    end = len(text) if whole is None else whole.end()
    return list(range(text.count(HOLE, 0, end)))


def host_of(address: str) -> tuple[str, int]:
    """Host and port of an address, or of ``git@host:path``; empty where it names none, as a path does."""
    text = address.strip()
    match = re.match(r"([A-Za-z][A-Za-z0-9+.-]*):/{0,2}([^/?#\\]*)", text)
    if match is not None and text[match.end(1) :].startswith("://"):
        scheme, authority = match[1].lower(), match[2]
        host, port = _split(authority.rpartition("@")[2])
        return host, port or {"http": 80, "https": 443, "ssh": 22, "git": 9418}.get(scheme, 0)
    short = re.match(r"(?:[^/@:\s]+@)?([^/@:\s]+):(?!//)", text)
    return (short[1].lower(), 22) if short is not None else ("", 0)


def _split(authority: str) -> tuple[str, int]:
    match = re.fullmatch(r"(\[[^\]]*\]|[^:]*)(?::([0-9]{1,5}))?", authority)
    if match is None:
        return authority.lower(), 0
    return match[1].strip("[]").rstrip(".").lower(), int(match[2] or 0)


VARIABLE = "env"
"""The name under which a variable of the task stands in the place of a template: ``{{ env.NAME }}``."""

_OWN = "own"
"""The same for a variable that the script sets."""
_OWN_VALUE = re.compile(rf"\{{\{{ {_OWN}\.(\w+) \}}\}}")
_DECIDING = frozenset(("command", "plan", "approval", "prompt"))
_STARTING = CARRIERS | LAUNCHERS
_OPERANDS = frozenset("chroot flock sg taskset".split())
"""Those among them that take a word of their own before the command."""
_CODED = frozenset("flock runuser script sg".split())
"""Those that take the command as code, behind ``-c``."""
_INTERPRETERS = r"(python|pypy|perl|ruby|node|nodejs|deno|bun|php|lua|Rscript|osascript|tclsh|pwsh)[0-9.]*"
_CODE = {"perl": r"-\w*[eE]", "ruby": "-e", "node": "-e|-p|--eval|--print", "nodejs": "-e", "php": "-r", "lua": "-e"}
_RUNNING = {
    "py": re.compile(
        r"\b(exec\w*|eval|(?<!re\.)compile|system|\w*popen\w*|\w*spawn\w*|load_source|zipimport|\w*subprocess\w*|runpy|run_path|importlib|__import__"
        r"|\w*pickle\w*|marshal|shelve|dill|joblib|torch|yaml\.\w*load\w*|ctypes|\w*dll|pty|sys\.path|Template|from_string"
        r"|render\w*|console|push|runsource|runcode|query)\b",
        re.IGNORECASE,
    ),
    "node": re.compile(
        r"\b(eval|Function|vm|child_process|\w*exec\w*|\w*spawn\w*|fork|Worker|createRequire|run\w*)\b|\bimport\s*\("
        r"|\brequire\s*\((?!\s*['\"](node:)?[a-z_]+(/promises)?['\"])"
    ),
}
"""What code of Python and Node.js has that runs a text or a file; without any of it the code only reads files."""
_TAKING = frozenset("-u -g -h -p -C -n -P -d -L -s -k -I -E -a -c -o -e --user --signal --kill-after".split())
"""Options of these that take the next word."""
ASKING = frozenset("curl wget http https xh aria2c lynx w3m gh glab".split())
"""Programs that print, or keep, what a server answers."""
_CURL = frozenset("-d -H -o -u -A -e -F -X -b -c -T -w -m -K -O -P --data --data-raw --data-binary --header".split())
_CURL |= frozenset("--data-urlencode --output --user --form --request --cookie --write-out --max-time --retry".split())
AGENTS = frozenset(
    "aichat aider amp auggie claude claude-code cline codex copilot crush cursor-agent droid fabric forge gemini "
    "gemini-cli goose gptme interpreter kiro-cli llm mods ollama opencode openhands plandex q qwen sgpt tgpt".split()
)
"""Coding agents and clients of models: their arguments, and what they read, are instructions."""
_FETCHING = frozenset("npx bunx pnpx uvx".split())
"""Programs that fetch the one which their first argument names, and start it."""
_FORGES = frozenset(("gh", "glab"))
"""Those among ``ASKING`` that reach the one host they are signed in to, unless an option names another."""
_VOTES = frozenset("approve reject answer done vote".split())
_SAYING = frozenset("echo printf test [ : true false exit return export local readonly read cd".split())
_MARK = Placeholder(0, 0, " input ")
"""Stands for what a command reads."""


class Position(NamedTuple):
    """What becomes of something in a command: the ``template`` of a value, or the ``file`` whose content it is.
    ``word`` is the argument in which the template stands, where all of it counts."""

    use: str
    template: str = ""
    file: str = ""
    word: str = ""


def in_script(text: str, variables: Iterable[str] = (), shell: str = "") -> list[Position]:
    """The positions of a script for a shell, or for the interpreter that ``shell`` names; ``variables`` are those whose
    values matter."""
    text = _with_variables(text, VARIABLE, variables)
    commands = read_script(text)
    carried = variables_of(commands)
    if given := [name for name, found in carried.items() if found.templates]:
        text = _with_variables(text, _OWN, given)
        commands = read_script(text)
    found: dict[Position, None] = {}
    for words, places in folders(commands):
        for position in in_words(words):
            found.update(dict.fromkeys(_meant(position, places, carried)))
    if any(sign in text for sign in ("|", "<<")) and any(map(takes_code, commands)):
        for each in placeholders(text):
            found.update(dict.fromkeys(_meant(Position("command", text[each.start : each.end]), (), carried)))
        files = (word.text for words in commands for word in words[1:] if not word.holes)
        found.update((Position("command", file=name), None) for name in files if name and not name.startswith("-"))
    if any(sign in text for sign in ("|", "<")) and any(map(_instructs, commands)):
        for each in placeholders(text):
            found.update(dict.fromkeys(_meant(Position("prompt", text[each.start : each.end]), (), carried)))
        files = (word.text for words in commands for word in words[1:] if not word.holes)
        found.update((Position("prompt", file=name), None) for name in files if name and not name.startswith("-"))
    return [each for each in found if not each.file or _runs_files(shell, text)]


def use_of_input(run: str | Sequence[str]) -> str:
    """What a script, or a program with its arguments, makes of its standard input: ``command`` where it runs that,
    ``prompt`` where it obeys it, empty where it is data."""
    commands = read_script(run) if isinstance(run, str) else [_words(run)]
    if any(map(takes_code, commands)):
        return "command"
    return "prompt" if any(map(_instructs, commands)) else ""


def _instructs(words: list[Word]) -> bool:
    """Whether a command is an agent, which takes what it reads for instructions."""
    *_, last = _carrying(words)
    return bool(last) and _agent(os.path.basename(last[0].text), last[1:])


def _agent(name: str, words: list[Word]) -> bool:
    if name in _FETCHING:
        package = next((word.text for word in words if not word.text.startswith("-")), "")
        name = re.sub(r"(?<=.)@[^/]*$", "", package).rpartition("/")[2]
    return name in AGENTS


def _meant(position: Position, places: tuple[str, ...], carried: dict[str, Carried]) -> Iterator[Position]:
    """A position by the values that variables of the script hold, and by the folders that it may be in."""
    if position.file:
        for name in spelt(position.file, carried):
            yield from (position._replace(file=posixpath.join(place, name)) for place in places)
    elif _OWN_VALUE.search(position.template) is None:
        if position.template:
            yield position
    elif position.use in _DECIDING:  # what is looked at in the end is what the plan itself writes there
        template = _OWN_VALUE.sub(lambda found: carried[found[1]].templates, position.template)
        yield Position(position.use, template, "", template)


def in_arguments(arguments: Sequence[str], variables: Iterable[str] = ()) -> list[Position]:
    """The positions of a program with its arguments, which no shell reads."""
    return list(dict.fromkeys(in_words(_words(arguments), tuple(variables))))


def _words(arguments: Sequence[str]) -> list[Word]:
    words = []
    for argument in arguments:
        word, at = Word(), 0
        for found in placeholders(argument):
            word.add(Part("plain", argument[at : found.start], at, found.start))
            word.add_hole(found)
            at = found.end
        word.add(Part("plain", argument[at:], at, len(argument)))
        words.append(word)
    return words


def asks(text: str) -> bool:
    """Whether a script has a command that asks a server."""
    if not any(name in text for name in ASKING):
        return False
    return any(_words_ask(words) for words in read_script(text))


def _words_ask(words: list[Word]) -> bool:
    *_, words = _carrying(words)
    name = os.path.basename(words[0].text) if words else ""
    if name in SHELLS or name in ("eval", "find", *_STARTING):
        return any(asks(word.text) for word in words[1:])
    return name in ASKING


def _with_variables(text: str, kind: str, variables: Iterable[str]) -> str:
    """The text with a template for each of these variables."""
    names = frozenset(variables)
    if not names:
        return text

    def template(match: re.Match[str]) -> str:
        name = match[1] or match[2]
        return f"{{{{ {kind}.{name} }}}}" if name in names else match[0]

    return re.sub(r"\$(?:([A-Za-z_]\w*)|\{([A-Za-z_]\w*)\})", template, text)


def takes_code(words: list[Word]) -> bool:
    """Whether a command runs what it reads: a shell without a script, ``xargs`` that hands it to one."""
    for last in _carrying(words):
        if last and os.path.basename(last[0].text) in ("xargs", "parallel") and _hands_on(last):
            return True
    if not last:
        return False
    name, rest = os.path.basename(last[0].text), [word.text for word in last[1:]]
    if name == "ssh":
        remote = [word for word in last[1:] if not word.text.startswith("-")][1:]
        return not remote or remote[0].text in SHELLS
    letters = "aefhilmnprtuvxBCEHPT" if name in SHELLS else "uBIEsSiwTWl"
    if name not in SHELLS and not re.fullmatch(_INTERPRETERS, name):
        return False
    for text in rest:
        if text in ("-", "/dev/stdin") or (name in SHELLS and re.fullmatch(r"-[abd-z]*s", text)):
            return True
        if not re.fullmatch(rf"-[{letters}]+", text):
            return False
    return True


def _hands_on(words: list[Word]) -> bool:
    """Whether what ``xargs`` reads becomes a command, or code, of the program that it starts."""
    mark, sign = _marked(HOLE), ""
    for option, word in zip(words, [*words[1:], Word()], strict=True):
        if option.text.startswith("-I"):
            sign = option.text[2:] or word.text
    if not _carried(words[1:], False):
        return False  # it echoes
    fed = [_marked(word.text.replace(sign, HOLE)) if sign and sign in word.text else word for word in words]
    fed = fed if sign else [*words, mark]
    return any(found.use == "command" and found.template == _template(_MARK.body) for found in in_words(fed))


def _marked(text: str) -> Word:
    word = Word()
    word.add(Part("plain", text, 0, len(text)))
    word.holes += [_MARK] * text.count(HOLE)
    return word


def _command(words: list[Word]) -> list[Word]:
    """A command without the assignments before it."""
    start = 0
    while start < len(words) and re.match(ASSIGNMENT, words[start].text):
        start += 1
    return words[start:]


def in_words(words: list[Word], variables: tuple[str, ...] = ()) -> list[Position]:
    """The positions of one command."""
    positions: list[Position] = []
    last = words
    positions += _all("command", [word for word in words if _steers(word)])
    for last in _carrying(words):
        if last and (last[0].holes or last[0].within):
            return positions + _code(last[:1])
        positions += [Position("command", file=word.text) for word in last[:1] if "/" in word.text or "$" in word.text]
        positions += _coded(last, variables)
    if not last:
        return positions
    name, rest = os.path.basename(last[0].text), last[1:]
    if name in _STARTING:
        return positions + _all("command", rest)
    if name == "find":
        positions += [position for each in _found(rest) for position in in_words(each, variables)]
    if name in SHELLS or re.fullmatch(_INTERPRETERS, name):
        return positions + _interpreted(name, rest, variables)
    return positions + _others(name, rest, variables) + _options(name, rest)


def _carrying(words: list[Word]) -> Iterator[list[Word]]:
    """A command, the one it starts, the one that this one starts … none further than any sense goes."""
    for _ in range(DEEPEST):
        words = _command(words)
        yield words
        if not words or words[0].holes or os.path.basename(words[0].text) not in _STARTING:
            return
        words = _carried(words[1:], os.path.basename(words[0].text) in _OPERANDS)
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


def _coded(words: list[Word], variables: tuple[str, ...]) -> list[Position]:
    """The code that a program which starts others takes instead of a command."""
    if not words or os.path.basename(words[0].text) not in _CODED:
        return []
    for option, word in pairwise(words):
        if re.fullmatch(r"-[A-Za-z]*c|--command", option.text):
            return _inner(word, variables)
    return []


def _steers(word: Word) -> bool:
    """Whether a word sets a variable that makes programs run something else than they are told."""
    assigned = re.match(ASSIGNMENT, word.text) if word.holes or word.within else None
    return assigned is not None and STEERING.fullmatch(assigned[1]) is not None


def _carried(words: list[Word], operand: bool) -> list[Word]:
    """The command that another one starts, behind its options and numbers, and behind a word of its own."""
    at = 0
    while at < len(words) and not words[at].text.startswith(HOLE):
        text = words[at].text
        if text.startswith("-"):
            at += 2 if text in _TAKING else 1
        elif re.match(ASSIGNMENT, text) or re.fullmatch(r"[0-9.]+[smhd]?", text):
            at += 1
        else:
            break
    numbered = any(re.fullmatch(r"[0-9.]+", word.text) for word in words[:at])
    return words[at + (operand and not numbered) :]


def _interpreted(name: str, words: list[Word], variables: tuple[str, ...]) -> list[Position]:
    """A shell or an interpreter with its arguments: what it is told to run comes from an option or from a file."""
    code = r"-[A-Za-z]*c|--command" if name in SHELLS or name.startswith(("py", "pwsh")) else _CODE.get(name, "-e")
    for at, word in enumerate(words):
        if word.holes and not word.text.startswith("-"):
            return _code([word])
        if word.within and not word.text.startswith("-"):
            return _code([word])
        if re.fullmatch(code, word.text) and at + 1 < len(words):
            return _inner(words[at + 1], variables if name in SHELLS else (), name)
        if word.text == "-m" and at + 1 < len(words):
            return _others(words[at + 1].text, words[at + 2 :], variables)
        if not word.text.startswith("-"):
            return [Position("command", file=word.text)]
    return []


def _runs_files(shell: str, code: str) -> bool:
    """Whether code may run what is in the files that it names."""
    programs = [os.path.basename(word) for word in shell.split()]
    running = [each for start, each in _RUNNING.items() for name in programs if name.startswith(start)]
    return all(each.search(code) for each in running)


def _inner(code: Word, variables: tuple[str, ...], shell: str = "") -> list[Position]:
    """Code for another shell or interpreter: a template becomes part of it, a variable is read by it."""
    expanded = {id(hole) for hole in code.holes} - {id(hole) for hole in code.single}
    if expanded or code.within or code.text.startswith("$") or any(map(_is_template, code.holes)):
        return _code([code])
    return in_script(_written(code), variables, shell)


def _is_template(hole: Placeholder) -> bool:
    return not hole.body.strip().startswith((f"{VARIABLE}.", f"{_OWN}."))


def _code(words: Sequence[Word]) -> list[Position]:
    """Words that run, with the files whose content they may be."""
    names = [*names_in(words), *(word.text for word in words if word.text.startswith("$"))]
    return _all("command", words) + [Position("command", file=name) for name in dict.fromkeys(names)]


def _others(name: str, words: list[Word], variables: tuple[str, ...]) -> list[Position]:
    """Programs that make something of their arguments."""
    plain = [word for word in words if not word.text.startswith("-")]
    if _agent(name, words):
        files = [Position("prompt", file=file) for file in dict.fromkeys(names_in(words))]
        return _all("prompt", words) + files
    if name in ("eval", "trap", "alias"):
        return _code(words)
    if name in ("source", "."):
        file = [Position("command", file=word.text) for word in plain[:1] if not word.holes]
        return file + _code(plain[:1])
    if name == "awk":
        return _all("command", plain[:1])
    if name == "planrunner" and plain:
        return _planrunner(plain)
    return _reaching(name, words, plain)


def _planrunner(words: list[Word]) -> list[Position]:
    """The product itself: what it runs is a plan, and only a person answers a gate."""
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
    if name in _FORGES:
        hosts = [word for option, word in pairwise(words) if option.text in ("--hostname", "-R", "--repo")]
        asked = plain[1:] if plain and plain[0].text == "api" else []
        return _hosts([*hosts, *(word for word in asked if "://" in word.text)])
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
    held = ((word, [*word.holes, *(hole for inner in word.within for hole in inner.holes)]) for word in words)
    return [found for word, holes in held for found in _each(use, word, holes)]


def _hosts(words: Iterable[Word]) -> list[Position]:
    result = []
    for word in words:
        result += _each("url", word, [word.holes[number] for number in in_authority(word.text)])
    return result


def _each(use: str, word: Word, holes: Iterable[Placeholder]) -> list[Position]:
    """A position for each different template among those of an argument."""
    whole = _written(word)
    return [Position(use, template, "", whole) for template in dict.fromkeys(_template(hole.body) for hole in holes)]
