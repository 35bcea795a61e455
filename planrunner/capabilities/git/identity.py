"""Who commits: what the task says, then the operator's settings, then the repository's, then the user's own settings."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, NamedTuple

from planrunner.capabilities.contract import Context, Failure

if TYPE_CHECKING:
    from planrunner.capabilities.git.repository import Repository

_PERSON = re.compile(r"([^<>\n\0]+?) *<([^<>\n\0]*)>")


class Person(NamedTuple):
    """A name and an address for mail."""

    name: str
    email: str


def identities(context: Context, repository: Repository, author: str) -> dict[str, str]:
    """The variables by which git knows author and committer. Raises Failure where nobody is named."""
    committer = _usual(context, repository)
    writer = _parsed(author) if author else committer
    committer = committer or writer
    if writer is None or committer is None:
        raise Failure(
            "nobody is named to commit: give `author: Name <mail>`, or set `git: {name: …, email: …}` in planrunner.yaml"
        )
    return {
        "GIT_AUTHOR_NAME": writer.name,
        "GIT_AUTHOR_EMAIL": writer.email,
        "GIT_COMMITTER_NAME": committer.name,
        "GIT_COMMITTER_EMAIL": committer.email,
    }


def _parsed(text: str) -> Person:
    found = _PERSON.fullmatch(text.strip())
    if found is None:
        raise Failure(f"`author` takes a name and an address such as Ana <ana@example.org>, found {text!r}")
    return Person(found[1], found[2])


def _usual(context: Context, repository: Repository) -> Person | None:
    project = context.settings("git")
    name = project.get("name") or repository.get("user.name") or _own(context, "user.name")
    email = project.get("email") or repository.get("user.email") or _own(context, "user.email")
    return Person(_plain(name), _plain(email)) if name and email else None


def _plain(text: str) -> str:
    return re.sub(r"[<>\n\0]", "", text)


def _own(context: Context, key: str) -> str:
    """What the settings of user and machine say: they are read for this alone and decide nothing else."""
    return next(iter(_values(context, key)[-1:]), "")


def safe_directories(context: Context) -> list[str]:
    """Folders of others that the user trusts."""
    return _values(context, "safe.directory")


def _values(context: Context, key: str) -> list[str]:
    from planrunner.capabilities.git.command import program  # late, as below
    from planrunner.capabilities.programs import Program, run  # late: loads subprocess

    names = ("HOME", "XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM")
    hidden = {name: None for name in context.environment() if name.startswith(("GIT_", "LD_"))}
    own = {name: os.environ[name] for name in names if name in os.environ}
    env: dict[str, str | None] = {**hidden, **own, "GIT_DIR": "/dev/null", "LC_ALL": "C"}
    call = Program((program(), "config", "--includes", "-z", "--get-all", key), "/", env, quiet=True)
    found = run(context, call)
    return [value for value in found.text.split("\0") if value] if found.code == 0 else []
