"""What would be sent, with every secret masked."""

from __future__ import annotations

import json
from collections.abc import Mapping
from shlex import quote
from typing import Any

from planrunner.capabilities.contract import Context, Preview
from planrunner.capabilities.http.answering import is_secret
from planrunner.capabilities.http.asking import Ask, asked
from planrunner.capabilities.http.content import Content
from planrunner.capabilities.http.credentials import MASK, shown_of
from planrunner.capabilities.http.inputs import Creating

_LONGEST = 4096


def previewed(context: Context, method: str, url: str, options: Mapping[str, Any], known: Any = Creating) -> Ask:
    """What would be asked; credentials need not be there for it."""
    ask = asked(context, method, url, {name: value for name, value in options.items() if name != "auth"}, known)
    return ask._replace(credentials=shown_of(context, options.get("auth")))


def preview_of(ask: Ask) -> Preview:
    """The exact request."""
    return Preview(f"would send {ask.shown}", calls=(call_of(ask),))


def call_of(ask: Ask) -> str:
    """The request as a command of curl, which people can read and, with the secrets filled in, run."""
    words = ["curl", *([] if ask.method == "GET" else ["-X", ask.method]), ask.url]
    headers = [f"{name}: {MASK if is_secret(name) else value}" for name, value in ask.headers.items()]
    headers += [f"{name}: {value}" for name, value in ask.credentials.shown.items()]
    if ask.content.type:
        headers.insert(0, f"content-type: {ask.content.type}")
    for header in headers:
        words += ["-H", header]
    words += _content_words(ask.content)
    return ask.credentials.masked(" ".join(quote(word) for word in words))


def _content_words(content: Content) -> list[str]:
    if content.data is not None:
        return ["--data-binary", _cut(content.data.decode("utf-8", "replace"))]
    if content.file is not None:
        return ["--data-binary", f"@{content.file.path}"]
    option = "-F" if content.files else "--data-urlencode"
    words: list[str] = []
    for name, value in (content.form or {}).items():
        for each in value if isinstance(value, list) else [value]:
            words += [option, f"{name}={_as_text(each)}"]
    for field, each in content.files.items():
        words += ["-F", f"{field}=@{each.path};filename={each.name};type={each.type}"]
    return words


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}… and {len(text) - _LONGEST} more characters"
