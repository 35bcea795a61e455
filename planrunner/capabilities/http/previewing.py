"""What would be sent, with every secret masked."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from planrunner.capabilities.contract import Preview
from planrunner.capabilities.http.answering import is_secret
from planrunner.capabilities.http.asking import Ask
from planrunner.capabilities.http.content import Content
from planrunner.capabilities.http.credentials import MASK

_LONGEST = 4096


def preview_of(ask: Ask) -> Preview:
    """The exact request."""
    return Preview(f"would send {ask.shown}", calls=(request_text(ask),))


def request_text(ask: Ask) -> str:
    """Method, address, headers and content, one below the other."""
    headers = {**_type_of(ask.content), **ask.headers}
    lines = [f"{ask.method} {ask.url}"]
    lines += [f"{name}: {MASK if is_secret(name) else value}" for name, value in headers.items()]
    lines += [f"{name}: {value}" for name, value in ask.credentials.shown.items()]
    body = _body(ask.content)
    return ask.credentials.masked("\n".join(lines) + (f"\n\n{_cut(body)}" if body else ""))


def _type_of(content: Content) -> Mapping[str, str]:
    if content.type:
        return {"content-type": content.type}
    if content.files:
        return {"content-type": "multipart/form-data"}
    return {"content-type": "application/x-www-form-urlencoded"} if content.form is not None else {}


def _body(content: Content) -> str:
    if content.data is not None:
        text = content.data.decode("utf-8", "replace")
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False) if "json" in content.type else text
    if content.file is not None:
        return f"the {content.file.size} bytes of {content.file.path}"
    lines = [f"{name}={_shown(value)}" for name, value in (content.form or {}).items()]
    lines += [f"{field}=@{each.path} ({each.size} bytes, as {each.name})" for field, each in content.files.items()]
    return "\n".join(lines)


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}\n… and {len(text) - _LONGEST} more characters"
