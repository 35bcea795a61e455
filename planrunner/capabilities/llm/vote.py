"""The same question asked several times, or of several models: what most of them answer counts."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import Annotated, Any, NamedTuple

from planrunner.capabilities.contract import Context, Doc, Failure, capability
from planrunner.capabilities.llm.asker import asking
from planrunner.capabilities.llm.complete import checked, shaped
from planrunner.capabilities.llm.messages import Asked, conversation
from planrunner.capabilities.llm.usage import usage_of

Json = Any

MOST = 25
"""Votes of one attempt."""


class Vote(NamedTuple):
    """``answer`` is what most gave, ``agreement`` the share of all votes that it has; ``votes`` lists each as {model,
    answer, key}, an answer that could not be had as {model, failure}."""

    answer: Annotated[Any, Doc("what most gave")]
    agreement: Annotated[float, Doc("the share of all votes that it has")]
    counts: Annotated[dict[str, int], Doc("votes by answer, as compared")]
    votes: Annotated[list[dict[str, Any]], Doc("each as {model, answer, key}, or {model, failure}")]
    usage: Annotated[dict[str, Any], Doc("{input, output, cost} of all requests; null is not known")]
    attempts: Annotated[list[dict[str, Any]], Doc("every request: model, status, failure, usage, digests")]


@capability(
    "llm.vote",
    effect="read",
    spends=("cost", "tokens", "calls"),
    risks=("sends the prompt to the providers of the models, over the network", "costs money"),
    foreign=("answer", "counts", "votes", "attempts"),
    own=("usage",),
    shaped={"answer": "schema/field"},
    preconditions=("package pydantic_ai llm", "model models"),
)
def vote(
    context: Context,
    prompt: Annotated[str, Doc("what every voter is asked")],
    models: Annotated[list[str] | None, Doc("names of models in planrunner.yaml; default: the default one")] = None,
    n: Annotated[int, Doc("votes of each model; default: 3 of one model, 1 each of several")] = 0,
    system: Annotated[str, Doc("how the models are to behave")] = "",
    schema: Annotated[dict[str, Any] | None, Doc("JSON Schema that every answer has to fit")] = None,
    field: Annotated[str, Doc("with `schema`: the part of the answer that is voted on; default: all of it")] = "",
    max_tokens: Annotated[int | None, Doc("tokens of an answer at most")] = None,
    temperature: Annotated[float | None, Doc("how freely the models choose their words")] = None,
) -> Vote:
    """Ask the same several times and take the answer that most give.

    Answers in text are compared without case, punctuation at the ends and extra spaces. Where no answer has more than
    half of the votes, the task fails with the class `no_majority`; votes that could not be had count against all.
    """
    try:
        names = _voters(models or [""], n)
    except Failure:
        context.spend(cost=0, tokens=0, calls=0)
        raise

    async def work(asker: Any, chains: Any) -> Vote:
        asker.purse.check_calls(len(chains))
        parameters = {"max_tokens": checked(max_tokens), "temperature": temperature}
        given = {name: value for name, value in parameters.items() if value is not None}
        asked = Asked(conversation(system, prompt, []), [], schema, given)
        answers = await asyncio.gather(*(_one(asker, voter, asked, field) for voter in chains))
        return counted([ballot for ballot, _ in answers], [attempt for _, attempts in answers for attempt in attempts])

    return asking(context, names, work)


def _voters(names: list[str], n: int) -> list[str]:
    count = n or (3 if len(names) == 1 else 1)
    if count < 1 or not 2 <= count * len(names) <= MOST:
        raise Failure(f"{count * len(names)} votes are asked for; a vote has 2 to {MOST}")
    return [name for name in names for _ in range(count)]


async def _one(asker: Any, models: Any, asked: Any, field: str) -> tuple[dict[str, Json], list[dict[str, Json]]]:
    try:
        last = await shaped(asker, models, asked, 0)
    except Failure as failure:
        if failure.failure not in ("transient", "schema"):
            raise
        return {"model": models[0].name, "failure": str(failure)}, failure.outputs.get("attempts", [])
    answer = last.answer.reply.text if asked.schema is None else _part(last.value, field)
    return {"model": last.answer.model.name, "answer": answer, "key": normal(answer)}, last.attempts


def _part(value: Json, field: str) -> Json:
    if not field:
        return value
    if not isinstance(value, dict) or field not in value:
        raise Failure(f"the answers have no `{field}`, which is voted on; make it `required` in the schema")
    return value[field]


def normal(answer: Json) -> str:
    """An answer as it is compared with others."""
    if not isinstance(answer, str):
        return json.dumps(answer, sort_keys=True, ensure_ascii=False)
    return " ".join(answer.split()).strip(" .,;:!?\"'`*").casefold()


def counted(votes: list[dict[str, Json]], attempts: list[dict[str, Json]]) -> Vote:
    """Raises Failure (no_majority) where no answer has more than half, and (transient) without any answer."""
    counts = Counter(ballot["key"] for ballot in votes if "key" in ballot)
    first = counts.most_common(1)
    result = Vote(None, 0.0, dict(counts), votes, usage_of(attempts)._asdict(), attempts)
    if not first:
        raise Failure(f"no vote could be had: {votes[0]['failure']}", "transient", result._asdict())
    if 2 * first[0][1] <= len(votes):
        said = ", ".join(f"{key or '(nothing)'}: {number}" for key, number in counts.most_common(5))
        raise Failure(f"no answer has more than half of the votes ({said})", "no_majority", result._asdict())
    key, number = first[0]
    answer = next(ballot["answer"] for ballot in votes if ballot.get("key") == key)
    return result._replace(answer=answer, agreement=round(number / len(votes), 6))
