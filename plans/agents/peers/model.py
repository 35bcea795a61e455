"""A language model for the plans of this folder: a server on this machine that follows a few rules and knows nothing.

    python plans/agents/peers/model.py [PORT]

Asked for data it gives the plainest that fits. Told to ask about something it asks, if it may. Asked to write a file it
writes a line into it. Asked to review it finds something to say, and approves. Of other tools it tries the first that
only looks. Told that `check.py` fails it writes `median.py`, well only where it is told to write it again.
"""

from __future__ import annotations

import json
import re
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Json = Any

PORT = "4020"
FILE = r"\b([\w.-]+\.(?:md|sql|py|txt))\b"
GOOD = "def median(numbers):\n    return sorted(numbers)[len(numbers) // 2]\n"
POOR = "def median(numbers):\n    return numbers[len(numbers) // 2]\n"
REVIEW = {
    "findings": [
        {
            "severity": "low",
            "where": "median.py",
            "what": "of an even count it takes the upper of two",
            "suggestion": "say so in a docstring",
        }
    ],
    "score": 0.8,
    "approved": True,
}
PLAN = "plan: count-words\ntasks:\n  - {id: count, run: wc -w README.md, timeout: 1m}\n"
LOOKING = {
    "files_glob": {"patterns": ["*.md"]},
    "notes_read_notes": {},
    "count": {"ending": "md"},
    "brief": {"prompt": "Which files are there?"},
    "memory_search": {"query": "plans"},
    "kb_search": {"query": "limits"},
    "ask": {"question": "How long may it take?"},
    "http_get": {"url": "https://elsewhere.example.com/"},
    "keep-page": {"content": "A folder of plans.\n"},
    "shell": {"command": "awk -F, '$2 > most { most = $2; month = $1 } END { print month, most }' parts/sales.csv"},
}
"""What is called of each tool, in the order in which they are tried."""


def answer(asked: dict[str, Json]) -> dict[str, Json]:
    """The next turn of a conversation."""
    said = json.dumps(asked["messages"])
    tools = {tool["function"]["name"]: tool["function"]["parameters"] for tool in asked.get("tools", ())}
    last = asked["messages"][-1]
    if "You review work" in said:
        return {"content": json.dumps(REVIEW)}
    if "`check.py` fails" in said or "check.py` fails" in said:
        return _median(said, last)
    if last["role"] != "tool" and (wanted := _wanted(str(last.get("content")), tools)):
        return _call(*wanted)
    if "answer" in tools:
        return _call("answer", fitting(tools["answer"]))
    shape = (asked.get("response_format") or {}).get("json_schema", {}).get("schema")
    if shape is not None:
        return {"content": json.dumps(fitting(shape))}
    return {"content": f"```yaml\n{PLAN}```" if "You write plans" in said else "It is done."}


def _median(said: str, last: dict[str, Json]) -> dict[str, Json]:
    if last["role"] == "tool":
        return {"content": "median.py is written."}
    return _call("files_write", {"path": "median.py", "content": GOOD if "Write it again" in said else POOR})


def _wanted(prompt: str, tools: dict[str, Json]) -> tuple[str, Json] | None:
    """The call that fits what is asked for."""
    if "Ask about" in prompt and "ask" in tools:
        return "ask", LOOKING["ask"]
    named = re.search(rf"(?i)\bwrite\b.*?{FILE}", prompt) or re.search(FILE, prompt)
    if named and "files_write" in tools and re.search(r"(?i)write|translate|put it together", prompt):
        return "files_write", {"path": named[1], "content": "A line.\n"}
    if "push it" in prompt and "shell" in tools:
        return "shell", {"command": "git push origin main || echo no remote"}
    if "check fails" in prompt and "files_write" in tools:
        return "files_write", {"path": "done.txt", "content": "done\n"}
    return next(((name, given) for name, given in LOOKING.items() if name in tools), None)


def _call(name: str, arguments: Json) -> dict[str, Json]:
    call = {"name": name, "arguments": json.dumps(arguments)}
    return {"content": None, "tool_calls": [{"id": "call-1", "type": "function", "function": call}]}


def fitting(schema: dict[str, Json]) -> Json:
    """The plainest data that fits a JSON Schema."""
    if "enum" in schema:
        return schema["enum"][0]
    if "anyOf" in schema:
        return fitting(schema["anyOf"][0])
    kind = schema.get("type")
    if kind == "object":
        return {name: fitting(each) for name, each in schema.get("properties", {}).items()}
    if kind == "array":
        return [fitting(schema.get("items", {}))]
    return {"boolean": True, "integer": 1, "number": 1, "string": "text"}.get(str(kind), "text")


class Handler(BaseHTTPRequestHandler):
    """Answers in the words of OpenAI."""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        turn = {"role": "assistant", **answer(asked)}
        ended = "tool_calls" if "tool_calls" in turn else "stop"
        choice = {"index": 0, "message": turn, "finish_reason": ended}
        usage = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
        whole = {"id": "1", "object": "chat.completion", "created": 1, "model": asked["model"]}
        data = json.dumps({**whole, "choices": [choice], "usage": usage}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Json) -> None:
        return


def main(arguments: list[str]) -> int:
    server = ThreadingHTTPServer(("127.0.0.1", int(arguments[0] if arguments else PORT)), Handler)
    print(f"a model answers at http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
