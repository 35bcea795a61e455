"""What tests of models share: answers of the server, a project, an attempt, a server with odd answers."""

from __future__ import annotations

import json
import time
import urllib.request
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from planrunner.capabilities.contract import Call, Context
from planrunner.engine.services import AttemptServices
from planrunner.journal.sqlite import open_journal
from planrunner.plan.model import Task

CANARY = "sk-canary-7f3a9b51c2"

PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name", "age"],
}


def used(into: int, out: int) -> dict[str, int]:
    """A usage in the words of every provider."""
    return {
        "prompt_tokens": into,
        "completion_tokens": out,
        "total_tokens": into + out,
        "input_tokens": into,
        "output_tokens": out,
        "promptTokenCount": into,
        "candidatesTokenCount": out,
        "totalTokenCount": into + out,
    }


def says(match: dict[str, Any], content: Any, usage: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    text = content if isinstance(content, str) else json.dumps(content)
    return {"match": match, "response": {"content": text, **({"usage": usage} if usage else {})}, **more}


def fails(match: dict[str, Any], status: int, message: str) -> dict[str, Any]:
    return {"match": match, "response": {"error": {"message": message, "type": "x"}, "status": status}}


def asked(words: str) -> dict[str, Any]:
    return {"userMessage": words}


_VERDICTS = [
    {"criterion": 1, "met": "yes", "reason": "it is there", "quotes": ["the sky is blue", "made up"]},
    {"criterion": 2, "met": "yes", "reason": "trust me", "quotes": ["nothing of the kind"]},
    {"criterion": 3, "met": "no", "reason": "it says otherwise", "quotes": ["grass is green"]},
    {"criterion": 4, "met": "yes", "reason": "short", "quotes": [" a "]},
    {"criterion": 6, "met": "yes", "reason": "first", "quotes": ["the sky is blue"]},
    {"criterion": 6, "met": "no", "reason": "second", "quotes": ["the sky is blue"]},
]

ANSWERS: list[dict[str, Any]] = [
    fails({"model": "busy"}, 429, "slow down"),
    fails({"model": "down"}, 500, "oops"),
    says({"model": "cut"}, "x", chaos={"disconnectRate": 1}),
    says({"model": "garbled"}, "x", chaos={"malformedRate": 1}),
    says({"model": "free"}, "hi", used(11, 7)),
    says({"model": "nay", "userMessage": "prime"}, "no", used(5, 1)),
    says({"model": "perhaps", "userMessage": "prime"}, "perhaps", used(5, 1)),
    says(asked("prime"), "  Yes. ", used(5, 1)),
    says({"systemMessage": "You judge", "userMessage": "the sky is blue"}, {"verdicts": _VERDICTS}, used(90, 40)),
    says({"systemMessage": "You judge"}, {"verdicts": []}, used(90, 4)),
    says({"userMessage": "does not fit the JSON Schema", "turnIndex": 1}, {"name": "Ada", "age": 36}, used(30, 9)),
    says(asked("mended"), {"name": "Ada", "age": "old"}, used(20, 9)),
    says(asked("fenced"), '```json\n{"name": "Ada", "age": 36}\n```', used(20, 12)),
    says(asked("person"), {"name": "Ada", "age": 36}, used(20, 9)),
    {
        "match": {"userMessage": "weather", "hasToolResult": False},
        "response": {"toolCalls": [{"name": "get_weather", "arguments": {"city": "Paris"}}], "usage": used(40, 8)},
    },
    says({"userMessage": "weather", "hasToolResult": True}, "It rains in Paris.", used(60, 6)),
    says(asked("tale"), "Once upon a time there was a plan that ran to its end.", used(12, 14)),
    says(asked("cut short"), "Once upon a time " * 20, used(12, 14), truncateAfterChunks=2),
    says(asked("below zero"), "hm", used(-11, -7)),
    says(asked("too much"), "hm", used(10**9, 10**9)),
    says(
        asked("beyond"), "hm", {**used(11, 7), "prompt_tokens": 1e300, "input_tokens": 1e300, "promptTokenCount": 1e300}
    ),
    says(asked("echo"), f"the key is {CANARY}", used(12, 9)),
    says(asked("hello"), "Hi there, friend of the tests!", used(11, 7)),
    says(asked("{{ 7 * 7 }}"), "as it stands", used(11, 7)),
]


class Models:
    """The server, and what it was asked."""

    def __init__(self, url: str) -> None:
        self.url = url

    def journal(self) -> list[dict[str, Any]]:
        with urllib.request.urlopen(f"{self.url}/__aimock/journal?limit=1000", timeout=240) as reply:
            found = json.load(reply)
        return found if isinstance(found, list) else found["entries"]

    def settings(self) -> dict[str, Any]:
        """The section ``models`` of a project whose models all are this server."""

        def openai(model: str, **more: Any) -> dict[str, Any]:
            price = {"input": 1, "output": 2}
            return {
                "provider": "openai-compatible",
                "model": model,
                "base_url": f"{self.url}/v1",
                "price": price,
                **more,
            }

        return {
            "default": "openai",
            "openai": openai("gpt-demo", key_env="CANARY"),
            "claude": {**openai("claude-demo", key_env="CANARY"), "provider": "anthropic", "base_url": self.url},
            "gemini": {**openai("gemini-demo", key_env="CANARY"), "provider": "google", "base_url": self.url},
            "ollama": {**openai("llama-demo"), "provider": "ollama"},
            "busy": openai("busy", fallback=["down", "claude"], key_env="CANARY"),
            "down": openai("down"),
            "cut": openai("cut"),
            "garbled": openai("garbled"),
            "nay": openai("nay"),
            "perhaps": openai("perhaps"),
            "prompted": openai("gpt-demo", structured="prompted"),
            "unpriced": {"provider": "openai-compatible", "model": "gpt-demo", "base_url": f"{self.url}/v1"},
        }


class Log:
    """What an attempt wrote and told."""

    def __init__(self) -> None:
        self.out = b""
        self.err = b""
        self.pieces: list[bytes] = []
        self.usage: dict[str, Any] = {}

    def write(self, data: bytes, stream: str = "stdout") -> None:
        if stream == "stdout":
            self.out += data
            self.pieces.append(data)
        else:
            self.err += data

    def beat(self) -> None:
        return

    def spend(self, amounts: dict[str, Any]) -> None:
        for what, more in amounts.items():
            self.usage[what] = self.usage.get(what, 0) + more


class Attempt:
    """An attempt in a project of its own, with real services behind its context."""

    def __init__(self, folder: Path, models: dict[str, Any], reserved: dict[str, Any] | None = None) -> None:
        self.folder = folder
        self.log = Log()
        self.stopped = False
        document = {"network": {"private": ["127.0.0.1"]}, "models": models}
        (folder / "planrunner.yaml").write_text(json.dumps(document))
        (folder / "state").mkdir(exist_ok=True)
        open_journal(str(folder / "state")).close()
        services = AttemptServices(str(folder / "state"), str(folder), None, {})
        call = Call(
            "run", Task("task"), 1, "run:task:1", {}, "", (), {}, {}, str(folder), "", None, reserved=reserved or {}
        )
        self.context = Context(call, self.log, lambda: self.stopped, services)

    def kept(self) -> list[str]:
        assert isinstance(self.context.services, AttemptServices)
        return [str(record["name"]) for record in self.context.services.kept]

    def content(self, sha256: str) -> bytes:
        with self.context.artifact(sha256) as file:
            return file.read()


class Odd:
    """Answers in the shape of OpenAI, with the usage, or the whole reply, that a test sets."""

    def __init__(self) -> None:
        self.url = ""
        self.usage: str = json.dumps(used(11, 7))
        self.body: bytes | None = None
        self.headers: dict[str, str] = {}
        self.kind = "application/json"
        self.status = 200
        self.requests: list[tuple[str, dict[str, str], bytes]] = []
        self.contents: list[str] = []
        """What the first requests are answered; those after them `odd`."""
        self.delay = 0.0
        self.usage_from_prompt = False
        """Whether a prompt such as `usage {…}` is answered with that usage."""

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        sent = request.rfile.read(int(request.headers.get("content-length", "0")))
        self.requests.append((request.path, {k.lower(): v for k, v in request.headers.items()}, sent))
        time.sleep(self.delay)
        said = json.loads(sent)["messages"][-1]["content"] if self.usage_from_prompt else ""
        usage = said.removeprefix("usage ") if said.startswith("usage ") else self.usage
        content = self.contents.pop(0) if self.contents else "odd"
        choice = {"index": 0, "message": {"role": "assistant", "content": content}, "finish_reason": "stop"}
        whole = json.dumps({"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]})
        usual = f'{whole[:-1]}, "usage": {usage}}}' if usage else whole
        body = usual.encode() if self.body is None else self.body
        try:
            request.send_response(self.status)
            for name, value in {"content-type": self.kind, "content-length": str(len(body)), **self.headers}.items():
                request.send_header(name, value)
            request.end_headers()
            request.wfile.write(body)
        except OSError:
            return

    def settings(self, **more: Any) -> dict[str, Any]:
        model = {"provider": "openai-compatible", "model": "m", "base_url": f"{self.url}/v1"}
        whole = {**model, "price": {"input": 1, "output": 2}, **more}
        return {"odd": {name: value for name, value in whole.items() if value is not None}}
