"""Tokens of the service: who may do what over HTTP, for how long, in which projects.

Kept for each user, outside every project, in one file that is theirs alone. A token is shown once, when it is made; the
file holds its digest. A request with a token acts under its name and with its roles.
"""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import json
import os
import secrets
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal, TypeVar, get_args

from planrunner.errors import Hint, NextStep, NotFound, StorageFailed, UsageError
from planrunner.fileio import replace_file, stamp_of
from planrunner.records import Struct

Scope = Literal["read", "run", "decide", "admin"]
SCOPES: tuple[Scope, ...] = get_args(Scope)
"""``read`` looks, ``run`` starts and steers runs and writes plans, ``decide`` answers gates, ``admin`` changes what the
service itself does; each but ``read`` includes ``read``, and ``admin`` all."""

Row = TypeVar("Row", bound=Struct)

_MARK = "planrunner"
_MOST = 1 << 20


class Token(Struct):
    """A token as the file has it. ``id`` names it, ``name`` is who acts with it; ``projects`` are names of projects of
    the service, empty for all. Times are seconds since 1970; without ``expires`` it holds until it is revoked.
    ``digest`` is the SHA-256 of the secret."""

    id: str
    name: str
    digest: str
    scopes: tuple[Scope, ...]
    roles: tuple[str, ...] = ()
    projects: tuple[str, ...] = ()
    created: float = 0.0
    expires: float | None = None

    @property
    def may(self) -> frozenset[Scope]:
        """Every scope that it gives."""
        return frozenset(SCOPES if "admin" in self.scopes else {"read", *self.scopes})

    def holds(self, now: float) -> bool:
        """Whether it has not expired."""
        return self.expires is None or now < self.expires


def token_folder() -> str:
    """``$XDG_DATA_HOME/planrunner/service`` or ``~/.local/share/planrunner/service``."""
    root = os.environ.get("XDG_DATA_HOME", "")
    if not os.path.isabs(root):
        root = os.path.expanduser("~/.local/share")
    return os.path.join(root, "planrunner", "service")


def token_file() -> str:
    """Where tokens are kept; there may be none yet."""
    return os.path.join(token_folder(), "tokens.json")


def tokens() -> list[Token]:
    """Every token, expired ones too, by creation. Raises StorageFailed for a file that others could have written, or
    whose contents are not tokens."""
    return read_rows(token_file(), _token, "tokens")


def read_rows(path: str, read: Callable[[dict[str, Any]], Row], name: str) -> list[Row]:
    """The rows that a file of the service has under a name, each made by ``read``; none without the file. Raises
    StorageFailed for a file that others could have written, or that has other contents."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise _unusable(path, error.strerror or str(error), name) from error
    with open(descriptor, "rb") as file:
        _require_own(path, os.fstat(descriptor), name)
        try:
            return [read(each) for each in json.loads(file.read(_MOST))[name]]
        except (ValueError, KeyError, TypeError) as error:
            raise _unusable(path, f"it is not a list of {name}", name) from error


def token_of(secret: str, known: list[Token], now: float) -> Token | None:
    """The token that a text is, among the ``known`` ones; None for any other text, or an expired one."""
    mark, _, rest = secret.partition("_")
    name, _, key = rest.partition("_")
    found = next((each for each in known if each.id == name), None)
    digest = _digest(key)
    if found is None or mark != _MARK or not hmac.compare_digest(digest, found.digest):
        return None
    return found if found.holds(now) else None


def make_token(wanted: Token) -> tuple[Token, str]:
    """Keep a token and give its text, which is not kept; ``id``, ``digest`` and ``created`` are made here.
    Raises UsageError for a token without a name or scope, StorageFailed."""
    if not wanted.name or not wanted.scopes:
        raise UsageError("a token needs a name and at least one scope", f"scopes are {', '.join(SCOPES)}")
    key = secrets.token_urlsafe(32)
    made = wanted._replace(id=secrets.token_hex(4), digest=_digest(key), created=time.time())
    with changing(token_file(), _token, "tokens") as known:
        known.append(made)
    return made, f"{_MARK}_{made.id}_{key}"


def revoke_token(named: str) -> list[Token]:
    """Take back the token with an id, or all of a name; those that were. Raises NotFound, StorageFailed."""
    with changing(token_file(), _token, "tokens") as known:
        gone = [each for each in known if named in (each.id, each.name)]
        if not gone:
            raise NotFound(f"there is no token `{named}`", Hint(NextStep("token list"), " lists them"))
        known[:] = [each for each in known if each not in gone]
    return gone


class TokenBook:
    """The tokens of the file, read again whenever it has changed, so that what was revoked ends at once."""

    __slots__ = ("_stamp", "_tokens")

    def __init__(self) -> None:
        self._stamp: tuple[int, ...] | None = None
        self._tokens: list[Token] = []

    def tokens(self) -> list[Token]:
        """As ``tokens``. Raises StorageFailed."""
        stamp = stamp_of(token_file())
        if stamp != self._stamp:
            self._tokens, self._stamp = tokens(), stamp
        return self._tokens

    def by_id(self, name: str, now: float) -> Token | None:
        """The token with an id that still holds."""
        return next((each for each in self.tokens() if each.id == name and each.holds(now)), None)

    def of(self, secret: str, now: float) -> Token | None:
        """The token that a text is; None for one that does not hold."""
        return token_of(secret, self.tokens(), now)


@contextmanager
def changing(path: str, read: Callable[[dict[str, Any]], Row], name: str) -> Iterator[list[Row]]:
    """As ``read_rows``, to be changed by one process at a time; what the list holds in the end is kept."""
    folder = token_folder()
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        _require_own(folder, os.stat(folder), name)
        lock = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise _unusable(folder, error.strerror or str(error), name) from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        known = read_rows(path, read, name)
        yield known
        data = json.dumps({"format": 1, name: [each._asdict() for each in known]}, indent=1)
        replace_file(path, data.encode(), durable=True)
    except OSError as error:
        raise _unusable(path, error.strerror or str(error), name) from error
    finally:
        os.close(lock)


def _token(data: dict[str, Any]) -> Token:
    """A token of the file. Raises TypeError and ValueError for other data."""
    token = Token(**data)
    scopes = tuple(scope for scope in SCOPES if scope in token.scopes)
    if len(scopes) != len(token.scopes) or not all(isinstance(each, str) for each in (token.id, token.digest)):
        raise ValueError(data)
    return token._replace(scopes=scopes, roles=tuple(token.roles), projects=tuple(token.projects))


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


def _require_own(path: str, about: os.stat_result, name: str) -> None:
    if about.st_uid != os.geteuid() or about.st_mode & (stat.S_IRWXG | stat.S_IRWXO) & ~0o055:
        raise _unusable(path, "others can write it", name)
    if stat.S_ISREG(about.st_mode) and about.st_mode & 0o077:
        raise _unusable(path, "others can read it", name)


def _unusable(path: str, why: str, name: str) -> StorageFailed:
    return StorageFailed(
        f"{name} cannot be kept in `{path}`: {why}", "make it yours alone, with mode 600 (a folder: 700)"
    )
