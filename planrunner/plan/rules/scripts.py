"""Scripts that do something else than their author means: bash in `sh`, commands that remove the run's own state, and
variables by another spelling of their names.

No program is started to find that out: lint starts none, and so it does not call shellcheck either.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from itertools import islice

from planrunner.diagnostics import Diagnostic, Edit, Fix
from planrunner.plan.lower.actions import variable_of
from planrunner.plan.model import Task
from planrunner.plan.rules.texts import Text, place_of
from planrunner.plan.rules.view import PlanView, span_of
from planrunner.source import Span

_FIRST = r"(?:^|[;&|({]|\b(?:if|while|until|then|do|else|elif)\b|!)[ \t]*"
"""Where the first word of a command may stand."""
_BASH = (
    ("`[[`", rf"(?m){_FIRST}(\[\[)\s"),
    ("an array", r"(?m)(?:^|[;&|(\s])([A-Za-z_]\w*\+?=\()"),
    ("`source`", rf"(?m){_FIRST}(source)[ \t]+[^\s=]"),
    ("`pipefail`", r"(?m)\bset[ \t]+[^\n;&|]{0,99}\b(pipefail)\b"),
    ("`<<<`", r"(<<<)"),
    ("`function`", rf"(?m){_FIRST}(function)[ \t]+[A-Za-z_]"),
    ("`&>`", r"(&>)"),
    ("`<( )`", r"(?<![<\w])([<>]\()"),
    ("`(( ))`", rf"(?m){_FIRST}(\(\()"),
    ("`==` in `[ ]`", r"(?m)(?:^|\s)\[[ \t][^\]\n]{0,300}?[^\]\n=!](==)[^\]\n]{0,300}\]"),
    ("`echo -e`", rf"(?m){_FIRST}(echo[ \t]+-[nE]*e[neE]*)(?=\s)"),
    (
        "`{a,b}`",
        r"(?<![$@%{\\])(\{(?!\d*,\d*\})(?:[^\s{},;|&()]*,){1,99}[^\s{},;|&()]*\}|\{(?:-?\d+\.\.-?\d+|[a-zA-Z]\.\.[a-zA-Z])\})",
    ),
    ("a built-in command of bash", rf"(?m){_FIRST}(declare|typeset|shopt|mapfile|readarray|pushd|popd)[ \t\n]"),
)
_EXPANSIONS = ("an expansion of bash", r"(\$\{\w+(?:\[|//?|,,?|\^\^?|:-?\d))")
"""What works inside double quotes as well."""

_COMMENT = r"(?<![^\s;&|(])#[^\n]*"
_QUOTES = re.compile(
    rf"(?P<single>'[^']*')|(?P<double>\"(?:[^\"\\]|\\.)*\")|(?P<hole>\{{\{{(?:(?!\{{\{{).){{0,4000}}?\}}\}})|(?P<comment>{_COMMENT})|\\.",
    re.S,
)
_HERE = re.compile(r"<<-?[ \t]*(?!<)(['\"\\]?)([A-Za-z_]\w*)\1[^\n]{0,1000}\n")

_CLEAN = re.compile(
    rf"(?m){_FIRST}(?:[A-Za-z_]\w*=\S*[ \t]+)*(?:sudo[ \t]+)?(git\b[^\n;&|]{{0,300}}?[ \t]clean[ \t][^\n;&|]{{0,300}})"
)
_REMOVE = re.compile(rf"(?m){_FIRST}(?:sudo[ \t]+)?(rm[ \t][^\n;&|]*)")


_MOST = 20
"""Variables of a script that are looked at: each takes a search through it."""


def check(view: PlanView) -> Iterable[Diagnostic]:
    for here, task in enumerate(view.plan.tasks):
        if task.run is None or task.uses != "shell":
            continue
        if isinstance(task.run, str):
            bare = _blanked(task.run)
            shell = os.path.basename(task.shell.split()[0] if task.shell.split() else "sh")
            yield from _other_interpreter(view, here, task, shell)
            if shell in ("sh", "dash", "ash"):
                yield from _bashisms(view, here, task, task.run, bare)
                yield from _lost_in_pipe(view, here, task, bare)
            if shell in ("sh", "dash", "ash", "bash", "ksh", "mksh", "zsh"):
                yield from _lost_in_setting(view, here, task)
            yield from _removals(view, here, task, bare)
            yield from _spellings(view, here, task, task.run)
        else:
            yield from _removals(view, here, task, " ".join(task.run))


_HASH_BANG = re.compile(r"#![ \t]*(\S+)(?:[ \t]+(?:-\S+[ \t]+)*(\S+))?")
_SH = ("sh", "dash", "ash")


def _other_interpreter(view: PlanView, here: int, task: Task, shell: str) -> Iterator[Diagnostic]:
    """A script whose first line names a program that does not run it: that line is a comment."""
    match = _HASH_BANG.match(str(task.run))
    if match is None:
        return
    name = os.path.basename(match[1])
    name = os.path.basename(match[2]) if name == "env" and match[2] else name
    words = [os.path.basename(word) for word in task.shell.split()] or ["sh"]
    if name in words or name in _SH or any(word.rstrip("0123456789.") == name.rstrip("0123456789.") for word in words):
        return
    place = place_of(view, Text(here, "run", "before", str(task.run)), match.start(), match.end())
    message = f"the script of `{task.id}` is run by `{shell}`, its first line names `{name}`"
    yield Diagnostic("PLAN221", message, place, help=f"add `shell: {name}` to the task, or take the line out")


def _bashisms(view: PlanView, here: int, task: Task, script: str, bare: str) -> Iterator[Diagnostic]:
    quoted = _blanked(script, double=False)
    constructs = [(what, match) for what, pattern in _BASH if (match := re.search(pattern, bare)) is not None]
    expansion = re.search(_EXPANSIONS[1], quoted)
    if expansion is not None:
        constructs.append((_EXPANSIONS[0], expansion))
    if not constructs:
        return
    constructs.sort(key=lambda item: item[1].start(1))
    first = constructs[0][1]
    place = place_of(view, Text(here, "run", "before", script), first.start(1), first.end(1))
    words = list(dict.fromkeys(what for what, _ in constructs))
    listed = words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
    instead = " (in `sh`: `. ./file`)" if words == ["`source`"] else ""
    message = f"the script of `{task.id}` is run by `sh`, which may not support {listed}"
    yield Diagnostic("PLAN218", message, place, help=f"add `shell: bash` to the task{instead}")


_PIPE = re.compile(r"(?<![|>])\|(?!\|)")
_PART = re.compile(r"(?:[A-Za-z_]\w*=\S*[ \t]+)*([\w./+-]+)([^\n]*)", re.S)
"""The first word of a part of a pipe, and the rest."""
_SAFE = frozenset("echo printf seq yes true : date pwd env printenv hostname uname id whoami jot".split())
"""Commands that do not fail for what they are given."""
_FILTERS = frozenset(
    "cat tr sort uniq cut sed head tail wc awk tee grep egrep fgrep rev nl fold tac column paste".split()
)
"""Commands that read standard input, where no file is named."""
_GRAMMAR = frozenset("if while until elif then do else done fi esac case for in function time exec command".split())
"""Words after which, or before which, more than one command stands."""


def _lost_in_pipe(view: PlanView, here: int, task: Task, bare: str) -> Iterator[Diagnostic]:
    """The first command before a ``|`` that may fail unseen. What stands in a group, in a condition or before ``||`` is
    passed over: there a failure is not the end of the script."""
    for match in _PIPE.finditer(bare):
        at = max(bare.rfind(sign, 0, match.start()) for sign in "\n;&(){}|`") + 1
        first = at == 0 or bare[at - 1] != "|" or bare[max(at - 2, 0) : at] == "||"
        written = bare[at : match.start()]
        part = _PART.fullmatch(written.strip())
        after = bare[match.end() :].split("\n", 1)[0].split(";", 1)[0]
        if part is None or bare[at - 1 : at] in (")", "}") or "||" in after or part[1] in _GRAMMAR | {"!"}:
            continue
        name = os.path.basename(part[1])
        files = [word for word in part[2].split() if not word.startswith("-")]
        if name in _SAFE or (name in _FILTERS and not first) or (name in ("ls", "ps", "cat") and not files):
            continue
        if "<<" in part[2] or re.search(r"\|\|[ \t]*(?:true|:)", written):
            continue
        start = at + len(written) - len(written.lstrip())
        place = place_of(view, Text(here, "run", "before", str(task.run)), start, start + len(written.strip()))
        message = f"`{task.id}` continues if `{name}` fails: in `sh` only the last command of a pipe counts"
        help_ = "add `shell: bash` to the task, which makes every command of a pipe count, or write to a file first"
        yield Diagnostic("PLAN220", message, place, help=help_)
        return


_SET = re.compile(
    rf"(?m){_FIRST}(export|local|readonly|declare|typeset)[ \t]+(?:-\w+[ \t]+)*(\w+)=\"?\$\([ \t]*([\w./+-]+)"
)


def _lost_in_setting(view: PlanView, here: int, task: Task) -> Iterator[Diagnostic]:
    """``export V=$(cmd)``: the exit code is that of ``export``."""
    for match in _SET.finditer(_blanked(str(task.run), double=False)):
        if os.path.basename(match[3]) not in _SAFE:
            place = place_of(view, Text(here, "run", "before", str(task.run)), match.start(1), match.end(3))
            message = f"`{task.id}` continues if `{match[3]}` fails: the exit code is that of `{match[1]}`"
            yield Diagnostic(
                "PLAN220", message, place, help=f"write `{match[2]}=$(…)` first, then `{match[1]} {match[2]}`"
            )
            return


def _removals(view: PlanView, here: int, task: Task, bare: str) -> Iterator[Diagnostic]:
    for match in _CLEAN.finditer(bare):
        words = match[1].split()
        after = words[words.index("clean") + 1 :] if "clean" in words else []
        flags = "".join(word for word in after if re.fullmatch(r"-[a-zA-Z]+", word))
        if set("xX") & set(flags) and "planrunner" not in match[1] and "n" not in flags and "--dry-run" not in after:
            message = f"`git clean -{flags.replace('-', '')}` removes `.planrunner`, the journal of this run"
            help_ = "add `-e .planrunner`, or keep the state elsewhere with `planrunner --state DIR exec …`"
            yield Diagnostic("PLAN219", message, _at(view, here, task, match), help=help_)
    for match in _REMOVE.finditer(bare):
        words = match[1].split()[1:]
        recursive = any(re.fullmatch(r"-\w*[rR]\w*|--recursive", word) for word in words)
        if recursive and any(re.fullmatch(r"(?:\./|\S*/)?\.planrunner/?(?:\*)?", word) for word in words):
            message = "`rm` removes `.planrunner`, the journal of this run and of those before"
            help_ = "keep it: planrunner stores its runs there"
            yield Diagnostic("PLAN219", message, _at(view, here, task, match), help=help_)


def _spellings(view: PlanView, here: int, task: Task, script: str) -> Iterator[Diagnostic]:
    """Reads of ``$topic`` where the task sets ``TOPIC`` alone, as for an input ``topic``."""
    known = dict(task.env)
    reads = re.finditer(r"\$\{?([A-Za-z_]\w*)", _blanked(script, double=False)) if known else ()
    first = {match[1]: match for match in reversed(list(reads))}
    odd = (name for name in first if name not in known and variable_of(name) in known)
    for name in islice(odd, _MOST):
        if _is_set(name, script):
            continue
        match, meant = first[name], variable_of(name)
        place = place_of(view, Text(here, "run", "before", script), match.start(1), match.end(1))
        written = view.source.text[place.start : place.end] == name
        fix = Fix(f"write `{meant}`", (Edit(place, meant),), safe=False) if written else None
        message = f"the script of `{task.id}` reads `${name}`, the variable is `${meant}`"
        yield Diagnostic("PLAN234", message, place, help="names of variables differ by their case", fix=fix)


def _is_set(name: str, script: str) -> bool:
    """Whether a script may give the variable a value itself."""
    setting = rf"\b{name}\+?=|\bfor\s+{name}\b|\b(?:read|getopts)\b[^\n;]*\s{name}\b"
    return re.search(setting, script) is not None


def _at(view: PlanView, here: int, task: Task, match: re.Match[str]) -> Span:
    if not isinstance(task.run, str):
        return span_of(task, "run")
    end = match.start(1) + len(match[1].rstrip())
    return place_of(view, Text(here, "run", "before", task.run), match.start(1), end)


def _blanked(script: str, double: bool = True) -> str:
    """The script with the same length and lines, and blanks for comments, templates, here-documents and what stands in
    quotes (in double quotes only where ``double``)."""
    text = _without_documents(script)

    def blank(match: re.Match[str]) -> str:
        if match["double"] is not None and not double:
            return match[0]
        return re.sub(r"[^\n]", "\u00a0" if match["comment"] is None else " ", match[0])

    return _QUOTES.sub(blank, text)


def _without_documents(script: str) -> str:
    parts, at = [], 0
    while (opened := _HERE.search(script, at)) is not None:
        closed = re.compile(rf"(?m)^\t*{opened[2]}$").search(script, opened.end())
        end = closed.start() if closed is not None else len(script)
        parts += [script[at : opened.end()], re.sub(r"[^\n]", " ", script[opened.end() : end])]
        at = end
    return "".join([*parts, script[at:]])
