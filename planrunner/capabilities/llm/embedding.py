"""Vectors asked of a model, over `/embeddings` as OpenAI speaks it: what is not remembered, in batches."""

from __future__ import annotations

import json
from typing import NamedTuple

from planrunner.capabilities.contract import Context, Failure, Json
from planrunner.capabilities.llm.asking import Asker, Chains, asking
from planrunner.capabilities.llm.models import Model
from planrunner.capabilities.llm.vectors import Remembered, is_vector
from planrunner.capabilities.llm.wire import Exchange

_SPEAKERS = ("openai", "openai-compatible", "ollama")


class Embedded(NamedTuple):
    """Vectors in the order of the texts, how many of them were remembered, and what was asked."""

    vectors: list[list[float]]
    cached: int
    attempts: list[dict[str, Json]]


def embedded(context: Context, texts: list[str], name: str, batch: int, dimensions: int | None) -> Embedded:
    """The vectors of a model. Raises Failure; what was had before it stays remembered."""

    async def work(asker: Asker, chains: Chains) -> Embedded:
        model = chains[0][0]
        if model.provider not in _SPEAKERS:
            said = f"`{model.name}` is of {model.provider}; vectors come from {', '.join(_SPEAKERS)}, or from `hash`"
            raise Failure(said)
        size = dimensions or model.dimensions
        remembered = Remembered(context, f"{model.base_url} {model.model} {size}")
        known = {text: vector for text in dict.fromkeys(texts) if (vector := remembered.get(text)) is not None}
        missing = [text for text in dict.fromkeys(texts) if text not in known]
        cached = sum(text in known for text in texts)
        attempts: list[dict[str, Json]] = []
        asker.purse.check_calls(-(-len(missing) // batch))
        for at in range(0, len(missing), batch):
            part = missing[at : at + batch]
            for text, vector in zip(part, await _batch(asker, model, part, size, attempts), strict=True):
                remembered.put(text, vector)
                known[text] = vector
        return Embedded([known[text] for text in texts], cached, attempts)

    return asking(context, [name], work, library=False)


async def _batch(
    asker: Asker, model: Model, texts: list[str], size: int | None, attempts: list[dict[str, Json]]
) -> list[list[float]]:
    body: dict[str, Json] = {"model": model.model, "input": texts, "encoding_format": "float"}
    if size is not None:
        body["dimensions"] = size

    async def send(exchange: Exchange) -> list[list[float]]:
        response = await asker.client.post(f"{model.base_url}/embeddings", json=body, timeout=model.timeout)
        response.raise_for_status()
        return _vectors(response.content, len(texts))

    found, _ = await asker.exchange(model, 0, send, attempts)
    return found


def _vectors(reply: bytes, number: int) -> list[list[float]]:
    """Raises ValueError for a reply that does not hold exactly one vector for each text."""
    document = json.loads(reply)
    data = document.get("data") if isinstance(document, dict) else None
    if not isinstance(data, list) or not all(isinstance(each, dict) for each in data):
        raise ValueError("it has no list `data`")
    found = {each.get("index", at): each.get("embedding") for at, each in enumerate(data)}
    vectors = [found.get(at) for at in range(number)]
    if len(data) != number or not all(is_vector(each) for each in vectors):
        raise ValueError(f"it does not hold one vector of numbers for each of {number} texts")
    return [list(map(float, each)) for each in vectors if each is not None]
