"""What other repositories have: fetched into remote-tracking references, and changed by pushes with a lease."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from planrunner.capabilities.contract import Context, Failure
from planrunner.capabilities.git.addresses import Address, connected, parsed
from planrunner.capabilities.git.command import Git, Refused
from planrunner.capabilities.git.names import checked_reference
from planrunner.capabilities.git.scopes import require_repository

if TYPE_CHECKING:
    from planrunner.capabilities.git.repository import Repository


_PASSING = (
    "Could not resolve", "Connection refused", "Connection timed out", "Connection reset", "early EOF", "hung up",
    "The requested URL returned error: 5", "The requested URL returned error: 429", "Operation timed out",
    "Failed to connect", "unexpected disconnect", "RPC failed", "Empty reply", "transfer closed",
)  # fmt: skip
_DENIED = ("Authentication failed", "could not read Username", "could not read Password", "returned error: 401",
           "returned error: 403", "Permission denied", "Host key verification failed")  # fmt: skip

PACKS = ("--upload-pack=git-upload-pack",)
"""The program at the other end, whatever the repository's settings say."""


class Remote(NamedTuple):
    """Another repository: ``name`` is that of its settings, ``git`` is allowed to reach it."""

    name: str
    address: Address
    git: Git

    def ask(self, *arguments: str, ok: tuple[int, ...] = (0,)) -> str:
        """Run git against it. Raises Failure in the class of what went wrong: transient, denied, policy, logic."""
        try:
            return self.git.run(*arguments, ok=ok).text
        except Refused as refused:
            raise failure_of(str(refused), kind_of(refused.said)) from None

    def value(self, reference: str) -> str:
        """What a reference, by its full name, points to there; empty where there is none."""
        listed = self.ask("ls-remote", *PACKS, "--end-of-options", self.address.text, reference)
        found = [line.split("\t") for line in listed.splitlines()]
        return next((digest for digest, name in found if name == reference), "")

    def has_branches(self) -> bool:
        """Whether there is any branch there."""
        return bool(self.ask("ls-remote", "--heads", *PACKS, "--end-of-options", self.address.text))

    def head(self) -> str:
        """The full name of the default branch there; empty where nobody says."""
        listed = self.ask("ls-remote", "--symref", *PACKS, "--end-of-options", self.address.text, "HEAD")
        found = [line.removeprefix("ref: ").split("\t") for line in listed.splitlines() if line.startswith("ref: ")]
        return next((branch for branch, name in found if name == "HEAD"), "")


def kind_of(said: str) -> str:
    """The failure class of what git said about a remote repository."""
    if any(sign in said for sign in _DENIED):
        return "denied"
    if any(sign in said for sign in _PASSING):
        return "transient"
    return "policy" if "not allowed" in said else "logic"


def failure_of(message: str, kind: str) -> Failure:
    """The failure of a command about a remote repository; what git itself does not go by is refused by a rule."""
    return Failure(message, kind, rule="git.protocol" if kind == "policy" else "")


def remote_of(context: Context, repository: Repository, name: str, url: str = "", push: bool = False) -> Remote:
    """The remote of a name, at ``url`` or where the repository's settings say. Raises Failure where nothing says."""
    checked_reference(name, "remote")
    configured = (push and repository.get(f"remote.{name}.pushurl")) or repository.get(f"remote.{name}.url")
    text = url or configured
    if not text:
        raise Failure(f"the repository has no remote `{name}`: give its `url`")
    address = parsed(text)
    if address.scheme == "file" and "://" not in text and not text.startswith("/"):
        address = address._replace(text=os.path.join(context.call.directory if url else repository.top, text))
    require_repository(context, address, "write" if push else "read")
    return Remote(name, address, connected(context, repository.git, address))
