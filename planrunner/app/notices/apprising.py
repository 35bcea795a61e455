"""A receiver that Apprise reaches: mail, chat, push and a hundred more."""

from __future__ import annotations

import logging

import apprise

from planrunner.app.notices.notice import Notice
from planrunner.app.notices.webhook import Refused

KINDS = {
    "failed": apprise.NotifyType.FAILURE,
    "done": apprise.NotifyType.SUCCESS,
    "waiting": apprise.NotifyType.WARNING,
}


def send(address: str, notice: Notice) -> None:
    """Send a notice to an address of Apprise. Raises Refused; what it says never has the address, which may hold a
    password."""
    logging.getLogger("apprise").setLevel(logging.CRITICAL)  # it logs addresses
    receiver = apprise.Apprise()
    if not receiver.add(address):
        raise Refused("it is not an address of Apprise")
    kind = KINDS.get(notice.kind, apprise.NotifyType.INFO)
    if not receiver.notify(str(notice), title=f"planrunner: {notice.plan} {notice.kind}", notify_type=kind):
        raise Refused("Apprise could not deliver it")
