"""Who asks: by a token, by a session that began with one, or by the account of the process on its own machine."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from http.cookies import CookieError, SimpleCookie
from urllib.parse import quote

from planrunner.caller import Principal, principal
from planrunner.safety.sessions import SessionBook, form_of
from planrunner.safety.tokens import SCOPES, Token, TokenBook
from planrunner.service.context import Visitor
from planrunner.service.problems import API, Problem

SESSION = 12 * 3600.0
"""Seconds that a session lasts."""


class Access:
    """Finds out who asks. Where ``account`` is given and there are no tokens, the user of the process acts, from
    this machine and from the same account alone."""

    def __init__(self, cookie: str, account: int | None) -> None:
        self.cookie = cookie
        self._book = TokenBook()
        self._sessions = SessionBook()
        self._account = account
        self._owner = Visitor(principal(), frozenset(SCOPES), form=secrets.token_urlsafe(24))

    @property
    def is_open(self) -> bool:
        """Whether the account of the process acts without a token."""
        return self._account is not None and not self._book.tokens()

    def visitor(self, headers: dict[str, str], user: Callable[[], int | None]) -> Visitor | None:
        """Who asks; None for whom nothing names. ``user`` tells whose process of this machine connected, None where
        that is not known. Raises StorageFailed where the tokens cannot be read."""
        now = time.time()
        if given := headers.get("authorization"):
            kind, _, text = given.partition(" ")
            token = self._book.of(text.strip(), now) if kind.lower() == "bearer" else None
            return _visitor(token, "") if token is not None else None
        if self.is_open:
            same = user() in (self._account, 0, None)  # 0 is root, who may do all anyway
            return self._owner if same else None
        value = self._value(headers.get("cookie", ""))
        session = self._sessions.of(value, now)
        token = self._book.by_id(session.token, now) if session is not None else None
        return _visitor(token, form_of(value)) if token is not None else None

    def holds(self, visitor: Visitor) -> bool:
        """Whether the token of a visitor still holds, or the account of the process still acts."""
        if not visitor.token:
            return self.is_open
        return self._book.by_id(visitor.token, time.time()) is not None

    def unknown(self, path: str, query: str, headers: dict[str, str]) -> Problem:
        """What is said where nothing names the one who asks: a browser is led to where people sign in."""
        if self.is_open and "authorization" in headers:
            hint = "there are no tokens: the user of the service asks without one"
            return Problem(401, "the token of this request is not valid", hint, headers={"www-authenticate": "Bearer"})
        if self.is_open:
            return Problem(
                403, "another user of this machine runs this service, without tokens", "ask them for a token"
            )
        if not path.startswith(API) and "text/html" in headers.get("accept", ""):
            address = f"{path}?{query}" if query else path
            return Problem(303, "sign in first", headers={"location": f"/sign-in?to={quote(address, safe='/')}"})
        if self._value(headers.get("cookie", "")):
            hint = "sign in again at /sign-in"
            return Problem(401, "the session is over, or its token was revoked", hint)
        hint = "send `Authorization: Bearer TOKEN`; `planrunner token create` makes one"
        return Problem(401, "no valid token came with the request", hint, headers={"www-authenticate": "Bearer"})

    def sign_in(self, text: str) -> str | None:
        """Begin a session with a token; the value of its cookie, None for a token that does not hold. Raises
        StorageFailed."""
        token = self._book.of(text.strip(), time.time())
        return None if token is None else self._sessions.begin(token.id, SESSION)

    def sign_out(self, cookies: str) -> None:
        """End the session of a request. Raises StorageFailed."""
        self._sessions.end(self._value(cookies))

    def _value(self, cookies: str) -> str:
        try:
            found = SimpleCookie(cookies).get(self.cookie)
        except CookieError:
            return ""
        return found.value if found is not None else ""


def _visitor(token: Token, form: str) -> Visitor:
    projects = frozenset(token.projects) or None
    return Visitor(Principal(token.name, token.roles, "token"), token.may, projects, token.id, form)
