"""What is known of a capability as far as foreign text goes, as the record of a run keeps it."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from planrunner.records import Struct

if TYPE_CHECKING:
    from planrunner.plan.model import Capability, Field

from planrunner.frozen import EMPTY

Json = Any
Row = dict[str, Any]

USES = {
    "command": "a command",
    "code": "code",
    "script": "code",
    "statement": "a statement for a database",
    "image": "what is run",
    "manifest": "what is run",
    "url": "a host",
    "host": "a host",
    "page": "a host",
    "path": "a path",
    "plan": "a plan",
    "capability": "the name of a capability",
    "approval": "an approval",
    "rules": "the rules of the project",
    "written": "the rules of the project",
    "prompt": "the prompt of an agent that acts",
    "option": "an option",
}
"""What the value of an input may be used as, and how people are told. ``page`` is the address of a public page that is
read without credentials: what a search found may lead there. ``script`` is a file whose content runs, ``manifest`` runs
where it is foreign as a whole."""

CLOSED = frozenset({"int", "number", "bool", "duration", "size", "money", "percent"})
"""Types of the plan language whose values cannot carry text."""

DIGEST = "digest"
"""What has to have it was known before: it is not a danger."""

_RULES = ("planrunner.yaml", ".planrunner", ".git")
"""Files, and folders of files, that say what may be done or what runs by itself."""

_CODE = frozenset(
    """.py .pyw .pyi .pyx .pth .ipynb .sh .bash .zsh .fish .ps1 .bat .cmd .js .mjs .cjs .ts .mts .cts .tsx .jsx .vue
    .svelte .rb .rake .pl .pm .php .lua .r .jl .go .rs .c .h .cc .cpp .cxx .hpp .m .swift .java .kt .kts .scala .groovy
    .gradle .cs .fs .ex .exs .erl .hs .ml .clj .dart .nim .zig .mk .cmake .bzl .nix .tcl .awk""".split()
)
_RUN = frozenset(
    """Makefile makefile GNUmakefile Dockerfile Containerfile Justfile justfile Rakefile Gemfile Procfile BUILD
    WORKSPACE CMakeLists.txt pyproject.toml setup.cfg tox.ini pytest.ini noxfile.py package.json Cargo.toml build.xml
    pom.xml""".split()
)

STEERING = re.compile(
    "PATH|BASH_ENV|ENV|SHELL|SHELLOPTS|BASHOPTS|PS4|PROMPT_COMMAND|LD_PRELOAD|LD_LIBRARY_PATH|LD_AUDIT|DYLD_[A-Z_]+"
    "|GIT_(?:SSH|SSH_COMMAND|EXTERNAL_DIFF|EDITOR|SEQUENCE_EDITOR|PAGER|ASKPASS|PROXY_COMMAND|EXEC_PATH|DIR"
    "|TEMPLATE_DIR|CONFIG[A-Z0-9_]*)|EDITOR|VISUAL|PAGER|MANPAGER|LESSOPEN|LESSCLOSE|BROWSER|SSH_ASKPASS|SUDO_ASKPASS"
    "|PYTHON(?:PATH|STARTUP|HOME|BREAKPOINT|USERBASE)|PERL5?(?:OPT|LIB|DB)|RUBY(?:OPT|LIB)|NODE_(?:OPTIONS|PATH)"
    "|_JAVA_OPTIONS|JAVA_TOOL_OPTIONS|JDK_JAVA_OPTIONS|JAVA_OPTS|CLASSPATH|MAVEN_OPTS|GRADLE_OPTS|MAKEFLAGS"
    "|RUSTC_WRAPPER"
)
"""Variables of the environment whose values run, or say what runs."""

_MEDIA = {"application/sql": "statement", "text/x-python": "code"}
_SCALARS = frozenset({"integer", "number", "boolean", "null"})
_HARMLESS = ("pure", "read")


class Known(Struct):
    """``foreign`` outputs come from outside, ``own`` ones by the capability itself; ``closed`` are
    members of outputs that hold no free text. ``shaped`` gives for an output the input with its schema, ``uses`` for an
    input what its value becomes. ``writes`` are inputs that name files."""

    foreign: tuple[str, ...] = ()
    own: tuple[str, ...] = ()
    closed: tuple[str, ...] = ()
    shaped: Mapping[str, str] = EMPTY
    uses: Mapping[str, str] = EMPTY
    writes: tuple[str, ...] = ()


def row(capability: Capability) -> Row:
    """What the record of a run keeps of a capability; what is as usual is left out."""
    whole: Row = {
        "foreign": list(capability.foreign),
        "own": list(capability.own),
        "closed": [field.name for field in capability.outputs if is_closed(field.schema) or field.type in CLOSED],
        "shaped": dict(capability.shaped or {}),
        "uses": _uses(capability),
        "writes": list(capability.writes),
    }
    return {name: value for name, value in whole.items() if value}


def known(found: Row | None) -> Known:
    """What a record says; of a capability without one nothing is known but that it hands on what it is given."""
    if not found:
        return Known()
    texts = {name: tuple(found.get(name, ())) for name in ("foreign", "own", "closed", "writes")}
    return Known(**texts, shaped=found.get("shaped", {}), uses=found.get("uses", {}))


def makes_rules(path: str) -> bool:
    """Whether a file, by its path from the working directory, says what may be done in the project."""
    parts = posixpath.normpath(path).split("/")
    return parts[0] in _RULES or parts[-1] == _RULES[0] or ".git" in parts


def may_run(path: str) -> bool:
    """Whether a file, by its name, is code or says what a tool runs: what is imported, tested or built."""
    name = posixpath.basename(path)
    return name in _RUN or posixpath.splitext(name)[1].lower() in _CODE


def may_be_plan(path: str) -> bool:
    """Whether a file, by its name, may be one that is run as a plan."""
    if path.endswith(".json") and not path.endswith(".plan.json"):
        return posixpath.basename(posixpath.dirname(path)) == "plans"
    return path.endswith((".yaml", ".yml", ".plan", ".plan.json"))


def files_of(value: Json) -> Iterator[str]:
    """The files that an input names: one, or that of each item with a ``path``."""
    items = value if isinstance(value, list) else [value]
    for item in items:
        name = item.get("path") if isinstance(item, dict) and item is not value else item
        if isinstance(name, str) and name and (item is value or isinstance(item, dict)):
            yield name


def is_closed(schema: Json) -> bool:
    """Whether a JSON Schema lets through a number, a yes or no, or one of the words it names, and nothing else."""
    if not isinstance(schema, dict):
        return False
    if "enum" in schema or "const" in schema:
        return True
    for word in ("anyOf", "oneOf"):
        if isinstance(schema.get(word), list) and schema[word] and all(map(is_closed, schema[word])):
            return True
    kinds = schema.get("type")
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if isinstance(kinds, list) and kinds and _SCALARS.issuperset(kinds):
        return True
    if kinds == ["array"]:
        return is_closed(schema.get("items"))
    return kinds == ["object"] and _is_closed_object(schema)


def _is_closed_object(schema: Row) -> bool:
    members = schema.get("properties")
    shut = schema.get("additionalProperties") is False and not schema.get("patternProperties")
    return shut and isinstance(members, dict) and all(map(is_closed, members.values()))


def member(schema: Json, path: Iterable[str]) -> Json:
    """The part of a schema that a member of the data has to fit; None where it says nothing of it. ``*`` is any item
    of a list."""
    for name in path:
        if not isinstance(schema, dict):
            return None
        members = schema.get("properties")
        if name == "*":
            items = schema.get("items")
            schema = items if isinstance(items, dict) else schema.get("additionalProperties")
        elif isinstance(members, dict) and name in members:
            schema = members[name]
        else:
            return None
    return schema


def _uses(capability: Capability) -> Row:
    result = {field.name: use for field in capability.inputs if (use := _use(field))}
    if capability.effect in _HARMLESS:
        result = {name: use for name, use in result.items() if use != "prompt"}
    return result


def _use(field: Field) -> str:
    schema = field.schema if isinstance(field.schema, dict) else {}
    return field.use or _MEDIA.get(str(schema.get("contentMediaType")), "") or _form(schema)


def _form(schema: Row) -> str:
    return "url" if schema.get("format") == "http-address" else ""
