"""Sessions of the service: who has signed in with which token, for how long.

Rows in a file beside the tokens, so that a restart of the service ends none. A row has the digest of what the cookie of
the session holds, and the id of its token: a session ends with its token.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import time
from collections.abc import Iterable

from planrunner.fileio import stamp_of
from planrunner.records import Struct
from planrunner.safety.tokens import changing, read_rows, token_folder

MOST = 1000
"""Sessions at once; of more the oldest end."""


class Session(Struct):
    """A person who signed in. ``key`` is the digest of the value of the cookie, ``until`` seconds since 1970."""

    key: str
    token: str
    until: float


class SessionBook:
    """The sessions of the file, read again whenever it has changed."""

    __slots__ = ("_sessions", "_stamp")

    def __init__(self) -> None:
        self._stamp: tuple[int, ...] | None = None
        self._sessions: dict[str, Session] = {}

    def begin(self, token: str, seconds: float) -> str:
        """Begin a session with the token of an id; the value of its cookie. Raises StorageFailed."""
        value, now = secrets.token_urlsafe(32), time.time()
        with changing(_file(), _session, "sessions") as known:
            known[:] = [each for each in known if now < each.until][1 - MOST :]
            known.append(Session(_digest(value), token, now + seconds))
        return value

    def of(self, value: str, now: float) -> Session | None:
        """The session of the value of a cookie; None for one that is unknown or over. Raises StorageFailed."""
        found = self._known().get(_digest(value)) if value else None
        return found if found is not None and now < found.until else None

    def end(self, value: str) -> None:
        """End the session of the value of a cookie. Raises StorageFailed."""
        if self.of(value, 0.0) is not None:
            with changing(_file(), _session, "sessions") as known:
                known[:] = [each for each in known if each.key != _digest(value)]

    def _known(self) -> dict[str, Session]:
        stamp = stamp_of(_file())
        if stamp != self._stamp:
            rows: Iterable[Session] = read_rows(_file(), _session, "sessions")
            self._sessions, self._stamp = {each.key: each for each in rows}, stamp
        return self._sessions


def form_of(value: str) -> str:
    """What the forms of a session send back, known only to who has its cookie."""
    return _digest(f"form {value}")


def _file() -> str:
    return os.path.join(token_folder(), "sessions.json")


def _session(data: dict[str, object]) -> Session:
    """A session of the file. Raises TypeError and ValueError for other data."""
    session = Session(**data)  # type: ignore[arg-type]
    return session._replace(until=float(session.until))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
