"""The methods of HTTP as capabilities."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Unpack

from planrunner.capabilities.contract import Context, Doc, Preview, capability
from planrunner.capabilities.http.exchange import send
from planrunner.capabilities.http.inputs import FOREIGN, OWN, SHAPED, Answer, Creating, Reading, Sending, Url
from planrunner.capabilities.http.request import asked, preview_of, previewed

NETWORK = ("reaches the network",)
_REQUEST: dict[str, Any] = {
    "risks": NETWORK, "spends": ("calls",), "foreign": FOREIGN, "own": OWN, "shaped": SHAPED,
}  # fmt: skip


def _previews(method: str, known: Any) -> Callable[..., Preview]:
    def preview(context: Context, url: str, **options: Any) -> Preview:
        return preview_of(previewed(context, method, url, options, known))

    return preview


def _preview_request(context: Context, method: str, url: str, **options: Any) -> Preview:
    return preview_of(previewed(context, method, url, options))


@capability("http.get", effect="read", preview=_previews("GET", Reading), **_REQUEST)
def get(context: Context, url: Url, **options: Unpack[Reading]) -> Answer:
    """Get what stands at an address.

    A fault that may pass (no connection, a timeout, status 408, 425, 429, 500, 502, 503 or 504) fails the attempt as
    `transient`, and another one follows after the time that `Retry-After` asks for; any other status that is not
    expected fails as `logic`, with all outputs. An address that is not on the public internet is refused as `policy`
    unless planrunner.yaml lists it under `network.private`; this holds for each redirect as well.
    """
    return send(context, asked(context, "GET", url, options, Reading))


@capability("http.head", effect="read", preview=_previews("HEAD", Reading), **_REQUEST)
def head(context: Context, url: Url, **options: Unpack[Reading]) -> Answer:
    """Get the status and the headers of an address."""
    return send(context, asked(context, "HEAD", url, options, Reading))


@capability("http.put", effect="idempotent", preview=_previews("PUT", Sending), irreversible=True, **_REQUEST)
def put(context: Context, url: Url, **options: Unpack[Sending]) -> Answer:
    """Put data at an address.

    The same request twice is the same as once, so it is tried again like a get.
    """
    return send(context, asked(context, "PUT", url, options, Sending))


@capability("http.delete", effect="idempotent", preview=_previews("DELETE", Sending), irreversible=True, **_REQUEST)
def delete(context: Context, url: Url, **options: Unpack[Sending]) -> Answer:
    """Delete what stands at an address.

    Where it may be gone already, expect that: `expect_status: [2xx, 404]`.
    """
    return send(context, asked(context, "DELETE", url, options, Sending))


@capability("http.post", effect="unsafe", preview=_previews("POST", Creating), irreversible=True, **_REQUEST)
def post(context: Context, url: Url, **options: Unpack[Creating]) -> Answer:
    """Post data to an address.

    Without an idempotency key it is sent again only where no connection came about. With `idempotent: true` the key of
    the task goes along, the same for all its attempts: it is tried again like a get, and the task may say
    `effect: idempotent`, if the other side keeps to such keys.
    """
    return send(context, asked(context, "POST", url, options))


@capability("http.patch", effect="unsafe", preview=_previews("PATCH", Creating), irreversible=True, **_REQUEST)
def patch(context: Context, url: Url, **options: Unpack[Creating]) -> Answer:
    """Change what stands at an address.

    It is tried again like `http.post`: only with an idempotency key, or where no connection came about.
    """
    return send(context, asked(context, "PATCH", url, options))


@capability("http.request", effect="unsafe", preview=_preview_request, irreversible=True, **_REQUEST)
def request(
    context: Context,
    method: Annotated[str, Doc("method, such as OPTIONS or PROPFIND")],
    url: Url,
    **options: Unpack[Creating],
) -> Answer:
    """Send a request with any method.

    It is tried again if the method is idempotent, or with an idempotency key.
    """
    return send(context, asked(context, method, url, options))
