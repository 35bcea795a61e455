"""A webhook that gets signed notices, after the scheme of Standard Webhooks."""

from __future__ import annotations

import http.client
import time
import urllib.error
import urllib.request
from typing import Any

from planrunner import __version__
from planrunner.jsontext import write_json
from planrunner.safety.signatures import signed_headers

Json = Any

TIMEOUT = 10.0
"""Seconds that a receiver has to answer."""


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
    headers = {
        "Content-Type": "application/json",
        "User-Agent": f"planrunner/{__version__}",
        **signed_headers(secret.encode(), identity, int(time.time()), body),
    }
    request = urllib.request.Request(url, body, headers, method="POST")  # noqa: S310  # the schema lets no other scheme through
    try:
        with _OPENER.open(request, timeout=TIMEOUT) as answer:
            answer.read(1)
    except urllib.error.HTTPError as error:
        raise Refused(f"it answered {error.code}") from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise Refused(str(getattr(error, "reason", "") or error) or type(error).__name__) from None
