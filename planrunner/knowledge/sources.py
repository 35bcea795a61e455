"""Whose a source is: two that belong to one owner do not support each other."""

from __future__ import annotations

import ipaddress
from typing import Any
from urllib.parse import urlsplit

get_tld: Any
try:
    from tld import get_tld
except ImportError:  # the extra `web` brings the list of public suffixes
    get_tld = None


def owner(url: str) -> str:
    """The registered part of the host: ``bbc.co.uk`` for ``www.bbc.co.uk``, the last two parts where
    no public suffix is known, and an IP address as a whole. Two sources are independent only where owners differ."""
    try:
        name = urlsplit(url).hostname or ""
    except ValueError:
        return ""
    try:
        return str(ipaddress.ip_address(name))
    except ValueError:
        pass
    options = {"as_object": True, "fail_silently": True, "search_private": True}
    known = None if get_tld is None else get_tld(f"http://{name}/", **options)
    registered = getattr(known, "fld", None)
    return str(registered) if registered else ".".join(name.split(".")[-2:])
