"""What the exporters of OpenTelemetry log: kept, to be told with what could not be delivered, and not printed."""

from __future__ import annotations

import logging

from planrunner.escapes import masked

LONGEST = 300
"""Characters of a message."""


class _Kept(logging.Handler):
    """Remembers the last message."""

    def __init__(self) -> None:
        super().__init__()
        self.said = ""

    def emit(self, record: logging.LogRecord) -> None:
        if "timeout, max retries" not in record.msg:  # it says less than the message before
            self.said = record.getMessage()


_KEPT = _Kept()


def quieten() -> None:
    """Have the exporters print nothing from here on."""
    logger = logging.getLogger("opentelemetry")
    if _KEPT not in logger.handlers:
        logger.addHandler(_KEPT)
        logger.propagate = False


def last_words() -> str:
    """The last message of an exporter, without passwords."""
    return masked(" ".join(_KEPT.said.split()))[:LONGEST]
