"""Requests in the words of each provider: pydantic-ai knows them, this is the way in and out of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from planrunner.capabilities.llm.conversation import Message, Tool, ToolCall
from planrunner.capabilities.llm.models import Model
from planrunner.capabilities.llm.wire import NO_KEY
from planrunner.capabilities.soundness import not_json

if TYPE_CHECKING:
    import httpx2
    from pydantic_ai.messages import ModelMessage, ModelRequestPart, ModelResponse
    from pydantic_ai.models import Model as Adapter
    from pydantic_ai.models import ModelRequestParameters
    from pydantic_ai.profiles import ModelProfile
    from pydantic_ai.settings import ModelSettings
    from pydantic_ai.tools import ToolDefinition


Json = Any


class Asked(NamedTuple):
    """One request: what is said, what is offered, and what shape the answer should have."""

    messages: list[Message]
    tools: list[Tool]
    schema: Json
    parameters: dict[str, Json]


class Reply(NamedTuple):
    """What came back, in one shape for all providers."""

    text: str
    calls: tuple[ToolCall, ...]
    finish_reason: str


def adapter(model: Model, client: httpx2.AsyncClient) -> Adapter:
    """The library's model, which sends what it has to send through ``client``."""
    return _ADAPTERS[model.provider](model, client)


def _openai(model: Model, client: httpx2.AsyncClient) -> Adapter:
    from pydantic_ai.providers.openai import OpenAIProvider

    provider = OpenAIProvider(base_url=model.base_url, api_key=NO_KEY, http_client=client)
    from pydantic_ai.models.openai import OpenAIChatModel  # late, as everything of the library

    if model.provider == "openai":
        return OpenAIChatModel(model.model, provider=provider)
    return OpenAIChatModel(model.model, provider=provider, profile=_older(provider.model_profile(model.model)))


def _anthropic(model: Model, client: httpx2.AsyncClient) -> Adapter:
    from pydantic_ai.providers.anthropic import AnthropicProvider

    provider = AnthropicProvider(base_url=model.base_url, api_key=NO_KEY, http_client=client)
    from pydantic_ai.models.anthropic import AnthropicModel

    return AnthropicModel(model.model, provider=provider)


def _google(model: Model, client: httpx2.AsyncClient) -> Adapter:
    from pydantic_ai.providers.google import GoogleProvider

    provider = GoogleProvider(base_url=model.base_url, api_key=NO_KEY, http_client=client)
    from pydantic_ai.models.google import GoogleModel

    return GoogleModel(model.model, provider=provider)


def _ollama(model: Model, client: httpx2.AsyncClient) -> Adapter:
    from pydantic_ai.providers.ollama import OllamaProvider

    provider = OllamaProvider(base_url=model.base_url, api_key=NO_KEY, http_client=client)
    from pydantic_ai.models.ollama import OllamaModel

    return OllamaModel(model.model, provider=provider, profile=_older(provider.model_profile(model.model)))


def _older(profile: ModelProfile | None) -> ModelProfile:
    """The ways of a model served by a program that bounds its replies by `max_tokens`, as nearly all but OpenAI do."""
    from pydantic_ai.profiles import merge_profile
    from pydantic_ai.profiles.openai import OpenAIModelProfile

    return merge_profile(profile, OpenAIModelProfile(openai_chat_supports_max_completion_tokens=False))


_ADAPTERS: dict[str, Callable[[Model, httpx2.AsyncClient], Adapter]] = {
    "openai": _openai,
    "openai-compatible": _openai,
    "anthropic": _anthropic,
    "google": _google,
    "ollama": _ollama,
}


async def request(adapter: Adapter, model: Model, asked: Asked, on_text: Callable[[str], None] | None) -> Reply:
    """Send one request; with ``on_text`` the text is handed on as it comes. Raises what the library raises."""
    told = _told(asked.messages if asked.schema is None or is_shaped(adapter, model, asked) else _with_shape(asked))
    settings, parameters = _settings(asked.parameters), _parameters(adapter, model, asked)
    from pydantic_ai.direct import model_request, model_request_stream

    if on_text is None:
        return _reply(await model_request(adapter, told, model_settings=settings, model_request_parameters=parameters))
    async with model_request_stream(
        adapter, told, model_settings=settings, model_request_parameters=parameters
    ) as stream:
        async for event in stream:
            if text := _text_of(event):
                on_text(text)
    return _reply(stream.get())


def _text_of(event: Any) -> str:
    from pydantic_ai.messages import PartDeltaEvent, PartStartEvent, TextPart, TextPartDelta

    if isinstance(event, PartStartEvent) and isinstance(event.part, TextPart):
        return event.part.content
    if isinstance(event, PartDeltaEvent) and isinstance(event.delta, TextPartDelta):
        return event.delta.content_delta
    return ""


def _told(messages: list[Message]) -> list[ModelMessage]:
    """The messages in the library's words: what is no assistant's turn goes together into one request."""
    found: list[ModelMessage] = []
    pending: list[ModelRequestPart] = []
    from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart, ToolCallPart

    for message in messages:
        if message.role != "assistant":
            pending.append(_part(message))
            continue
        if pending:
            found.append(ModelRequest(parts=pending))
            pending = []
        calls = [ToolCallPart(call.name, call.arguments, tool_call_id=call.id) for call in message.calls]
        found.append(ModelResponse(parts=[*([TextPart(message.content)] if message.content else []), *calls]))
    if pending:
        found.append(ModelRequest(parts=pending))
    return found


def _with_shape(asked: Asked) -> list[Message]:
    """The messages after the shape of the answer in words, for models whose provider cannot be held to one."""
    wanted = json.dumps(asked.schema, ensure_ascii=False)
    said = f"Answer with one JSON value that fits this JSON Schema, and with nothing else:\n{wanted}"
    return [Message("system", said), *asked.messages]


def _part(message: Message) -> ModelRequestPart:
    from pydantic_ai.messages import SystemPromptPart, ToolReturnPart, UserPromptPart

    if message.role == "system":
        return SystemPromptPart(message.content)
    if message.role == "tool":
        return ToolReturnPart(message.name or "tool", message.content, tool_call_id=message.call_id)
    return UserPromptPart(message.content)


def _settings(parameters: dict[str, Json]) -> ModelSettings:
    settings: Any = {name: value for name, value in parameters.items() if value is not None}
    if "stop" in settings:
        stop = settings.pop("stop")
        settings["stop_sequences"] = [stop] if isinstance(stop, str) else stop
    settings["max_retries"] = 0
    return settings  # type: ignore[no-any-return]


def _parameters(adapter: Adapter, model: Model, asked: Asked) -> ModelRequestParameters:
    tools = [_tool(tool) for tool in asked.tools]
    from pydantic_ai.models import ModelRequestParameters

    if not is_shaped(adapter, model, asked):
        return ModelRequestParameters(function_tools=tools)
    from pydantic_ai.output import OutputObjectDefinition

    shape = OutputObjectDefinition(json_schema=asked.schema, name="answer")
    return ModelRequestParameters(function_tools=tools, output_mode="native", output_object=shape)


def _tool(tool: Tool) -> ToolDefinition:
    from pydantic_ai.tools import ToolDefinition

    return ToolDefinition(name=tool.name, parameters_json_schema=tool.schema, description=tool.description or None)


def is_shaped(adapter: Adapter, model: Model, asked: Asked) -> bool:
    """Whether the provider is asked to keep the answer to the schema; otherwise the words of the request ask for it."""
    is_object = isinstance(asked.schema, dict) and asked.schema.get("type") == "object"
    can = bool(adapter.profile.get("supports_json_schema_output"))
    return is_object and can and model.structured == "native" and not asked.tools


def _reply(response: ModelResponse) -> Reply:
    from pydantic_ai.messages import TextPart, ToolCallPart

    text = _joined("".join(part.content for part in response.parts if isinstance(part, TextPart)))
    calls = [
        ToolCall(part.tool_call_id, part.tool_name, _arguments(part))
        for part in response.parts
        if isinstance(part, ToolCallPart)
    ]
    if not (text or calls or response.finish_reason):
        raise ValueError("it holds no answer")
    return Reply(text, tuple(calls), response.finish_reason or "")


def _arguments(part: Any) -> dict[str, Json]:
    """What the model wants a tool called with; text that is no JSON comes under the name `unreadable`."""
    try:
        found = dict(part.args_as_dict())
    except (ValueError, AssertionError):
        return {"unreadable": str(part.args)}
    return {"unreadable": str(part.args)} if not_json(found) else found


def _joined(text: str) -> str:
    """The text with surrogate pairs as the signs they stand for, which may have come in halves; lone halves, which
    nothing can hold, are replaced."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
