"""Tokens of the service as documents and as lines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from planrunner.app.people.persons import require_person
from planrunner.safety.tokens import Token, make_token
from planrunner.views.documents import document, listing
from planrunner.views.runs import rfc3339

Json = Any


def create(wanted: Token) -> tuple[Token, str]:
    """Make a token as ``make_token`` does, for a person. Raises Denied where a run asks."""
    require_person("token")
    return make_token(wanted)


def token_object(token: Token, now: float) -> dict[str, Json]:
    """A token without its secret; ``projects`` is empty where it is for all."""
    return {
        "id": token.id,
        "name": token.name,
        "scopes": [*token.scopes],
        "roles": [*token.roles],
        "projects": [*token.projects],
        "created": rfc3339(token.created),
        "expires": rfc3339(token.expires),
        "expired": not token.holds(now),
    }


def tokens_document(tokens: Sequence[Token], now: float) -> dict[str, Json]:
    """Every token."""
    return listing("tokens", [token_object(each, now) for each in tokens])


def created_document(token: Token, text: str) -> dict[str, Json]:
    """A token that was made, with its text, which is not shown again."""
    return document(**token_object(token, token.created), token=text)


def token_lines(tokens: Sequence[Token], now: float) -> list[str]:
    """A line for each token."""
    rows = [_row(token_object(each, now)) for each in tokens]
    widths = [max(len(row[column]) for row in rows) for column in range(4)] if rows else []
    lines = [
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[4]]) for row in rows
    ]
    return lines or ["there are no tokens: planrunner token create NAME --scope read"]


def _row(token: dict[str, Json]) -> tuple[str, ...]:
    until = "until it is revoked"
    if token["expires"]:
        until = f"{'expired' if token['expired'] else 'until'} {token['expires']}"
    where = f"in {', '.join(token['projects'])}" if token["projects"] else "in all projects"
    return (
        token["id"],
        token["name"],
        ", ".join(token["scopes"]),
        ", ".join(token["roles"]) or "no role",
        f"{where}, {until}",
    )
