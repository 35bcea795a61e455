"""Who commits: as the task says, else the operator's settings, else the repository's, else the user's own."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from planrunner.capabilities.contract import Context, Failure
from planrunner.capabilities.git.own_settings import user_value

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
            "nobody is named to commit: give `author: Name <mail>`, or set `git: {name: …, email: …}`"
            " in planrunner.yaml"
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
    name = project.get("name") or repository.get("user.name") or user_value(context, "user.name")
    email = project.get("email") or repository.get("user.email") or user_value(context, "user.email")
    return Person(_plain(name), _plain(email)) if name and email else None


def _plain(text: str) -> str:
    return re.sub(r"[<>\n\0]", "", text)
