"""Extras: what to install where the packages of one are missing. They are named one by one: no package index has
planrunner, so that its own name could install what another person put there."""

from __future__ import annotations

import os
import re
import sys
from importlib import import_module
from shlex import quote

_OF_EXTRA = re.compile(r"""^(?P<package>[^;]+?)\s*;.*\bextra\s*==\s*["'](?P<extra>\w+)["']""")
_NAMED = re.compile(r"\bextra `([a-z]+)`")


def packages(extra: str) -> list[str]:
    """The requirements that the extra adds; empty where planrunner runs from files that were not installed."""
    metadata = import_module("importlib.metadata")  # by name: large, and only this needs it
    try:
        declared = metadata.requires("planrunner") or ()
    except metadata.PackageNotFoundError:
        return []
    found = (_OF_EXTRA.match(line) for line in declared)
    return [match["package"] for match in found if match and match["extra"] == extra]


def installing(extra: str) -> str:
    """The command that brings the packages of an extra into the environment that planrunner runs in."""
    wanted = " ".join(map(quote, packages(extra)))
    if not wanted:
        return f"pip install '.[{extra}]' in the clone"
    if os.path.exists(os.path.join(sys.prefix, "pipx_metadata.json")):
        return f"pipx inject {quote(os.path.basename(sys.prefix))} {wanted}"
    if import_module("importlib.util").find_spec("pip") is None:
        return f"uv pip install --python {quote(sys.executable)} {wanted}"
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    first = next((folder for folder in folders if os.path.exists(os.path.join(folder, "pip"))), "")
    pip = "pip" if first == os.path.dirname(sys.executable) else f"{quote(sys.executable)} -m pip"
    return f"{pip} install {wanted}"


def named_in(text: str) -> str:
    """The extra that a message asks for; empty where it asks for none."""
    found = _NAMED.search(text)
    return found[1] if found else ""


def needed(who: str, extra: str, error: object) -> str:
    """What is told of ``who``, with its verb, where the libraries of an extra cannot be loaded."""
    return f"{who} the extra `{extra}`: {installing(extra)} ({error})"
