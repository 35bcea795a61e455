"""Requests in the words of each provider: pydantic-ai knows them, this is the way in and out of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib import import_module
from typing import Any

import httpx2
from pydantic_ai.direct import model_request, model_request_stream
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    PartDeltaEvent,
    PartStartEvent,
    SystemPromptPart,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import Model as Adapter
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.profiles import merge_profile
from pydantic_ai.profiles.openai import OpenAIModelProfile
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from planrunner.capabilities.llm.messages import UNREADABLE, Asked, Message, Reply, ToolCall
from planrunner.capabilities.llm.models import Model
from planrunner.capabilities.llm.wire import NO_KEY
from planrunner.capabilities.soundness import not_json

Json = Any

_CLASSES = {
    "openai": ("openai", "OpenAIChatModel", "OpenAIProvider"),
    "openai-compatible": ("openai", "OpenAIChatModel", "OpenAIProvider"),
    "anthropic": ("anthropic", "AnthropicModel", "AnthropicProvider"),
    "google": ("google", "GoogleModel", "GoogleProvider"),
    "ollama": ("ollama", "OllamaModel", "OllamaProvider"),
}
"""Where the library speaks to each provider, and by which classes; each module needs the SDK of its provider alone."""

_BOUNDED = ("openai-compatible", "ollama")
"""Providers whose programs bound replies by `max_tokens`, as nearly all but OpenAI do."""


def classes(provider: str) -> tuple[Any, Any]:
    """The library's model and provider. Raises ImportError where their SDK is not installed."""
    name, model, speaker = _CLASSES[provider]
    models, providers = (import_module(f"pydantic_ai.{part}.{name}") for part in ("models", "providers"))
    return getattr(models, model), getattr(providers, speaker)


def adapter(model: Model, client: httpx2.AsyncClient) -> Adapter:
    """The library's model, which sends what it has to send through ``client``."""
    made, speaker = classes(model.provider)
    provider = speaker(base_url=model.base_url, api_key=NO_KEY, http_client=client)
    if model.provider not in _BOUNDED:
        return made(model.model, provider=provider)  # type: ignore[no-any-return]
    bounded = OpenAIModelProfile(openai_chat_supports_max_completion_tokens=False)
    profile = merge_profile(provider.model_profile(model.model), bounded)
    return made(model.model, provider=provider, profile=profile)  # type: ignore[no-any-return]


async def request(adapter: Adapter, model: Model, asked: Asked, on_text: Callable[[str], None] | None) -> Reply:
    """Send one request; with ``on_text`` the text is handed on as it comes. Raises what the library raises."""
    messages = asked.messages if asked.schema is None or is_shaped(adapter, model, asked) else _with_shape(asked)
    turns: list[ModelMessage] = []
    pending: list[ModelRequestPart] = []
    for message in messages:
        if message.role != "assistant":
            pending.append(_part(message))
            continue
        if pending:
            turns.append(ModelRequest(parts=pending))
            pending = []
        turns.append(_turn(message))
    if pending:
        turns.append(ModelRequest(parts=pending))
    settings, parameters = _settings(asked.parameters), _parameters(adapter, model, asked)
    if on_text is None:
        return _reply(await model_request(adapter, turns, model_settings=settings, model_request_parameters=parameters))
    async with model_request_stream(
        adapter, turns, model_settings=settings, model_request_parameters=parameters
    ) as stream:
        async for event in stream:
            if text := _text_of(event):
                on_text(text)
    return _reply(stream.get())


def _turn(message: Message) -> ModelMessage:
    """What a model said before."""
    if message.thought is not None:
        return ModelMessagesTypeAdapter.validate_python([message.thought])[0]
    calls = [ToolCallPart(call.name, call.arguments, tool_call_id=call.id) for call in message.calls]
    return ModelResponse(parts=[*([TextPart(message.content)] if message.content else []), *calls])


def _text_of(event: Any) -> str:
    if isinstance(event, PartStartEvent) and isinstance(event.part, TextPart):
        return event.part.content
    if isinstance(event, PartDeltaEvent) and isinstance(event.delta, TextPartDelta):
        return event.delta.content_delta
    return ""


def _with_shape(asked: Asked) -> list[Message]:
    """The messages after the shape of the answer in words, for models whose provider cannot be held to one."""
    wanted = json.dumps(asked.schema, ensure_ascii=False)
    said = f"Answer with one JSON value that fits this JSON Schema, and with nothing else:\n{wanted}"
    return [Message("system", said), *asked.messages]


def _part(message: Message) -> ModelRequestPart:
    if message.role == "system":
        return SystemPromptPart(message.content)
    if message.role == "tool":
        return ToolReturnPart(message.name or "tool", message.content, tool_call_id=message.call_id)
    return UserPromptPart(message.content)


def thinks(adapter: Adapter) -> bool:
    """Whether the model can be told how much to think."""
    return bool(adapter.profile.get("supports_thinking"))


def _settings(parameters: dict[str, Json]) -> ModelSettings:
    settings: Any = {name: value for name, value in parameters.items() if value is not None}
    if "stop" in settings:
        stop = settings.pop("stop")
        settings["stop_sequences"] = [stop] if isinstance(stop, str) else stop
    if effort := settings.pop("effort", ""):
        settings["thinking"] = False if effort == "none" else effort
    settings["max_retries"] = 0
    return settings  # type: ignore[no-any-return]


def _parameters(adapter: Adapter, model: Model, asked: Asked) -> ModelRequestParameters:
    tools = [
        ToolDefinition(name=tool.name, parameters_json_schema=tool.schema, description=tool.description or None)
        for tool in asked.tools
    ]
    if not is_shaped(adapter, model, asked):
        return ModelRequestParameters(function_tools=tools)
    shape = OutputObjectDefinition(json_schema=asked.schema, name="answer")
    return ModelRequestParameters(function_tools=tools, output_mode="native", output_object=shape)


def is_shaped(adapter: Adapter, model: Model, asked: Asked) -> bool:
    """Whether the provider is asked to keep the answer to the schema; otherwise the words of the request ask for it."""
    is_object = isinstance(asked.schema, dict) and asked.schema.get("type") == "object"
    can = bool(adapter.profile.get("supports_json_schema_output"))
    return is_object and can and model.structured == "native" and not asked.tools


def _reply(response: ModelResponse) -> Reply:
    text = "".join(part.content for part in response.parts if isinstance(part, TextPart))
    text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")  # joins halves of pairs
    calls = [
        ToolCall(part.tool_call_id, part.tool_name, _arguments(part))
        for part in response.parts
        if isinstance(part, ToolCallPart)
    ]
    if not (text or calls or response.finish_reason):
        raise ValueError("it holds no answer")
    thought = None
    if any(isinstance(part, ThinkingPart) or part.provider_details for part in response.parts):
        thought = ModelMessagesTypeAdapter.dump_python([response], mode="json")[0]
    return Reply(text, tuple(calls), response.finish_reason or "", thought)


def _arguments(part: Any) -> dict[str, Json]:
    """What the model wants a tool called with; text that is not JSON comes as ``UNREADABLE``."""
    try:
        arguments = dict(part.args_as_dict())
    except (ValueError, AssertionError):
        return {UNREADABLE: str(part.args)}
    broken = arguments.keys() == {"INVALID_JSON"}  # what the library gives where it reads no object
    return {UNREADABLE: str(part.args)} if broken or not_json(arguments) else arguments
