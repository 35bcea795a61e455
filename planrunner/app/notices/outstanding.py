"""Notices that are outstanding at the end of a run that no service or worker looks after."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from planrunner.app.follow.feed import Feed
from planrunner.app.follow.follower import Follower
from planrunner.app.notices.outlet import Sender, outlets

Json = Any


def send_outstanding(
    settings: Sequence[Mapping[str, Json]], root: str, state: str, run: str, say: Callable[[str], None]
) -> dict[str, str]:
    """Send what the receivers of ``notify`` have not got yet, of a receiver that is new that of ``run``; why it could
    not be sent, by receiver. Nothing is sent where another process of the project sends. Raises UsageError for a
    receiver that cannot be used."""
    receivers = [each for each in settings if "webhook" in each or "apprise_env" in each]
    readers = outlets(receivers, Sender(os.path.basename(root)), say)
    if not readers:
        return {}
    with Follower(state) as follower:
        feed = Feed(follower, readers, run)
        feed.once()
        return feed.problems
