"""Digests of settings: of each section that holds, of all sections, of each file. Texts that may be secrets are left
out of what is digested, so that no digest lets one be guessed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from hashlib import sha256
from typing import Any

from planrunner.escapes import masked
from planrunner.jsontext import stable_json
from planrunner.redaction import names_secret
from planrunner.safety.content import Settings
from planrunner.syntax.tree import to_json

Json = Any

_NAMES_ALONE = (("mcp", "env"), ("mcp", "headers"), ("provider_credentials", "config"))
"""Maps, each with what it stands in, of which only the names count."""
_FREE = ("with", "params", "options")
"""Maps with whatever a capability or a plan takes; entries named like secrets count by their names."""


def digests(settings: Settings, directory: str) -> dict[str, Json]:
    """The record of settings: ``digest`` of all, ``sections`` and ``files`` (paths from the folder of the project; that
    of the user's file in full) with theirs. Comments and the layout of a file do not count."""
    said = dict(settings.data)
    if settings.levels:
        said["policy"] = [level.data for level in settings.levels]
    sections = {name: _digest(said[name], name) for name in sorted(said)}
    return {
        "digest": _digest(sections),
        "sections": sections,
        "files": {
            _path(part.source.name, directory): _digest(None if part.tree is None else to_json(part.tree))
            for part in settings.parts
        },
    }


def _path(path: str, directory: str) -> str:
    near = os.path.relpath(path, directory)
    return path if near.startswith(os.pardir) else near


def _digest(value: Json, name: str = "") -> str:
    text = stable_json(_without_secrets(value, "", name, False))
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _without_secrets(value: Json, around: str, name: str, free: bool) -> Json:
    if isinstance(value, dict):
        if (around, name) in _NAMES_ALONE:
            return sorted(map(str, value))
        free = free or name in _FREE
        return {str(key): _without_secrets(each, name, str(key), free) for key, each in value.items()}
    if free and names_secret(name):
        return None
    if name == "command":
        return list(_words(value.split() if isinstance(value, str) else value))
    if isinstance(value, list):
        return [_without_secrets(each, around, name, free) for each in value]
    return masked(value) if isinstance(value, str) else value


def _words(words: Json) -> Iterator[Json]:
    """The words of a command, without the value of an option that is named like a secret."""
    before = ""
    for word in words or ():
        option, sign, _ = str(word).partition("=")
        if before.startswith("-") and names_secret(before):
            yield None
        elif sign and names_secret(option):
            yield option
        else:
            yield masked(word) if isinstance(word, str) else word
        before = str(word)
