"""What a reply says it used, read out of the reply itself and believed only where it is possible.

A number that is missing, is no whole number, is below zero or is above what the request can have used at most makes the
whole of it unknown. The library that reads the rest of the reply never sees it: a number that it stumbles over would
cost an answer that is paid for.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from planrunner.capabilities.llm.purse import Tokens
from planrunner.capabilities.llm.usage import Json

_INPUT = ("prompt_tokens", "input_tokens", "promptTokenCount", "prompt_eval_count")
_MORE_INPUT = ("cache_read_input_tokens", "cache_creation_input_tokens", "toolUsePromptTokenCount")
_OUTPUT = ("completion_tokens", "output_tokens", "candidatesTokenCount", "eval_count")
_MORE_OUTPUT = ("thoughtsTokenCount",)
_NOTHING = {"input_tokens": 0, "output_tokens": 0}
_COUNTS = frozenset((*_INPUT, *_MORE_INPUT, *_OUTPUT, *_MORE_OUTPUT))


class Meter:
    """Reads the usage out of one reply, in one piece or in events; a later number stands for an earlier one."""

    __slots__ = ("_found", "_most", "odd")

    def __init__(self, most: Tokens) -> None:
        self._most = most
        self._found: dict[str, int] = {}
        self.odd = ""
        """Why what the reply says cannot be believed."""

    def tokens(self) -> Tokens | None:
        """What was used, where that is known."""
        into, out = self._sum(_INPUT, _MORE_INPUT), self._sum(_OUTPUT, _MORE_OUTPUT)
        if not self._most.output:
            out = out or 0  # vectors come out of it, not text
        if self.odd or not into or not (out or out == self._most.output):
            return None
        return Tokens(into, out) if into <= self._most.input and out <= self._most.output else None

    def _sum(self, ways: tuple[str, ...], more: tuple[str, ...]) -> int | None:
        first = next((self._found[way] for way in ways if way in self._found), None)
        return None if first is None else first + sum(self._found.get(each, 0) for each in more)

    def cleaned(self, text: bytes) -> bytes:
        """The same JSON document without its usage; text that is no such document comes back as it is."""
        try:
            document = json.loads(text)
        except (ValueError, RecursionError):
            return text
        places = list(_places(document)) if isinstance(document, dict) else []
        for holder, name in places:
            self.odd = self._read(holder[name]) or self.odd
            holder[name] = dict(_NOTHING) if _is_message(document) else None
        return json.dumps(document).encode() if places else text

    def _read(self, usage: Json) -> str:
        if not isinstance(usage, dict):
            return f"usage is {str(usage)[:40]}" if usage is not None else ""
        for name, value in usage.items():
            if name not in _COUNTS or value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= max(self._most):
                return f"{name} is {str(value)[:40]}"
            self._found[name] = value
        return _odd_inside(usage)


def _places(document: dict[str, Json]) -> Iterator[tuple[dict[str, Json], str]]:
    """Where the documents of the providers hold their usage."""
    for holder in (document, document.get("message"), document.get("response")):
        if isinstance(holder, dict):
            for name in ("usage", "usageMetadata"):
                if name in holder:
                    yield holder, name


def _is_message(document: dict[str, Json]) -> bool:
    """Whether it is of Anthropic, whose library wants a usage."""
    return document.get("type") in ("message", "message_start", "message_delta")


def _odd_inside(value: Json) -> str:
    """Numbers in the details that a library may stumble over; nobody counts by them."""
    if isinstance(value, dict):
        return next((why for each in value.values() if (why := _odd_inside(each))), "")
    if isinstance(value, list):
        return next((why for each in value if (why := _odd_inside(each))), "")
    if isinstance(value, float):
        return f"a count is {value}" if value != value or abs(value) > 1e9 or value < 0 else ""
    return f"a count is {value}" if isinstance(value, int) and not 0 <= value <= 10**12 else ""
