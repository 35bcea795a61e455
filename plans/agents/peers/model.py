"""A language model for the plans of this folder: a server on this machine that follows three rules and knows nothing.

    python plans/agents/peers/model.py [PORT]

Asked to review, it finds that a name could be clearer. Asked to work, it writes `median.py`, well only where it is told to
write it again; with the result of a call before it, it says that it is done.
"""

from __future__ import annotations

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

PORT = "4020"
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


def answer(messages: list[dict[str, Any]]) -> dict[str, Any]:
    """The next turn of a conversation."""
    said = json.dumps(messages)
    if "You review work" in said:
        return {"content": json.dumps(REVIEW)}
    if any(message["role"] == "tool" for message in messages):
        return {"content": "median.py is written."}
    arguments = {"path": "median.py", "content": GOOD if "Write it again" in said else POOR}
    call = {"name": "files_write", "arguments": json.dumps(arguments)}
    return {"content": None, "tool_calls": [{"id": "call-1", "type": "function", "function": call}]}


class Handler(BaseHTTPRequestHandler):
    """Answers in the words of OpenAI."""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        turn = {"role": "assistant", **answer(asked["messages"])}
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

    def log_message(self, *_: object) -> None:
        return


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int((*sys.argv[1:], PORT)[0])), Handler).serve_forever()
