"""Asking a model and taking its answer: text, data in a shape, or calls of tools it was offered."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

from planrunner.capabilities.contract import Context, Failure
from planrunner.capabilities.declare import Doc, capability
from planrunner.capabilities.llm.asking import asking
from planrunner.capabilities.llm.conversation import Asked, conversation, offered
from planrunner.capabilities.llm.shapes import MOST_REPAIRS, shaped
from planrunner.capabilities.llm.usage import usage_of


class Completion(NamedTuple):
    """``usage`` holds what all requests of the attempt used together; None there is not known."""

    text: Annotated[str, Doc("what the model says")]
    json: Annotated[Any, Doc("with `schema`: the data; else null")]
    tool_calls: Annotated[list[dict[str, Any]], Doc("what it wants called: {id, name, arguments}")]
    model: Annotated[str, Doc("name of the model that answered")]
    finish_reason: Annotated[str, Doc("stop, length, tool_call, content_filter")]
    usage: Annotated[dict[str, Any], Doc("{input, output, cost} of all requests; null is not known")]
    attempts: Annotated[list[dict[str, Any]], Doc("every request: model, status, failure, usage, digests")]
    request_sha256: Annotated[str, Doc("digest of the last request, which is an artifact")]
    reply_sha256: Annotated[str, Doc("digest of its reply, which is one as well")]


@capability(
    "llm.complete",
    effect="read",
    spends=("cost", "tokens", "calls"),
    risks=("sends the prompt to the provider of the model, over the network", "costs money"),
    foreign=("text", "json", "tool_calls", "attempts"),
    own=("model", "finish_reason", "usage", "request_sha256", "reply_sha256"),
    shaped={"json": "schema"},
    preconditions=("model model",),
)
def complete(
    context: Context,
    prompt: Annotated[str, Doc("what is asked; it follows the messages")] = "",
    model: Annotated[str, Doc("name of a model in planrunner.yaml; default: the one it calls `default`")] = "",
    system: Annotated[str, Doc("how the model is to behave; it comes first")] = "",
    messages: Annotated[list[dict[str, Any]] | None, Doc("earlier turns: {role, content, tool_calls, …}")] = None,
    tools: Annotated[list[dict[str, Any]] | None, Doc("what the model may call: {name, description, schema}")] = None,
    schema: Annotated[dict[str, Any] | None, Doc("JSON Schema that the answer has to fit")] = None,
    repairs: Annotated[int, Doc("how often an answer that does not fit is asked for again, at most 5")] = 2,
    max_tokens: Annotated[int | None, Doc("tokens of the answer at most; default: the model's, or 4096")] = None,
    temperature: Annotated[float | None, Doc("how freely the model chooses its words")] = None,
    stream: Annotated[bool, Doc("write the text into the log as it comes")] = False,
) -> Completion:
    """Ask a model.

    With `schema` the output `json` is data that fits it; a model that never gives such an answer fails the task with
    the class `schema`. With `tools` the output `tool_calls` lists what the model wants called: nothing is called. A
    model that cannot be reached, is busy or breaks off is replaced by those its `fallback` names; `attempts` tells.
    """

    async def work(asker: Any, chains: Any) -> Completion:
        said = conversation(system, prompt, messages or [])
        parameters = {"max_tokens": checked(max_tokens), "temperature": temperature}
        given = {name: value for name, value in parameters.items() if value is not None}
        asked = Asked(said, offered(tools or []), schema, given)
        return completion(await shaped(asker, chains[0], asked, bounded(repairs), stream))

    return asking(context, [model], work)


def checked(max_tokens: int | None) -> int | None:
    """Raises Failure for a limit that bounds nothing."""
    if max_tokens is not None and max_tokens < 1:
        raise Failure(f"`max_tokens` is {max_tokens}; it is at least 1")
    return max_tokens


def bounded(repairs: int) -> int:
    """How often an answer may be asked for again. Raises Failure beyond the bound."""
    if not 0 <= repairs <= MOST_REPAIRS:
        raise Failure(f"`repairs` is {repairs}; it is 0 to {MOST_REPAIRS}")
    return repairs


def completion(found: Any) -> Completion:
    """The outputs of an answer."""
    answer = found.answer
    return Completion(
        text=answer.reply.text,
        json=found.value,
        tool_calls=[call._asdict() for call in answer.reply.calls],
        model=answer.model.name,
        finish_reason=answer.reply.finish_reason,
        usage=usage_of(found.attempts)._asdict(),
        attempts=found.attempts,
        request_sha256=answer.request_sha256,
        reply_sha256=answer.reply_sha256,
    )
