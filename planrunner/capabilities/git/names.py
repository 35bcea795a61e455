"""Names that come from a plan: commits, branches, tags and paths. None of them is ever read as an option."""

from __future__ import annotations

import re

from planrunner.capabilities.contract import Failure

_NO_REF = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|/\.|\.lock(/|$)")


def checked_revision(text: str) -> str:
    """A name for one commit, such as ``HEAD~2``, ``main`` or a digest. Raises Failure."""
    if not text or text.startswith("-") or ".." in text or any(ord(char) < 33 or ord(char) == 127 for char in text):
        raise _unfit(f"{text!r} names no commit", text)
    return text


def checked_reference(text: str, kind: str = "branch") -> str:
    """The short name of a branch or tag, as git takes it. Raises Failure."""
    parts = text.split("/")
    wrong = not text or text in ("@", "HEAD") or text.startswith(("-", "/", ".")) or text.endswith(("/", "."))
    if wrong or _NO_REF.search(text) or any(part.startswith("-") for part in parts):
        raise _unfit(f"{text!r} is no name for a {kind}", text)
    return text


def checked_path(text: str, what: str = "path") -> str:
    """A path below the working directory, taken literally. Raises Failure (policy) for one that leads out of it."""
    if not text or "\0" in text:
        raise Failure(f"{text!r} is no {what}")
    parts = text.split("/")
    if text.startswith("/") or ".." in parts:
        raise Failure(f"{text} is outside the working directory", "policy", rule="files.beneath")
    if any(part.lower() == ".git" for part in parts):
        raise Failure(f"{text} lies in what git itself keeps", "policy", rule="files.protected")
    return text


def _unfit(message: str, text: str) -> Failure:
    """The failure for a text that is no name; one that git would take for an option is refused as such."""
    return Failure(message, "policy", rule="git.option") if text.startswith("-") else Failure(message)
