"""A webhook that gets signed notices, after the scheme of Standard Webhooks."""

from __future__ import annotations

import base64
import hmac
import http.client
import time
import urllib.error
import urllib.request
from typing import Any

from planrunner import __version__
from planrunner.jsontext import write_json

Json = Any

TIMEOUT = 10.0
"""Seconds that a receiver has to answer."""
_PREFIX = "whsec_"


class Refused(Exception):
    """A receiver did not take a notice; ``str`` says why and names no secret."""


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A signed notice goes to the address that the project names and nowhere else."""

    def redirect_request(self, *_: Any) -> None:
        return None


_OPENER = urllib.request.build_opener(_NoRedirects)


def send(url: str, secret: str, identity: str, document: dict[str, Json]) -> None:
    """Send a notice. Raises Refused where it was not taken, with any answer but 2xx."""
    body = write_json(document).encode()
    at = int(time.time())
    headers = {
        "Content-Type": "application/json",
        "User-Agent": f"planrunner/{__version__}",
        "webhook-id": identity,
        "webhook-timestamp": str(at),
        "webhook-signature": signature(secret, identity, at, body),
    }
    request = urllib.request.Request(url, body, headers, method="POST")  # noqa: S310  # the schema lets no other scheme through
    try:
        with _OPENER.open(request, timeout=TIMEOUT) as answer:
            answer.read(1)
    except urllib.error.HTTPError as error:
        raise Refused(f"it answered {error.code}") from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise Refused(str(getattr(error, "reason", "") or error) or type(error).__name__) from None


def signature(secret: str, identity: str, at: int, body: bytes) -> str:
    """``v1,`` and the HMAC-SHA-256 of id, seconds since 1970 and body, in base64. A secret that begins with ``whsec_``
    is base64, any other one stands for its bytes."""
    mac = hmac.digest(_key(secret), f"{identity}.{at}.".encode() + body, "sha256")
    return f"v1,{base64.b64encode(mac).decode()}"


def _key(secret: str) -> bytes:
    if secret.startswith(_PREFIX):
        try:
            return base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
        except ValueError:
            pass
    return secret.encode()
