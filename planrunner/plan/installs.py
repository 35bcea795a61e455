"""The packages that commands install: what `pip install`, `npm install`, `apt-get install` and their like name.

A list of packages counts by its file: `pip install -r requirements.txt` installs `requirements.txt`, `npm ci`
`package.json`. An install that cannot be read installs ``UNKNOWN``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from planrunner.plan.matching import UNKNOWN
from planrunner.plan.programnames import LAUNCHERS, bare
from planrunner.plan.shellcommand import CARRIERS, SHELLS


class _Installer(NamedTuple):
    """``verbs`` are the words behind the program that install what follows; ``taking`` are options whose value names no
    package, ``lists`` those whose value is one, or a list; ``alone`` is the list that is meant without names."""

    verbs: tuple[str, ...]
    taking: frozenset[str] = frozenset()
    lists: frozenset[str] = frozenset()
    alone: str = ""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_PIP = _Installer(
    ("install", "download", "wheel"),
    _words(
        "-c --constraint -i --index-url --extra-index-url -t --target -f --find-links -d --dest -w --wheel-dir "
        "--prefix --root --src --platform --python-version --python -p --proxy --cache-dir --timeout --retries "
        "--trusted-host --upgrade-strategy --no-binary --only-binary --report --log --cert --group --extra --optional"
    ),
    _words("-r --requirement --requirements -e --editable --with"),
)
_NODE = _Installer(
    ("install", "i", "add", "ci", "exec", "dlx", "x"),
    _words("--prefix -C --cwd -w --workspace --registry --filter --tag --cache --loglevel"),
    _words("-p --package"),
    "package.json",
)
_ROOT = _words("-t --target-release -o --option -c --config-file --repo --enablerepo --disablerepo -X --repository")
_INSTALLERS = {
    "pip": _PIP,
    "uv": _PIP._replace(verbs=("pip install", "add", "tool install", "tool run", "sync"), alone="pyproject.toml"),
    "uvx": _PIP._replace(verbs=("",)),
    "pipx": _PIP._replace(verbs=("install", "run", "inject")),
    "poetry": _PIP._replace(verbs=("add", "install"), alone="pyproject.toml"),
    "pdm": _PIP._replace(verbs=("add", "install", "sync"), alone="pyproject.toml"),
    "conda": _Installer(("install", "create"), _words("-n --name -p --prefix -c --channel"), _words("--file -f")),
    "npm": _NODE,
    "pnpm": _NODE,
    "yarn": _NODE._replace(verbs=("add", "install", "global add", "dlx")),
    "bun": _NODE,
    "npx": _NODE._replace(verbs=("",), alone=""),
    "gem": _Installer(("install",), _words("-v --version -i --install-dir --source"), alone="Gemfile"),
    "bundle": _Installer(("install", "add"), _words("-v --version --source --path"), alone="Gemfile"),
    "cargo": _Installer(
        ("install", "add"), _words("--version --root --features -F --rev --branch --tag"), _words("--git --path")
    ),
    "go": _Installer(("install", "get")),
    "apt-get": _Installer(("install", "build-dep"), _ROOT),
    "apk": _Installer(("add",), _ROOT),
    "dnf": _Installer(("install", "groupinstall"), _ROOT),
    "brew": _Installer(("install",), alone="Brewfile"),
    "composer": _Installer(("require", "install"), _words("-d --working-dir"), alone="composer.json"),
}
_ALIKE = {
    "pip3": "pip",
    "apt": "apt-get",
    "mamba": "conda",
    "micromamba": "conda",
    "yum": "dnf",
    "pnpx": "npx",
    "bunx": "npx",
}
_FIRST_ALONE = frozenset(("npx", "uvx", "pipx"))
"""Programs that take one package and hand it the words behind."""

_UNREAD = re.compile(
    rf"(?<![\w.-])(?:{'|'.join(map(re.escape, sorted({*_INSTALLERS, *_ALIKE} - {'npx', 'uvx', 'pnpx', 'bunx'})))})"
    r"(?:\d[\d.]*)?\s+(?:[-\w./=]+\s+){0,4}?(?:install|i|add|ci|get|require|sync)\b|(?<![\w.-])(?:npx|uvx|pnpx|bunx)\s"
)


def installed(commands: Sequence[Sequence[str]] | None, text: str) -> Iterator[str]:
    """The packages that commands install, each by its name without a version, or the list or address that names them.
    Where the commands cannot be told (None), ``text`` is searched for an install."""
    if commands is None:
        yield from _unread(text)
        return
    for words in commands:
        if words:
            yield from _of_command(tuple(words))


def _unread(text: str) -> Iterator[str]:
    if _UNREAD.search(text):
        yield UNKNOWN


def _of_command(words: tuple[str, ...]) -> Iterator[str]:
    program = os.path.basename(words[0])
    if program in CARRIERS or program in SHELLS or program in LAUNCHERS:
        for at in range(1, len(words)):
            if _installer(words[at:]) is not None:
                yield from _of_command(words[at:])
                return
        yield from _unread(" ".join(words[1:]))
        return
    named = _installer(words)
    if named is not None:
        installer, rest = named
        first = program in _FIRST_ALONE or rest[:1] == ("x",)
        names = list(_named(installer, rest))
        yield from names[:1] if first else names or ([installer.alone] if installer.alone else [])


def _installer(words: tuple[str, ...]) -> tuple[_Installer, tuple[str, ...]] | None:
    """Which installer a command is, and the words behind its verb."""
    program = os.path.basename(words[0])
    if re.fullmatch(r"python[\d.]*|py", program):
        if words[1:2] != ("-m",) or len(words) < 3:
            return None
        return _installer(words[2:])
    program = re.sub(r"^pip[\d.]+$", "pip", program)
    installer = _INSTALLERS.get(_ALIKE.get(program, program))
    if installer is None:
        return None
    words = bare(words)
    at = 1
    while installer.verbs != ("",) and at < len(words) and words[at].startswith("-"):
        at += 2 if words[at] in installer.taking else 1
    for verb in installer.verbs:
        parts = tuple(verb.split())
        if words[at : at + len(parts)] == parts:
            return installer, words[at + len(parts) :]
    return None


def _named(installer: _Installer, words: Sequence[str]) -> Iterator[str]:
    waiting = iter(words)
    for word in waiting:
        option, given, value = word.partition("=")
        if option in installer.lists:
            yield package(value if given else next(waiting, UNKNOWN))
        elif word in installer.taking:
            next(waiting, None)
        elif word == "--":
            continue
        elif not word.startswith("-"):
            yield package(word)


def package(word: str) -> str:
    """The name of a package without its version and extras; an address or a path as it is."""
    if UNKNOWN in word or "://" in word or word.startswith((".", "/", "~")):
        return UNKNOWN if UNKNOWN in word else word
    scope = re.match(r"@[\w.-]+/[\w.-]+", word)
    found = scope or re.match(r"\s*[A-Za-z0-9][A-Za-z0-9._/-]*", word)
    return found[0].strip() if found else UNKNOWN
