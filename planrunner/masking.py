"""What is kept from eyes in anything shown: the passwords that stand in addresses."""

from __future__ import annotations

import re
from typing import Any

Json = Any

HIDDEN = "***"


def masked(text: str) -> str:
    """A text with ``***`` for the password of each address in it: ``https://me:***@host/``."""
    if "://" not in text or "@" not in text:
        return text
    return re.sub(r"(://[^\s/:@'\"]{0,256}):[^\s/'\"]{0,1024}@", rf"\1:{HIDDEN}@", text)


def masked_data(value: Json) -> Json:
    """JSON data with every text in it masked, keys of maps included."""
    if isinstance(value, str):
        return masked(value)
    if isinstance(value, (list, tuple)):
        return [masked_data(each) for each in value]
    if isinstance(value, dict):
        return {masked_data(name): masked_data(each) for name, each in value.items()}
    return value
