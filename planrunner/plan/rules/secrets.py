"""Secrets that tasks declare: there, handed over in the way they are meant to be, and received."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from planrunner.diagnostics import Diagnostic
from planrunner.plan.model import Task
from planrunner.plan.nearest import meant, nearest
from planrunner.plan.rules.texts import Within, expressions_of, place_of, texts_of, value_place
from planrunner.plan.rules.view import PlanView, find_word, names, region_of, span_of
from planrunner.plan.shell.commands import passed_on
from planrunner.plan.tasks import DeclaredSecret, declared_secrets, named_credential
from planrunner.plan.templates import references
from planrunner.source import Span


def check(view: PlanView) -> Iterable[Diagnostic]:
    if view.credentials or view.hidden or any(task.secrets or named_credential(task) for task in view.plan.tasks):
        return judged(view)
    return ()


_RECEIVERS = frozenset(("shell", "python", "dask", "git", "docker", "kubectl", "validate", "http"))
"""Families whose capabilities start programs, or take a credential."""
_PROCESSES = frozenset(("shell", "python"))
"""Families whose capabilities are one process, which can be given a descriptor."""


def judged(view: PlanView) -> Iterable[Diagnostic]:
    """The findings about the secrets of one view."""
    for task in view.plan.tasks:
        declared = list(declared_secrets(task.secrets))
        yield from _unknown(view, task, declared)
        yield from _undeclared(view, task, declared)
        yield from _received(view, task, declared)
        yield from _arguments(view, task, declared)
    yield from _templates(view)


def _unknown(view: PlanView, task: Task, declared: list[DeclaredSecret]) -> Iterator[Diagnostic]:
    for wish in declared:
        if view.credentials is None or wish.id in view.credentials:
            continue
        close = nearest(wish.id, view.credentials)
        message = f"the project has no credential `{wish.id}`" + meant(close)
        help_ = f"it has {names(view.credentials)}" if view.credentials else _example(wish.id)
        yield Diagnostic("PLAN821", message, find_word(view, task, wish.id, "secrets"), help="" if close else help_)


def _example(name: str) -> str:
    entry = f"{{id: {name}, auth: {{source: env, env_var: NAME}}}}"
    return f"list it in planrunner.yaml: `provider_credentials: [{entry}]`"


def _undeclared(view: PlanView, task: Task, declared: list[DeclaredSecret]) -> Iterator[Diagnostic]:
    name = named_credential(task)
    if name and name not in {wish.id for wish in declared}:
        place, _ = value_place(view, Within(task, "with", task.inputs), ("auth", "credential"))
        message = f"`{task.id}` uses the credential `{name}` and does not declare it"
        yield Diagnostic("PLAN821", message, place, help=f"add `secrets: [{name}]`")


def _received(view: PlanView, task: Task, declared: list[DeclaredSecret]) -> Iterator[Diagnostic]:
    if not declared or task.command:
        return
    found = view.capabilities.get(task.uses) if task.uses else None
    family = task.uses.partition(".")[0]
    if not task.uses or (found is not None and found.plugin == "planrunner" and family not in _RECEIVERS):
        what = f"`{task.uses}` starts no program" if task.uses else f"`{task.id}` does nothing itself"
        help_ = "declare it where a program is started" if not task.uses else "remove `secrets`"
        yield Diagnostic("PLAN824", f"{what}, so it receives no secret", span_of(task, "secrets"), help=help_)
    elif found is not None and found.plugin == "planrunner" and family not in _PROCESSES:
        for wish in declared:
            if wish.way == "fd":
                message = f"`{task.uses}` runs several processes, so it cannot receive a descriptor"
                place = find_word(view, task, wish.variable, "secrets")
                yield Diagnostic("PLAN824", message, place, help="write `as: file`")


def _variables(view: PlanView, task: Task) -> dict[str, str]:
    """The variables that hold the value of a secret, by name, with its id."""
    known = view.credentials or {}
    return {
        wish.variable or known.get(wish.id) or re.sub(r"\W", "_", wish.id).upper(): wish.id
        for wish in declared_secrets(task.secrets)
        if wish.way == "env"
    }


def _arguments(view: PlanView, task: Task, declared: list[DeclaredSecret]) -> Iterator[Diagnostic]:
    if not declared or not isinstance(task.run, str):
        return
    for variable, name in _variables(view, task).items():
        found = passed_on(task.run, variable)
        if found is not None:
            message = f"`${variable}` passes the secret `{name}` to `{found}` as an argument, which every user can read"
            help_ = f"let the program read its environment, or write `{{id: {name}, as: file}}` and name the file"
            yield Diagnostic("PLAN823", message, _argument(view, task, variable, found), help=help_)


def _argument(view: PlanView, task: Task, variable: str, program: str) -> Span:
    """The variable in the first line of the script that has it beside the program, or where the script has it first."""
    region = region_of(view, task, "run")
    start = region.start
    for line in view.source.text[region.start : region.end].splitlines(keepends=True):
        place = re.search(rf"{re.escape(program)}\b.*?\$\{{?({re.escape(variable)})\b", line)
        if place:
            return Span(start + place.start(1), start + place.end(1))
        start += len(line)
    return find_word(view, task, variable, "run")


def _templates(view: PlanView) -> Iterator[Diagnostic]:
    """``env`` of a template is that of the runner, and whatever a template gives stands in the journal."""
    everywhere = dict.fromkeys(view.hidden, "")
    everywhere |= {variable: name for name, variable in (view.credentials or {}).items() if variable}
    of_task = [{**everywhere, **_variables(view, task)} for task in view.plan.tasks]
    for text in texts_of(view):
        hidden = of_task[text.here] if text.here >= 0 else everywhere
        for path, start, end in references(text.text):
            if len(path) > 1 and path[0] == "env" and path[1] in hidden:
                yield _written(path[1], hidden[path[1]], place_of(view, text, start, end))
    for site in expressions_of(view):
        for path in site.expression.paths:
            if len(path) > 1 and path[0] == "env" and path[1] in of_task[site.here]:
                at = site.expression.text.find(f"env.{path[1]}")
                place = place_of(view, site, max(at, 0), max(at, 0) + len(path[1]) + 4)
                yield _written(path[1], of_task[site.here][path[1]], place)


def _written(variable: str, name: str, place: Span) -> Diagnostic:
    if not name:
        message = f"`env.{variable}` holds a secret that the settings name, which templates cannot read"
        entry = f"{{id: NAME, auth: {{source: env, env_var: {variable}}}}}"
        help_ = f"list it in planrunner.yaml (`provider_credentials: [{entry}]`) and declare `secrets: [NAME]`"
        return Diagnostic("PLAN822", message, place, help=help_)
    message = f"`env.{variable}` is the secret `{name}`, which templates cannot read"
    return Diagnostic("PLAN822", message, place, help=f"declare `secrets: [{name}]` and let the program read it")


_KEYS = (
    r"sk-(?:proj|ant|svcacct|or)-[\w-]{20,}",
    r"sk-[A-Za-z0-9]{40,}",
    r"gh[pousr]_[A-Za-z0-9]{36,}",
    r"github_pat_\w{40,}",
    r"glpat-[\w-]{20,}",
    r"A[KS]IA[A-Z0-9]{16}",
    r"AIza[\w-]{35}",
    r"xox[abeprs]-[A-Za-z0-9-]{20,}",
    r"hf_[A-Za-z0-9]{30,}",
    r"npm_[A-Za-z0-9]{36}",
    r"pypi-AgE[\w-]{40,}",
    r"[rs]k_live_[A-Za-z0-9]{20,}",
    r"dop_v1_[a-f0-9]{64}",
    r"SG\.[\w-]{20,}\.[\w-]{40,}",
)
"""How keys of well-known services look."""
_NAMED = (
    r"(?<!public)(?<!PUBLIC)(?<!public[_-])(?<!PUBLIC[_-])"
    r"(?i:key|token|secret|password|passwd)[\"']?\s*[:=]\s*[\"']?([A-Za-z0-9+/]{24,100}={0,2})(?![\w{(.$/-])"
)
"""What is given to a name of a secret as one long word."""
_BEGINS = ("sk-", "gh", "glpat-", "AKIA", "ASIA", "AIza", "xox", "hf_", "npm_", "pypi-", "k_live_", "dop_v1_", "SG.")
_PRIVATE = "-----BEGIN [A-Z ]*PRIVATE KEY-----"
_LEAST = 8
"""Different signs in a key; one with fewer, such as ``ghp_xxxx``, stands for a key."""


def check_literal(view: PlanView) -> Iterable[Diagnostic]:
    """Keys that are written out in the text of the plan."""
    return _written_out(view.source.text) if view.whole else ()


def _written_out(text: str) -> Iterator[Diagnostic]:
    found = {}
    if any(begin in text for begin in _BEGINS):
        found = {each.span(): each[0] for each in re.finditer(rf"(?<![\w-])(?:{'|'.join(_KEYS)})(?![\w-])", text)}
    found |= {each.span(1): each[1] for each in re.finditer(_NAMED, text) if _is_random(each[1])}
    for (start, end), word in sorted(found.items()):
        if len(set(word)) > _LEAST and "example" not in word.lower():
            yield _key_at(Span(start, end))
    for each in re.finditer(_PRIVATE, text):
        yield _key_at(Span(*each.span()))


def _is_random(word: str) -> bool:
    """Whether a word looks drawn: no name, path or number has capitals, small letters and four digits in one."""
    return len(re.findall(r"\d", word)) > 3 and re.search("[a-z]", word) is not None and bool(re.search("[A-Z]", word))


def _key_at(span: Span) -> Diagnostic:
    message = "a key is written out here: everyone who reads the plan, its history or its runs can read it"
    return Diagnostic("PLAN224", message, span, help=f"{_example('NAME')}, write `secrets: [NAME]`, and renew the key")
