"""Signatures of webhooks after Standard Webhooks, for requests that planrunner sends and for those that it receives."""

from __future__ import annotations

import base64
import binascii
import hmac
from collections.abc import Mapping

_PREFIX = b"whsec_"


def signed_headers(secret: bytes, identity: str, at: int, body: bytes) -> dict[str, str]:
    """The headers that sign a request; ``at`` is seconds since 1970."""
    signature = _signature(secret, identity, str(at), body)
    return {"webhook-id": identity, "webhook-timestamp": str(at), "webhook-signature": signature}


def is_signed(secret: bytes, headers: Mapping[str, str], body: bytes) -> bool:
    """Whether one of the signatures among the headers, which have names in lower case, is made with the secret."""
    identity, at = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    wanted = _signature(secret, identity, at, body).encode()
    given = [each.encode() for each in headers.get("webhook-signature", "").split()]
    return bool(identity) and any(hmac.compare_digest(each, wanted) for each in given)


def _signature(secret: bytes, identity: str, at: str, body: bytes) -> str:
    """``v1,`` and the HMAC-SHA-256 of id, time and body, in base64."""
    mac = hmac.digest(_key(secret), f"{identity}.{at}.".encode() + body, "sha256")
    return f"v1,{base64.b64encode(mac).decode()}"


def _key(secret: bytes) -> bytes:
    """A secret that begins with ``whsec_`` is base64; any other one stands for its bytes."""
    if secret.startswith(_PREFIX):
        try:
            return base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
        except binascii.Error:
            pass
    return secret
