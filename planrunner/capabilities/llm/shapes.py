"""Answers in a shape: JSON out of the text of a reply, held against a schema, and asked for again where it is wrong."""

from __future__ import annotations

import json
from typing import NamedTuple

from planrunner.capabilities.contract import Failure, Json
from planrunner.capabilities.jsonschema import faults
from planrunner.capabilities.llm.asking import Answer, Asker
from planrunner.capabilities.llm.conversation import Asked, Message
from planrunner.capabilities.llm.models import Model
from planrunner.capabilities.schemas import require_schema
from planrunner.capabilities.soundness import not_json

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
    does, logic for what is no schema."""
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
        if why := _why_not(asker, repairs, asked_again):
            raise _misfit(answer, wrong, attempts, why)
        asked_again += 1
        asker.note(f"the answer does not fit the schema ({wrong[0]}); asking again")
        asked = asked._replace(messages=[*asked.messages, *_repair(answer.reply.text, wrong)])


def _why_not(asker: Asker, repairs: int, asked_again: int) -> str:
    if asked_again == repairs:
        return f"it was asked {asked_again + 1} times" if asked_again else "it was asked once"
    try:
        asker.purse.check_calls(1)
    except Failure as failure:
        return str(failure)
    return ""


def _misfit(answer: Answer, wrong: list[str], attempts: list[dict[str, Json]], why: str) -> Failure:
    outputs = {"text": answer.reply.text, "faults": wrong[:_SHOWN], "attempts": attempts}
    said = "; ".join(wrong[:3])
    return Failure(f"the answer of `{answer.model.name}` does not fit the schema: {said} ({why})", "schema", outputs)


def _repair(text: str, wrong: list[str]) -> list[Message]:
    listed = "\n".join(f"- {fault}" for fault in wrong[:_SHOWN])
    asked = f"That answer does not fit the JSON Schema:\n{listed}\nAnswer again with the whole corrected JSON alone."
    return [Message("assistant", text or "{}"), Message("user", asked)]


def read(schema: Json, text: str) -> tuple[Json, list[str]]:
    """The JSON in a reply and what is wrong with it; one that stands in a fenced block is taken out of it."""
    try:
        value = json.loads(_unfenced(text), parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        return None, [f"/: it is no JSON: {error}"]
    why = not_json(value, "the value")
    return value, [f"/: {why}"] if why else faults(schema, value)


def _unfenced(text: str) -> str:
    body = text.strip()
    if body.startswith("```") and body.endswith("```") and "\n" in body:
        return body.partition("\n")[2][:-3]
    return body


def _no_number(name: str) -> Json:
    raise ValueError(f"{name} is no number of JSON")
