"""The rules by which something is refused, as the journal names them: what each refuses, and what allows it.

``docs/generate.py`` makes the reference page of it. A rule that stands for several ends with ``.*``.
"""

from __future__ import annotations

from typing import NamedTuple

from planrunner.plan.python.rules import RULES


class Refusal(NamedTuple):
    """``what`` is refused, in a clause that follows the name; ``way`` is how it is allowed, or what is done instead."""

    what: str
    way: str


_ELSEWHERE = "Work below the working directory; `cwd` chooses another folder of the project."
_NEVER = "Nothing does."
_WAY = "The message says how."

REFUSALS: dict[str, Refusal] = {
    "state.foreign": Refusal(
        "acting in a state directory that was not written by the planrunner of its user, such as one that came with a "
        "clone",
        "Move it away; or look through it, then `planrunner audit accept`.",
    ),
    "policy.*": Refusal(
        "what a section `policy` of planrunner.yaml, of the plan or of a task denies or does not list; the rest of the "
        "name is the section and its list",
        "The message has the line; the strictest level counts.",
    ),
    "run.person": Refusal(
        "what people alone may do, to a process that a run started: deciding gates, budgets, tasks in doubt and plans "
        "of runs, trusting plans and plugins, creating tokens, accepting a journal, vouching for what is remembered, "
        "setting policy and sandbox aside",
        "Do it in a terminal of your own, outside the run.",
    ),
    "sandbox": Refusal("a command that needs a sandbox where none works", "See `planrunner doctor --sandbox`."),
    "sandbox.*": Refusal(
        "going on past a limit of the sandbox: cpu, memory, processes, time, output", "The message has the line."
    ),
    "sandbox.off": Refusal("taking the sandbox away with `--no-sandbox` without a terminal", "Type it at a terminal."),
    "sandbox.files": Refusal(
        "work outside the working directory in a sandbox, and making what rules over it: planrunner.yaml, .git",
        "The message has the line, where there is one.",
    ),
    "trust": Refusal("an untrusted plan", _WAY),
    "trust.*": Refusal("what an untrusted plan may not do", _WAY),
    "taint.*": Refusal(
        "a value that came from outside, where it would decide what the rest of the name says",
        "Bind it to closed choices, or let a person see it at a gate; `planrunner lint` has the lines.",
    ),
    "template.code": Refusal(
        "a template in an input that is code, other than one that is all of it with `generated: true`",
        "Hand the value over beside the code.",
    ),
    "scan.changed": Refusal("generated Python that changed after it was looked at", "Begin the task again."),
    "scan.bandit": Refusal(
        "generated Python that Bandit took too long over, or gave no report about",
        "Look at what the message says; without Bandit installed the rules of the scan look alone.",
    ),
    "scan.B*": Refusal(
        "generated Python with a finding of Bandit of high severity, by the number of its test",
        "A gate with the code as evidence, or `policy: {python: {allow: [B602]}}` in planrunner.yaml.",
    ),
    "files.beneath": Refusal("a path that leads out of the working directory, by `..` or by a link", _ELSEWHERE),
    "files.link": Refusal("writing to a link, or through one", "Name the file itself."),
    "files.root": Refusal("the working directory itself where a file or folder in it is meant", "Name what is in it."),
    "files.state": Refusal("the folder in which planrunner keeps its journal", _NEVER),
    "files.protected": Refusal(
        "writing to what rules over plans or git: `.git`, planrunner.yaml and what it includes, files that programs "
        "run by themselves",
        _NEVER,
    ),
    "files.patch": Refusal(
        "a diff that renames, sets modes, or is about links", "Use `files.move`, or a command of the shell."
    ),
    "files.option": Refusal("a path that a tool could take for an option", "Write `./-name`."),
    "network.private": Refusal(
        "an address that is not public: of this machine, the own network, or the metadata of a cloud",
        "`network: {private: […]}` in planrunner.yaml; the message has the line.",
    ),
    "network.allow": Refusal(
        "a host that `network: {allow: …}` in planrunner.yaml does not list", "Add it; the message has the line."
    ),
    "network.address": Refusal("an address without a host", "Name one."),
    "network.redirect": Refusal(
        "a redirect, or a next page, that would carry a body or a credential to another origin",
        "Name the other address in the plan.",
    ),
    "network.socket": Refusal("a unix socket in place of a host", _NEVER),
    "settings": Refusal("anything that needs planrunner.yaml while it is not sound", "Mend it: `planrunner lint`."),
    "settings.network": Refusal("a connection while the section `network` is not sound", "Mend the entry."),
    "research.robots": Refusal("a page that the robots.txt of its site keeps from us", "Ask the site."),
    "models.key": Refusal("a model whose key is not set, cannot be read, or is not one line of text", "Set the key."),
    "secret.missing": Refusal(
        "a credential that there is not, or that its source does not give",
        "Mend `provider_credentials` in planrunner.yaml; `planrunner secrets check` looks each up.",
    ),
    "secret.undeclared": Refusal("a credential that the task does not declare", "`secrets: [ID]` in the task."),
    "secret.kept": Refusal(
        "an artifact that holds a secret and is not text, so that the secret cannot be removed",
        "Keep a file without it.",
    ),
    "secret.descriptor": Refusal("`as: fd` for what is not one process", "Write `as: file`."),
    "secret.line": Refusal("a credential that is more than a line and cannot stand in a header", "Name another one."),
    "mcp.tools": Refusal(
        "a tool of an MCP server that the project does not list", "`tools: {SERVER: {tools: […]}}` in planrunner.yaml."
    ),
    "sql.readonly": Refusal("a statement in `sql.query` that writes", "Use `sql.execute`."),
    "sql.transaction": Refusal("statements that begin or end transactions: a task is one", "Leave them out."),
    "sql.database": Refusal("a database that planrunner.yaml does not name", "`sql: {databases: {NAME: …}}`."),
    "sql.address": Refusal("the address of a database server in a plan", "Name it in planrunner.yaml."),
    "sql.denied": Refusal("what the database itself does not let its user do", "Grant it there."),
    "dask.address": Refusal(
        "a Dask scheduler on another machine without encryption", "`tls://` and certificates in the settings of Dask."
    ),
    "dask.confined": Refusal("running on another machine what a policy confines", "Run it on this machine."),
    "dask.secret": Refusal("a secret that would reach a worker in the clear, or as a file", "`tls://`, and `as: env`."),
    "git.option": Refusal("a name that git would take for an option", "Choose another name."),
    "git.address": Refusal(
        "a text that is not an address: an option, a remote helper such as `ext::`, control characters",
        "Correct the address.",
    ),
    "git.protocol": Refusal(
        "a transport that is not allowed, or not here", "`git: {protocols: […]}` in planrunner.yaml."
    ),
    "git.credentials": Refusal(
        "a name or a password in an address", "`git: {credentials: …}` in planrunner.yaml, or the headers of a request."
    ),
    "git.secret": Refusal("a secret that is not set, or would travel in the clear", "Use https and set the variable."),
    "git.settings": Refusal(
        "a repository whose own settings name programs, files or addresses",
        "Remove them, or `git: {allow_config: […]}` in planrunner.yaml.",
    ),
    "git.worktree": Refusal("a repository whose files lie outside the working directory", _ELSEWHERE),
    "clients.option": Refusal("a value that a client of containers or clusters would take for an option", _NEVER),
    "clients.value": Refusal("a value that cannot stand where it is put in a command line", "Mend the value."),
    "clients.env": Refusal("a variable that would steer the client itself, such as DOCKER_HOST", "Rename it."),
    "kubectl.everything": Refusal(
        "deleting what holds objects that cannot be made again", "Say `everything: true` in the task."
    ),
    **{
        f"scan.{name}": Refusal(
            f"generated Python that {rule.why}",
            "Nothing but `policy: {python: …}` in planrunner.yaml."
            if rule.verdict == "deny"
            else "A gate with the code as evidence.",
        )
        for name, rule in RULES.items()
        if rule.verdict != "allow"
    },
}
"""A name to what is refused; messages say more."""


def listed(rule: str) -> bool:
    """Whether a rule is among them, by its name or as one of several."""
    patterns = (name[:-1] for name in REFUSALS if name.endswith("*"))
    return rule in REFUSALS or any(rule.startswith(start) for start in patterns)
