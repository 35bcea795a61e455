"""A model that says what a script tells it, in the words of four providers, on loopback.

A script is a list of replies, or a function that is given the request in one shape and gives a reply. A reply is a
text, a list of calls ``(tool, arguments)`` or ``(tool, arguments, id)``, or a mapping with ``text``, ``calls``,
``thinks``, ``status`` (and ``headers``), ``cut`` (the connection is closed instead), ``raw`` (a body as it is). A
request for a stream of events is answered with one; ``pieces`` is then how many of them come before the
connection breaks off.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

Json = Any
Reply = Json


class Heard(NamedTuple):
    """A request in one shape: the texts of its turns by role, the names of the tools it offers, its whole body."""

    provider: str
    turns: list[tuple[str, str]]
    tools: list[str]
    body: dict[str, Json]

    def last(self) -> str:
        return self.turns[-1][1]

    def said(self) -> str:
        return "\n".join(text for _, text in self.turns)


class ScriptedModel:
    """A server; ``heard`` are the requests in their order."""

    def __init__(
        self, script: list[Reply] | Callable[[Heard], Reply], usage: tuple[int, int] = (100, 20), port: int = 0
    ) -> None:
        self._script, self._usage = script, usage
        self._lock = threading.Lock()
        self.heard: list[Heard] = []
        model = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1  # one packet: the end of a reply is not held back
            disable_nagle_algorithm = True

            def do_POST(self) -> None:
                model._answer(self)

            def log_message(self, *_: Any) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_port
        self.url = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def __enter__(self) -> ScriptedModel:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def settings(self, provider: str = "openai-compatible", **more: Json) -> dict[str, Json]:
        """The section ``models`` of a project that asks this server."""
        paths = {"openai": "/v1", "openai-compatible": "/v1", "ollama": "/v1"}
        url = self.url + paths.get(provider, "")
        price = {"input": 1, "output": 2}
        said = {"provider": provider, "model": "scripted", "base_url": url, "price": price, **more}
        return {"default": "scripted", "scripted": said}

    def _answer(self, request: BaseHTTPRequestHandler) -> None:
        body = json.loads(request.rfile.read(int(request.headers.get("content-length", "0"))))
        heard = _heard(request.path, body)
        with self._lock:
            number = len(self.heard)
            self.heard.append(heard)
            reply = self._script(heard) if callable(self._script) else self._script[min(number, len(self._script) - 1)]
        if isinstance(reply, str):
            reply = {"text": reply}
        elif isinstance(reply, list):
            reply = {"calls": reply}
        if reply.get("cut"):
            request.close_connection = True
            return
        status = reply.get("status", 200)
        said = reply.get("raw")
        if said is None:
            said = (
                {"error": {"message": "scripted"}}
                if status >= 300
                else _WORDS[heard.provider](reply, self._usage, number)
            )
        kind, whole = "application/json", 0
        if isinstance(said, dict) and status < 300 and _is_streamed(request.path, body):
            kind, (data, whole) = "text/event-stream", _events(heard.provider, said, reply.get("pieces"))
        else:
            data = said.encode() if isinstance(said, str) else json.dumps(said).encode()
        try:
            request.send_response(status)
            for name, value in {"content-type": kind, **reply.get("headers", {})}.items():
                request.send_header(name, value)
            request.send_header("content-length", str(whole or len(data)))
            request.end_headers()
            request.wfile.write(data)
            request.close_connection |= whole > len(data)
        except OSError:
            return


def _heard(path: str, body: dict[str, Json]) -> Heard:
    if "/messages" in path:
        turns = [("system", _text(body["system"]))] if body.get("system") else []
        turns += [(each["role"], _text(each["content"])) for each in body["messages"]]
        return Heard("anthropic", turns, [tool["name"] for tool in body.get("tools", ())], body)
    if ":generateContent" in path or ":streamGenerateContent" in path:
        turns = [("system", _text(body["systemInstruction"]["parts"]))] if body.get("systemInstruction") else []
        turns += [(each["role"], _text(each["parts"])) for each in body["contents"]]
        tools = [one["name"] for tool in body.get("tools", ()) for one in tool.get("functionDeclarations", ())]
        return Heard("google", turns, tools, body)
    turns = [(each["role"], _text(each.get("content") or "")) for each in body["messages"]]
    return Heard("openai", turns, [tool["function"]["name"] for tool in body.get("tools", ())], body)


def _text(content: Json) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(filter(None, map(_text, content)))
    if not isinstance(content, dict):
        return ""
    if "functionResponse" in content:
        return json.dumps(content["functionResponse"]["response"], ensure_ascii=False)
    return _text(content.get("text", content.get("content", "")))


def _calls(reply: Reply, number: int) -> list[tuple[str, str, Json]]:
    calls = enumerate(reply.get("calls", ()))
    return [(own[0] if own else f"call-{number}-{at}", name, given) for at, (name, given, *own) in calls]


def _openai(reply: Reply, usage: tuple[int, int], number: int) -> Json:
    calls = [
        {"id": id_, "type": "function", "function": {"name": name, "arguments": _as_text(given)}}
        for id_, name, given in _calls(reply, number)
    ]
    message = {"role": "assistant", "content": reply.get("text"), **({"tool_calls": calls} if calls else {})}
    if reply.get("thinks"):
        message["reasoning_content"] = reply["thinks"]
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}
    used = {"prompt_tokens": usage[0], "completion_tokens": usage[1], "total_tokens": sum(usage)}
    whole = {"id": str(number), "object": "chat.completion", "created": 1, "model": "scripted"}
    return {**whole, "choices": [choice], "usage": used}


def _anthropic(reply: Reply, usage: tuple[int, int], number: int) -> Json:
    thought = {"type": "thinking", "thinking": reply.get("thinks"), "signature": "signed"}
    content: list[Json] = [thought] if reply.get("thinks") else []
    content += [{"type": "text", "text": reply["text"]}] if reply.get("text") else []
    calls = _calls(reply, number)
    content += [{"type": "tool_use", "id": id_, "name": name, "input": given} for id_, name, given in calls]
    used = {"input_tokens": usage[0], "output_tokens": usage[1]}
    whole = {"id": str(number), "type": "message", "role": "assistant", "model": "scripted", "stop_sequence": None}
    return {**whole, "content": content, "stop_reason": "tool_use" if calls else "end_turn", "usage": used}


def _google(reply: Reply, usage: tuple[int, int], number: int) -> Json:
    parts: list[Json] = [{"text": reply["thinks"], "thought": True}] if reply.get("thinks") else []
    parts += [{"text": reply["text"]}] if reply.get("text") else []
    parts += [{"functionCall": {"id": id_, "name": name, "args": given}} for id_, name, given in _calls(reply, number)]
    counts = {"promptTokenCount": usage[0], "candidatesTokenCount": usage[1], "totalTokenCount": sum(usage)}
    candidate = {"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}
    return {"candidates": [candidate], "usageMetadata": counts, "modelVersion": "scripted"}


_WORDS = {"openai": _openai, "anthropic": _anthropic, "google": _google}


def _as_text(given: Json) -> str:
    """The arguments of a call as OpenAI writes them; a text is taken to be written so already, well or not."""
    return given if isinstance(given, str) else json.dumps(given)


def _is_streamed(path: str, body: dict[str, Json]) -> bool:
    return bool(body.get("stream")) or ":streamGenerateContent" in path


def _events(provider: str, whole: dict[str, Json], pieces: int | None) -> tuple[bytes, int]:
    """The whole reply as events, and how many bytes those are; with ``pieces`` only as many of them."""
    events = _STREAMS[provider](whole)
    every = "".join(events)
    sent = every if pieces is None else "".join(events[:pieces])
    return sent.encode(), len(every.encode())


def _event(data: Json) -> str:
    name = f"event: {data['type']}\n" if isinstance(data, dict) and "type" in data else ""
    return f"{name}data: {data if isinstance(data, str) else json.dumps(data)}\n\n"


def _halves(text: str) -> tuple[str, str]:
    return text[: len(text) // 2], text[len(text) // 2 :]


def _openai_stream(whole: Json) -> list[str]:
    message, reason = whole["choices"][0]["message"], whole["choices"][0]["finish_reason"]
    deltas: list[Json] = [{"content": half} for half in _halves(message["content"] or "") if half]
    if message.get("reasoning_content"):
        deltas.insert(0, {"reasoning_content": message["reasoning_content"]})
    for at, call in enumerate(message.get("tool_calls", ())):
        first, second = _halves(call["function"]["arguments"])
        begun = {"index": at, **call, "function": {**call["function"], "arguments": first}}
        deltas += [{"tool_calls": [begun]}, {"tool_calls": [{"index": at, "function": {"arguments": second}}]}]
    head = {name: whole[name] for name in ("id", "created", "model")} | {"object": "chat.completion.chunk"}
    choices = [{"index": 0, "delta": {"role": "assistant", **delta}, "finish_reason": None} for delta in deltas]
    choices.append({"index": 0, "delta": {}, "finish_reason": reason})
    chunks: list[Json] = [{**head, "choices": [choice]} for choice in choices]
    return [_event(chunk) for chunk in (*chunks, {**head, "choices": [], "usage": whole["usage"]}, "[DONE]")]


def _anthropic_stream(whole: Json) -> list[str]:
    used = whole["usage"]
    events: list[Json] = [
        {
            "type": "message_start",
            "message": {**whole, "content": [], "stop_reason": None, "usage": {**used, "output_tokens": 0}},
        }
    ]
    for at, block in enumerate(whole["content"]):
        empty: dict[str, Json] = {
            "text": {"text": ""},
            "thinking": {"thinking": "", "signature": ""},
            "tool_use": {"input": {}},
        }
        begun = {**block, **empty[block["type"]]}
        events.append({"type": "content_block_start", "index": at, "content_block": begun})
        events += [{"type": "content_block_delta", "index": at, "delta": delta} for delta in _anthropic_deltas(block)]
        events.append({"type": "content_block_stop", "index": at})
    end = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    last = {"output_tokens": used["output_tokens"]}
    events += [{"type": "message_delta", "delta": end, "usage": last}, {"type": "message_stop"}]
    return [_event(event) for event in events]


def _anthropic_deltas(block: Json) -> list[Json]:
    if block["type"] == "text":
        return [{"type": "text_delta", "text": half} for half in _halves(block["text"]) if half]
    if block["type"] == "thinking":
        thought = {"type": "thinking_delta", "thinking": block["thinking"]}
        return [thought, {"type": "signature_delta", "signature": block["signature"]}]
    return [{"type": "input_json_delta", "partial_json": half} for half in _halves(_as_text(block["input"]))]


def _google_stream(whole: Json) -> list[str]:
    candidate = whole["candidates"][0]
    parts: list[Json] = []
    for part in candidate["content"]["parts"]:
        parts += [{**part, "text": half} for half in _halves(part["text"]) if half] if "text" in part else [part]
    told = [{"candidates": [{"content": {"role": "model", "parts": [part]}, "index": 0}]} for part in parts]
    last = {**whole, "candidates": [{**candidate, "content": {"role": "model", "parts": []}}]}
    return [_event(each) for each in (*told, last)]


_STREAMS = {"openai": _openai_stream, "anthropic": _anthropic_stream, "google": _google_stream}
