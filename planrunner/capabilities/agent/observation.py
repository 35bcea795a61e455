"""What a model is told of a call that was made: how it ended and what it gave, cut to a bounded length."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from planrunner.capabilities.contract import Context

Json = Any

LONGEST = 16_000
"""Characters of one observation; the whole is kept as an artifact."""


def observation(context: Context, record: dict[str, Json]) -> str:
    """The words for the record of a call, as ``tasks.calls.items`` has it."""
    whole = "\n".join(_parts(record)) or "It gave nothing."
    if len(whole) <= LONGEST:
        return whole
    kept = context.keep(whole.encode("utf-8", "replace"), f"{record['item']['tool']}.txt", "text")
    left_out = len(whole) - LONGEST
    half = LONGEST // 2
    middle = f"\n[{left_out:,} characters are left out here; all of it is the artifact {kept['sha256'][:12]}]\n"
    return whole[:half] + middle + whole[-half:]


_OF_A_PERSON = {"answer", "decision", "by", "reason", "comment"}
"""What a question to a person gives; their answer is what they said."""

_OF_A_SERVER = {"text", "result", "artifacts"}
"""What the call of a tool of an MCP server gives; its text names the artifacts."""


def _says(text: str, result: Json) -> bool:
    """Whether a text is the result as JSON, which servers give for those that read texts alone."""
    try:
        return bool(json.loads(text) == result)
    except (ValueError, RecursionError):
        return False


def _parts(record: dict[str, Json]) -> Iterator[str]:
    if record.get("status") != "completed":
        failure = f" ({record['failure']})" if record.get("failure") else ""
        said = record.get("message") or record.get("reason") or str(record.get("status"))
        yield f"It failed{failure}: {said}"
        if record.get("failure") == "doubt":
            yield "Find out what it has done before you repeat it."
    outputs = {name: value for name, value in (record.get("outputs") or {}).items() if value not in (None, "")}
    if outputs.keys() == {"answer"} or {"answer", "decision"} <= outputs.keys() <= _OF_A_PERSON:
        yield str(outputs["answer"])
    elif "text" in outputs and outputs.keys() <= _OF_A_SERVER:
        yield outputs["text"]
        if "result" in outputs and not _says(outputs["text"], outputs["result"]):
            yield json.dumps(outputs["result"], ensure_ascii=False, default=str)
    elif outputs:
        yield json.dumps(outputs, ensure_ascii=False, default=str)
    if record.get("exit_code") is not None:
        yield f"exit code {record['exit_code']}"
    for name in ("stdout", "stderr"):
        if record.get(name):
            yield f"{name}:\n{record[name]}"
