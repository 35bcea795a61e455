"""Asking a model and taking its answer: text, data that fits a schema, or calls of tools it was offered."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal, NamedTuple

from planrunner.capabilities.contract import Context, Doc, Failure, Json, capability
from planrunner.capabilities.jsonschema import faults, require_schema
from planrunner.capabilities.llm.asker import Answer, Asker, asking
from planrunner.capabilities.llm.messages import Asked, Message, conversation, offered
from planrunner.capabilities.llm.models import Model
from planrunner.capabilities.llm.usage import usage_of
from planrunner.capabilities.soundness import not_json

Effort = Literal["none", "low", "medium", "high"]

MOST_REPAIRS = 5

_SHOWN = 8
"""Faults of an answer that the model is told at once."""


class Shaped(NamedTuple):
    """The last answer, its value where a shape was asked for, and every request on the way."""

    answer: Answer
    value: Json
    attempts: list[dict[str, Json]]


async def shaped(asker: Asker, models: list[Model], asked: Asked, repairs: int, stream: bool = False) -> Shaped:
    """Ask until the answer fits the schema, at most ``repairs`` times more. Raises Failure (schema) where it never
    does, logic for an invalid schema."""
    if asked.schema is not None:
        require_schema(asked.schema, "schema")
    attempts: list[dict[str, Json]] = []
    asked_again = 0
    while True:
        answer = await asker.ask(models, asked, stream)
        attempts += answer.attempts
        if asked.schema is None or answer.reply.calls:
            return Shaped(answer, None, attempts)
        value, wrong = read(asked.schema, answer.reply.text)
        if not wrong:
            return Shaped(answer, value, attempts)
        models = models[models.index(answer.model) :]
        why = ""
        if asked_again == repairs:
            why = f"it was asked {asked_again + 1} times" if asked_again else "it was asked once"
        else:
            try:
                asker.purse.check_calls(1)
            except Failure as failure:
                why = str(failure)
        if why:
            outputs = {"text": answer.reply.text, "faults": wrong[:_SHOWN], "attempts": attempts}
            said = "; ".join(wrong[:3])
            raise Failure(
                f"the answer of `{answer.model.name}` does not fit the schema: {said} ({why})", "schema", outputs
            )
        asked_again += 1
        asker.note(f"the answer does not fit the schema ({wrong[0]}); asking again")
        listed = "\n".join(f"- {fault}" for fault in wrong[:_SHOWN])
        repair = (
            f"That answer does not fit the JSON Schema:\n{listed}\nAnswer again with the whole corrected JSON alone."
        )
        turns = [Message("assistant", answer.reply.text or "{}"), Message("user", repair)]
        asked = asked._replace(messages=[*asked.messages, *turns])


def read(schema: Json, text: str) -> tuple[Json, list[str]]:
    """The JSON in a reply and what is wrong with it; one that stands in a fenced block is taken out of it."""
    body = text.strip()
    if body.startswith("```") and body.endswith("```") and "\n" in body:
        body = body.partition("\n")[2][:-3]
    try:
        value = json.loads(body, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        return None, [f"/: it is not JSON: {error}"]
    why = not_json(value, "the value")
    return value, [f"/: {why}"] if why else faults(schema, value)


def _no_number(name: str) -> Json:
    raise ValueError(f"{name} is not a JSON number")


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
    spends=("cost", "tokens", "calls", "repairs:schema"),
    risks=("sends the prompt to the provider of the model, over the network", "costs money"),
    foreign=("text", "json", "tool_calls", "attempts"),
    own=("model", "finish_reason", "usage", "request_sha256", "reply_sha256"),
    shaped={"json": "schema"},
    preconditions=("package pydantic_ai llm", "model model"),
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
    effort: Annotated[Effort | None, Doc("reasoning effort of the model")] = None,
) -> Completion:
    """Ask a model.

    With `schema` the output `json` is data that fits it; a model that never gives such an answer fails the task with
    the class `schema`. With `tools` the output `tool_calls` lists what the model wants called: nothing is called. A
    model that cannot be reached, is busy or breaks off is replaced by those its `fallback` names; `attempts` tells.
    """

    async def work(asker: Any, chains: Any) -> Completion:
        said = conversation(system, prompt, messages or [])
        parameters = {"max_tokens": checked(max_tokens), "temperature": temperature, "effort": effort}
        given = {name: value for name, value in parameters.items() if value is not None}
        asked = Asked(said, offered(tools or []), schema, given)
        if not 0 <= repairs <= MOST_REPAIRS:
            raise Failure(f"`repairs` is {repairs}; it is 0 to {MOST_REPAIRS}")
        last = await shaped(asker, chains[0], asked, repairs, stream)
        answer = last.answer
        return Completion(
            text=answer.reply.text,
            json=last.value,
            tool_calls=[call._asdict() for call in answer.reply.calls],
            model=answer.model.name,
            finish_reason=answer.reply.finish_reason,
            usage=usage_of(last.attempts)._asdict(),
            attempts=last.attempts,
            request_sha256=answer.request_sha256,
            reply_sha256=answer.reply_sha256,
        )

    return asking(context, [model], work)


def checked(max_tokens: int | None) -> int | None:
    """Raises Failure for a limit that bounds nothing."""
    if max_tokens is not None and max_tokens < 1:
        raise Failure(f"`max_tokens` is {max_tokens}; it is at least 1")
    return max_tokens
