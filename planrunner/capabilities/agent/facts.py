"""What a project has that a plan can be filled from: its commands, its repository, and what a goal names of it.

Files are only read, none is run, and no more than the first ``MOST_TEXT`` bytes of each count.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

Json = Any
Fact = str | list[str]

MOST_TEXT = 256_000
_NEWEST = 1000

LACKING: dict[str, str] = {
    "branch": "a branch main or master, or one that origin calls its default",
    "database": "the file of an SQLite database, in the goal or in the project (*.db, *.sqlite)",
    "deploy": "how to deploy: a target or script `deploy` (Makefile, package.json), or deploy.sh",
    "folder": "a folder of the project, named in the goal",
    "git": "a git repository",
    "good": "a tag or commit that worked, named in the goal, or any tag",
    "migration": "an SQL script, in the goal or in migrations/",
    "pages": "addresses in the goal, or a search server (`research: {url: …}` in planrunner.yaml)",
    "rollback": "how to take a deployment back: a target or script `rollback`, or rollback.sh",
    "sources": "folders or files with source code",
    "test": "how to run the tests: a target or script `test`, or pyproject.toml, Cargo.toml, go.mod …",
    "url": "an address (https://…) in the goal",
    "version": "a version, in the goal or in pyproject.toml, package.json or Cargo.toml",
}
"""What each fact is that a goal may need, in words for people."""

_URL = re.compile(r"https?://[^\s<>\"'`{}]+[^\s<>\"'`{}.,;:!?)]")
_VERSION = re.compile(r"(?<![\w.])v?(\d+\.\d+(?:\.\d+)?(?:[-+][0-9A-Za-z.]+)?)(?![\w.])")
_WORD = re.compile(r"[\w./@-]*\w")
_HIDDEN = frozenset({"node_modules", "venv", "env", "build", "dist", "target", "vendor", "backups", "__pycache__"})
_CODE = (".py", ".js", ".jsx", ".ts", ".tsx", ".go", ".rs", ".java", ".kt", ".c", ".cc", ".h", ".rb", ".php", ".sh")


class Repository(NamedTuple):
    """A git repository as its files tell it: names of branches and tags, the default branch, the first remote."""

    tags: tuple[str, ...] = ()
    default: str = ""
    remote: str = ""


def facts(directory: str, goal: str, settings: Mapping[str, Json] | None = None) -> dict[str, Fact]:
    """What is known of a project, by name; what is not known is missing. ``settings`` are those of planrunner.yaml."""
    known: dict[str, Fact] = {"goal": _harmless(goal), **_commands(directory)}
    known.update(_named(directory, goal))
    if (repository := read_repository(directory)) is not None:
        known["git"] = "git"
        known.update({"branch": repository.default} if repository.default else {})
        known.update({"remote": repository.remote} if repository.remote else {})
        named = [word for word in _WORD.findall(goal) if word in repository.tags or _is_commit(word)]
        if good := (named or list(repository.tags[-1:]))[:1]:
            known["good"] = good[0]
    if (settings or {}).get("research", {}).get("url"):
        known["search"] = known["pages"] = "search"
    if sources := list(_sources(directory)):
        known["sources"] = sources
    return known


def _harmless(goal: str) -> str:
    """The goal as a text in a plan: one line, and nothing in it is a template."""
    return re.sub(r"\{(?=[{%#])", "{ ", " ".join(goal.split()))


def _is_commit(word: str) -> bool:
    return re.fullmatch(r"[0-9a-f]{7,40}", word) is not None and not word.isdecimal()


# Commands


def _commands(directory: str) -> dict[str, Fact]:
    """Commands by what they are for; a word of the project's own comes before what its kind suggests."""
    known: dict[str, Fact] = {}
    for found in (_of_kind(directory), _of_scripts(directory), _of_npm(directory), _of_make(directory)):
        known.update(found)
    return known


def _of_make(directory: str) -> dict[str, str]:
    targets = set(re.findall(r"(?m)^([A-Za-z][\w-]*)\s*:(?!=)", _text(directory, "Makefile")))
    names = {"format": ("format", "fmt"), "rollback": ("rollback", "undeploy")}
    purposes = ("test", "lint", "format", "build", "deploy", "rollback")
    chosen = {
        purpose: next(iter([n for n in names.get(purpose, (purpose,)) if n in targets]), "") for purpose in purposes
    }
    return {purpose: f"make {target}" for purpose, target in chosen.items() if target}


def _of_npm(directory: str) -> dict[str, str]:
    data = _json(directory, "package.json")
    scripts = data.get("scripts")
    tool = next(
        (tool for lock, tool in (("pnpm-lock.yaml", "pnpm"), ("yarn.lock", "yarn")) if _has(directory, lock)), "npm"
    )
    names = ("test", "lint", "format", "build", "deploy", "rollback")
    return {name: f"{tool} run {name}" for name in names if isinstance(scripts, dict) and name in scripts}


def _of_scripts(directory: str) -> dict[str, str]:
    names = ((purpose, f"{folder}{purpose}.sh") for purpose in ("deploy", "rollback") for folder in ("scripts/", ""))
    return {purpose: f"sh {path}" for purpose, path in names if _has(directory, path)}


def _of_kind(directory: str) -> dict[str, str]:
    """What the kind of project suggests."""
    project = _toml(directory, "pyproject.toml")
    if project or any(_has(directory, name) for name in ("setup.py", "setup.cfg", "pytest.ini", "tox.ini")):
        return _of_python(directory, project)
    if _has(directory, "Cargo.toml"):
        return {
            "test": "cargo test",
            "lint": "cargo clippy -- -D warnings",
            "format": "cargo fmt",
            "build": "cargo build --release",
        }
    if _has(directory, "go.mod"):
        return {"test": "go test ./...", "lint": "go vet ./...", "format": "gofmt -w .", "build": "go build ./..."}
    if _has(directory, "pom.xml"):
        return {"test": "mvn -q test", "build": "mvn -q package"}
    if _has(directory, "gradlew"):
        return {"test": "./gradlew test", "build": "./gradlew build"}
    return {}


def _of_python(directory: str, project: dict[str, Json]) -> dict[str, str]:
    runner = next((f"{tool} run " for tool in ("uv", "poetry") if _has(directory, f"{tool}.lock")), "")
    python = f"{runner}python -m" if runner or not _has(directory, ".venv/bin/python") else ".venv/bin/python -m"
    tools = project.get("tool") if isinstance(project.get("tool"), dict) else {}
    commands = {"test": f"{python} pytest -q"}
    if "ruff" in (tools or {}) or _has(directory, "ruff.toml"):
        commands |= {"lint": f"{python} ruff check .", "format": f"{python} ruff format ."}
    elif "black" in (tools or {}):
        commands["format"] = f"{python} black ."
    if "build-system" in project:
        commands["build"] = "uv build" if runner.startswith("uv") else f"{python} build"
    return commands


# What the goal names, and what the project has of it


def _named(directory: str, goal: str) -> Iterator[tuple[str, Fact]]:
    urls = list(dict.fromkeys(_URL.findall(goal)))
    if urls:
        yield "urls", urls
        yield "pages", urls
        yield "url", urls[0]
        path = urls[0].partition("?")[0].lower()
        yield ("json", "json") if path.endswith(".json") else ("lines", "lines")
    words = [
        word for word in _WORD.findall(_URL.sub(" ", goal)) if not word.startswith(("/", "-")) and ".." not in word
    ]
    paths = [word.rstrip("/") for word in words if os.path.exists(os.path.join(directory, word))]
    if folder := next((path for path in paths if os.path.isdir(os.path.join(directory, path))), ""):
        yield "folder", folder
    databases = (".db", ".sqlite", ".sqlite3")
    if database := _first(directory, paths, databases, ("", "data", "var", "instance")):
        yield "database", database
    if script := _first(directory, paths, (".sql",), ("migrations",), newest=True):
        yield "migration", script
    if version := _VERSION.search(_URL.sub(" ", goal)):
        yield "version", version[1]
    elif said := _version(directory):
        yield "version", said


def _first(
    directory: str, paths: list[str], ends: tuple[str, ...], folders: tuple[str, ...], newest: bool = False
) -> str:
    """The file that the goal names, else the first (or last) of the folders by name."""
    for path in paths:
        if path.endswith(ends) and os.path.isfile(os.path.join(directory, path)):
            return path
    there = [
        os.path.join(folder, name)
        for folder in folders
        for name in sorted(_listed(os.path.join(directory, folder)))
        if name.endswith(ends)
    ]
    return there[-1 if newest else 0] if there else ""


def _version(directory: str) -> str:
    for file, keys in (("pyproject.toml", ("project", "version")), ("Cargo.toml", ("package", "version"))):
        value: Json = _toml(directory, file)
        for key in keys:
            value = value.get(key) if isinstance(value, dict) else None
        if isinstance(value, str) and _VERSION.fullmatch(value):
            return value
    value = _json(directory, "package.json").get("version")
    return value if isinstance(value, str) and _VERSION.fullmatch(value) else ""


def _sources(directory: str) -> Iterator[str]:
    """Patterns of the project's own code: top folders that hold some, and files beside them."""
    for name in sorted(_listed(directory)):
        path = os.path.join(directory, name)
        if name.startswith(".") or name in _HIDDEN or os.path.islink(path):
            continue
        if os.path.isdir(path):
            inside = [each for each in _listed(path) if each.endswith(_CODE)]
            below = [each for each in _listed(path) if os.path.isdir(os.path.join(path, each)) and each not in _HIDDEN]
            if inside or any(each.endswith(_CODE) for folder in below for each in _listed(os.path.join(path, folder))):
                yield f"{name}/**"
        elif name.endswith(_CODE):
            yield name


# Files


def read_repository(directory: str) -> Repository | None:
    """The repository of a folder; None where it has none."""
    at = directory
    while not os.path.lexists(os.path.join(at, ".git")):
        above = os.path.dirname(at)
        if above == at:
            return None
        at = above
    folder = os.path.join(at, ".git")
    if os.path.isfile(folder):  # a worktree, or a submodule
        said = _text(at, ".git").partition("gitdir:")[2].strip()
        folder = os.path.normpath(os.path.join(at, said))
        if common := _text(folder, "commondir").strip():
            folder = os.path.normpath(os.path.join(folder, common))
    packed = re.findall(r"(?m)^[0-9a-f]{40,64} refs/(\S+)$", _text(folder, "packed-refs"))
    refs = {*packed, *(f"{kind}/{name}" for kind in ("heads", "tags") for name in _refs(folder, kind))}
    branches = sorted(ref.removeprefix("heads/") for ref in refs if ref.startswith("heads/"))
    tags = sorted((ref.removeprefix("tags/") for ref in refs if ref.startswith("tags/")), key=_by_number)
    head = _text(folder, "refs/remotes/origin/HEAD").rpartition("origin/")[2].strip()
    default = next((name for name in (head, "main", "master", "trunk") if name in branches), "")
    remote = next(iter(re.findall(r'\[remote "([\w./-]+)"\]', _text(folder, "config"))), "")
    return Repository(tuple(tags), default, remote)


def _refs(folder: str, kind: str) -> Iterator[str]:
    top = os.path.join(folder, "refs", kind)
    for at, folders, files in os.walk(top):
        folders.sort()
        yield from (os.path.relpath(os.path.join(at, name), top) for name in files[:_NEWEST])


def _by_number(name: str) -> tuple[list[int], str]:
    return [int(number) for number in re.findall(r"\d+", name)[:6]], name


def _has(directory: str, name: str) -> bool:
    return os.path.isfile(os.path.join(directory, name))


def _listed(folder: str) -> list[str]:
    try:
        return os.listdir(folder)[:_NEWEST]
    except OSError:
        return []


def _text(directory: str, name: str) -> str:
    try:
        with open(os.path.join(directory, name), "rb") as file:
            return file.read(MOST_TEXT).decode("utf-8", "replace")
    except OSError:
        return ""


def _toml(directory: str, name: str) -> dict[str, Json]:
    try:
        return tomllib.loads(_text(directory, name))
    except (tomllib.TOMLDecodeError, RecursionError):
        return {}


def _json(directory: str, name: str) -> dict[str, Json]:
    try:
        data = json.loads(_text(directory, name) or "{}")
    except (ValueError, RecursionError):
        return {}
    return data if isinstance(data, dict) else {}
