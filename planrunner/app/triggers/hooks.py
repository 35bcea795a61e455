"""Webhooks: who sent a request, whether it is the copy of an earlier one, and which parameters its body gives."""

from __future__ import annotations

import hmac
import os
import time
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from planrunner.app.queue.items import Item
from planrunner.app.triggers.firing import Params, fire
from planrunner.app.triggers.showing import find
from planrunner.caller import Workspace
from planrunner.errors import Denied, NotFound, Unready, UsageError
from planrunner.jsontext import read_outside
from planrunner.records import Struct
from planrunner.safety.credentials import Unresolved, read_credentials, value_of
from planrunner.safety.signatures import is_signed
from planrunner.safety.triggers import Trigger, Webhook

Json = Any


class Unsigned(Denied):
    """A request that did not prove itself."""


class BodyUnfit(UsageError):
    """The body of a signed request lacks what the trigger takes from it."""


class Delivery(Struct):
    """A request as it came: the names of ``headers`` are in lower case."""

    headers: Mapping[str, str]
    body: bytes


def receive(name: str, delivery: Delivery, place: Workspace) -> Item | None:
    """Queue a run for a request that is signed; a copy of one gives the item of the first. None where an earlier run
    keeps it from starting. Raises NotFound where there is no such webhook, Denied for a request that is not signed
    or too old, and Unready where the secret cannot be read. Raises UsageError for a body that lacks what the plan
    needs, RecordMismatch for another body under an id that came before, and as ``enqueue``."""
    trigger = find(place.root, name)
    if trigger.webhook is None:
        raise NotFound(f"the trigger `{name}` is not a webhook")
    mark = verified(trigger.webhook, _secret(trigger, place.root), delivery, time.time())
    asked = sha256(delivery.body).hexdigest()
    return fire(trigger, mark, place, _params(trigger.webhook, delivery.body), asked)


def verified(webhook: Webhook, secret: bytes, delivery: Delivery, now: float) -> str:
    """What tells this delivery from others. Raises Denied for a request that the secret did not sign, or that was
    signed too long before or after ``now``."""
    headers = delivery.headers
    if webhook.scheme == "github":
        given = headers.get("x-hub-signature-256", "").removeprefix("sha256=")
        wanted = hmac.new(secret, delivery.body, sha256).hexdigest()
        if not hmac.compare_digest(given.encode(), wanted.encode()):
            raise _unsigned("X-Hub-Signature-256")
        return sha256(delivery.body).hexdigest()
    if not is_signed(secret, headers, delivery.body):
        raise _unsigned("webhook-id, webhook-timestamp and webhook-signature")
    at = headers.get("webhook-timestamp", "")
    if not at.isdecimal() or abs(now - int(at)) > webhook.window:
        raise Unsigned(
            f"the request was signed more than {webhook.window:.0f} seconds from now",
            "set the clock of the sender, or a larger `window`",
        )
    return sha256(headers["webhook-id"].encode()).hexdigest()


def _unsigned(headers: str) -> Unsigned:
    return Unsigned("the request is not signed with the secret of this webhook", f"the signature stands in {headers}")


def _secret(trigger: Trigger, root: str) -> bytes:
    assert trigger.webhook is not None
    name = trigger.webhook.secret
    credential = read_credentials(root).get(name)
    if credential is None:
        raise Unready(f"the secret of the webhook `{trigger.name}` names the credential `{name}`, which is missing")
    try:
        return value_of(credential, os.environ)
    except Unresolved as error:
        raise Unready(f"the secret of the webhook `{trigger.name}` cannot be read: {error}") from None


def _params(webhook: Webhook, body: bytes) -> Params:
    """The parameters that the body gives. Raises UsageError where a place is not there."""
    if not webhook.params:
        return ()
    try:
        data = read_outside(body.decode())
    except ValueError as error:
        raise BodyUnfit(f"the body is not JSON that can be used: {error}") from None
    return tuple((name, _at(data, place)) for name, place in webhook.params)


def _at(data: Json, place: str) -> Json:
    found = data
    for part in place.split("."):
        if isinstance(found, dict) and part in found:
            found = found[part]
        elif isinstance(found, list) and part.isdigit() and int(part) < len(found):
            found = found[int(part)]
        else:
            raise BodyUnfit(f"the body has nothing at `{place}`")
    return found
