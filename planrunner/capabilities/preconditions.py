"""What must be there before a capability acts, as it declares it: each is a line of text, and can be looked up
without running anything.

    program git                       a program on the PATH
    program docker|podman engine      one of them, or the one that the input `engine` names
    package sqlalchemy sql            a Python package, and the extra of planrunner that brings it
    variable NAME                     a variable of the environment
    model model                       the model that the input names, with its key
    model model judge                 the same; without the input the one that judges (`hash`: none)
    database database                 the database that the input names, with its address
    server server                     the MCP server that the input names, with its program and credentials; of tools
                                      that are offered to a model each server, and the package that speaks to it
    forge                             the forge of planrunner.yaml, with its token
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Collection, Iterable, Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple

from planrunner.capabilities.contract import Context, Failure
from planrunner.later import Later, load
from planrunner.plan.templated import holds_template

if TYPE_CHECKING:
    from planrunner.capabilities.llm.models import Model, first_of, missing_key
    from planrunner.capabilities.mcp.servers import entry as server_entry
    from planrunner.capabilities.sql.databases import entry as database_entry
    from planrunner.capabilities.sql.databases import missing_address
    from planrunner.extras import installing
else:
    first_of = Later("planrunner.capabilities.llm.models:first_of")
    missing_key = Later("planrunner.capabilities.llm.models:missing_key")
    server_entry = Later("planrunner.capabilities.mcp.servers:entry")
    database_entry = Later("planrunner.capabilities.sql.databases:entry")
    missing_address = Later("planrunner.capabilities.sql.databases:missing_address")
    installing = Later("planrunner.extras:installing")


Json = Any

_HASH = "planrunner.knowledge.vectors:HASH"
_WORDS = {"program": (1, 2), "package": (1, 2), "variable": (1, 1), "model": (1, 2), "database": (1, 1)}
_WORDS |= {"server": (1, 1), "forge": (0, 0)}
"""The kinds, and how many words follow: at least, at most."""


def _pass(_: Any) -> None:
    """What is left to the call itself."""


class Ground(NamedTuple):
    """Where preconditions are looked up: the PATH of programs, the sections of planrunner.yaml, the environment of
    planrunner, and why a credential cannot be had (empty: nothing is known against it). ``reach`` and ``afford`` raise
    Failure for an address and for a model that are sure to be refused; ``offers`` says whether the tools of a server
    are offered to a model; ``own`` are the variables that the plan sets itself."""

    path: str
    settings: Callable[[str], Mapping[str, Json]]
    environment: Mapping[str, str]
    credential: Callable[[str], str]
    reach: Callable[[str], None] = _pass
    afford: Callable[[Model], None] = _pass
    offers: Callable[[str], object] = _pass
    own: Collection[str] = ()


class Unmet(Failure):
    """A precondition that does not hold. ``lasting``: nothing that a task does can change that."""

    def __init__(self, message: str, *, rule: str = "", lasting: bool = False) -> None:
        super().__init__(message, rule=rule)
        self.lasting = lasting


def misdeclared(declared: str) -> str:
    """What is wrong with the text of a precondition; empty where nothing is."""
    kind, *words = declared.split() or [""]
    least, most = _WORDS.get(kind, (1, 0))
    return "" if least <= len(words) <= most else f"the precondition {declared!r} is not one of: {', '.join(_WORDS)}"


def input_of(declared: str) -> str:
    """The input by which a precondition goes; empty for none."""
    kind, *words = declared.split()
    if kind in ("model", "database", "server"):
        return words[0]
    return words[1] if kind == "program" and len(words) > 1 else ""


def described(declared: str) -> str:
    """A precondition for people."""
    kind, *words = declared.split()
    if kind == "program":
        named = " or ".join(f"`{name}`" for name in words[0].split("|"))
        return f"the program {named}" + (f" (input `{words[1]}`)" if words[1:] else "")
    if kind == "package":
        return f"the Python package `{words[0]}`" + (f" (extra `{words[1]}`)" if words[1:] else "")
    if kind == "variable":
        return f"the environment variable `{words[0]}`"
    if kind == "forge":
        return "`forge` in planrunner.yaml, with its token"
    what = {"model": "key", "database": "address", "server": "credentials"}[kind]
    return f"the {kind} that `{words[0]}` names, with its {what}"


def require(declared: Iterable[str], inputs: Mapping[str, Json], ground: Ground) -> None:
    """Raises Unmet, or Failure for settings that say too little, at the first precondition that does not hold."""
    for text in declared:
        kind, *words = text.split()
        _KINDS[kind](words, inputs, ground)


def require_for(declared: Iterable[str], inputs: Mapping[str, Json], context: Context) -> None:
    """The same for a call that is about to be made; the value of a credential is checked when it is used, as are
    addresses, prices, and the servers whose tools are offered."""
    paths = (context.environment().get("PATH", ""), os.environ.get("PATH", os.defpath))
    ground = Ground(
        os.pathsep.join(filter(None, paths)), context.settings, os.environ, lambda name: "", own=context.call.env
    )
    require(declared, inputs, ground)


def _program(words: list[str], inputs: Mapping[str, Json], ground: Ground) -> None:
    names = words[0].split("|")
    chosen = inputs.get(words[1]) if words[1:] else None
    wanted = [chosen] if isinstance(chosen, str) and chosen in names else names
    if not any(shutil.which(name, path=ground.path) for name in wanted):
        listed = " or ".join(f"`{name}`" for name in wanted)
        raise Unmet(f"the program {listed} is not on the PATH: install it, or add its folder to PATH")


def _package(words: list[str], inputs: Mapping[str, Json], ground: Ground) -> None:
    if find_spec(words[0]) is None:
        told = f"the Python package `{words[0]}` is not installed"
        if not words[1:]:
            raise Unmet(f"{told}: pip install {words[0]}")
        # an extra is loaded by planrunner itself, which is running already
        raise Unmet(f"{told} (extra `{words[1]}`): {installing(words[1])}", lasting=True)


def _variable(words: list[str], inputs: Mapping[str, Json], ground: Ground) -> None:
    if not ground.environment.get(words[0]):
        message = f"the environment variable {words[0]} is not set: set it, such as `export {words[0]}=…`"
        raise Unmet(message, lasting=True)


def _model(words: list[str], inputs: Mapping[str, Json], ground: Ground) -> None:
    section = ground.settings("models")
    given = inputs.get(words[0]) or _usual(words[1:], section)
    for name in given if isinstance(given, (list, tuple)) else (given,):
        if not isinstance(name, str) or name == load(_HASH):
            continue
        model = first_of(section, name)
        if model.credential:
            if why := ground.credential(model.credential):
                raise Unmet(why, rule="models.key")
        elif why := missing_key(model, ground.environment):
            raise Unmet(why, rule="models.key", lasting=not model.key_file)
        ground.reach(model.base_url)
        ground.afford(model)


def _usual(words: list[str], section: Mapping[str, Json]) -> Json:
    """The model that is meant where the input names none; empty is the default one."""
    if words == ["judge"]:
        return section.get("judge", "")
    return words[0] if words else ""


def _database(words: list[str], inputs: Mapping[str, Json], ground: Ground) -> None:
    name = inputs.get(words[0])
    if not isinstance(name, str) or "://" in name:
        return
    settings = database_entry(ground.settings("sql"), name)
    if why := missing_address(name, settings, ground.environment):
        raise Unmet(why, lasting=True)


def _server(words: list[str], inputs: Mapping[str, Json], ground: Ground) -> None:
    given = inputs.get(words[0])
    if isinstance(given, str):
        _one_server(given, ground)
    for tool in given if isinstance(given, list) else ():
        if "server" in tool and ground.offers(tool["server"]):
            _package(["mcp", "mcp"], inputs, ground)
            _one_server(tool["server"], ground)


def _one_server(name: str, ground: Ground) -> None:
    try:
        server = server_entry(ground.settings("tools"), name)
    except Failure as failure:
        raise Unmet(str(failure), lasting=True) from None
    if server.url:
        ground.reach(server.url)
    program = server.command[0] if server.command else ""
    if program and "/" not in program and not shutil.which(program, path=ground.path):
        why = f"the program `{program}` of the server `{name}` is not on the PATH"
        raise Unmet(f"{why}: install it, or change `tools: {{{name}: {{mcp: …}}}}` in planrunner.yaml")
    for credential in server.secrets.values():
        if why := ground.credential(credential):
            raise Unmet(why, rule="secret.missing")


def _forge(words: list[str], inputs: Mapping[str, Json], ground: Ground) -> None:
    section = ground.settings("forge")
    credential, variable = section.get("credential"), section.get("token")
    if not section.get("kind") or (section["kind"] not in ("github", "gitlab") and not section.get("url")):
        kinds = "github, gitlab, gitea"
        message = f"planrunner.yaml names no forge: set `forge: {{kind: …, url: …, token: …}}` ({kinds})"
        raise Unmet(message, lasting=True)
    if credential:
        if why := ground.credential(credential):
            raise Unmet(why, rule="secret.missing")
    elif not variable:
        message = "planrunner.yaml names no token: set `forge: {credential: ID}`, or `forge: {token: VARIABLE}`"
        raise Unmet(message, lasting=True)
    elif variable not in ground.own and not ground.environment.get(variable):
        raise Unmet(f"the environment variable `{variable}` holds no secret", rule="git.secret", lasting=True)


_KINDS: dict[str, Callable[[list[str], Mapping[str, Json], Ground], None]] = {
    "program": _program,
    "package": _package,
    "variable": _variable,
    "model": _model,
    "database": _database,
    "server": _server,
    "forge": _forge,
}


def require_verbatim(context: Context, name: str, instead: str) -> None:
    """Refuse an input that was put together out of values while the run went on, whatever those values were.

    ``instead`` says how values are handed over. Raises Failure (policy).
    """
    task = context.call.task
    written = task.inputs.get(name) if isinstance(task.inputs, dict) else None
    if holds_template(written) or (written is None and task.command):
        raise Failure(f"`{name}` is code and takes no templates: {instead}", rule="template.code")
