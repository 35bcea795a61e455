"""Notices that are outstanding at the end of a run that no service or worker looks after."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from planrunner.app.follow.feed import Feed
from planrunner.app.follow.follower import Follower
from planrunner.app.notices.outlet import LATEST, Sender, outlets

Json = Any


def send_outstanding(
    settings: Sequence[Mapping[str, Json]], root: str, state: str, since: float, say: Callable[[str], None]
) -> dict[str, str]:
    """Send what the receivers of ``notify`` have not got yet, of a receiver that is new that of runs since ``since``
    (seconds since 1970); why it could not be sent, by receiver. Nothing is sent where another process of the project
    sends. Raises UsageError for a receiver that cannot be used."""
    receivers = [each for each in settings if "webhook" in each or "apprise_env" in each]
    readers = outlets(receivers, Sender(os.path.basename(root)), say)
    for reader in readers:
        reader.history = min(max(0.0, time.time() - since) + 1.0, LATEST)
    if not readers:
        return {}
    with Follower(state) as follower:
        feed = Feed(follower, readers)
        feed.once()
        return feed.problems
