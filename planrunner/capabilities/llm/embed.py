"""Texts as vectors: asked of a model in batches and kept by content, or made of words without a model."""

from __future__ import annotations

import json
import os
from hashlib import sha256
from typing import Annotated, Any, NamedTuple

from planrunner.capabilities.contract import OUTPUT_LIMIT, Context, Doc, Failure, Json, capability
from planrunner.capabilities.llm.asker import Asker, Chains, asking
from planrunner.capabilities.llm.models import Model
from planrunner.capabilities.llm.usage import usage_of
from planrunner.capabilities.llm.wire import Exchange
from planrunner.fileio import replace_file
from planrunner.knowledge.vectors import DIMENSIONS, HASH, is_vector, vector


class Remembered:
    """Vectors by model, length and content, one file each, under a folder that may be lost at any time. What
    others put there does not count."""

    __slots__ = ("_context", "_folder", "_space")

    def __init__(self, context: Context, space: str) -> None:
        self._context = context
        self._folder = context.cache("embeddings")
        self._space = space

    def get(self, text: str) -> list[float] | None:
        """The vector of a text; None where none is remembered, or what is does not read as one."""
        name = self._name(text)
        try:
            with open(self._path(name), encoding="utf-8") as file:
                stored = self._context.opened(f"vector {name}", file.read())
            vector = None if stored is None else json.loads(stored)
        except (OSError, ValueError):
            return None
        return vector if is_vector(vector) else None

    def put(self, text: str, vector: list[float]) -> None:
        """Keep a vector; a concurrent reader sees all of it or nothing."""
        name = self._name(text)
        path = self._path(name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        replace_file(path, self._context.vouched(f"vector {name}", json.dumps(vector)).encode("utf-8"))

    def _name(self, text: str) -> str:
        return sha256(f"{self._space}\0{text}".encode("utf-8", "surrogatepass")).hexdigest()

    def _path(self, name: str) -> str:
        return os.path.join(self._folder, name[:2], f"{name}.json")


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
        number = len(texts)
        document = json.loads(response.content)
        data = document.get("data") if isinstance(document, dict) else None
        if not isinstance(data, list) or not all(isinstance(item, dict) for item in data):
            raise ValueError("it has no list `data`")
        by_index = {item.get("index", at): item.get("embedding") for at, item in enumerate(data)}
        vectors = [by_index.get(at) for at in range(number)]
        if len(data) != number or not all(is_vector(item) for item in vectors):
            raise ValueError(f"it does not hold one vector of numbers for each of {number} texts")
        return [list(map(float, item)) for item in vectors if item is not None]

    vectors, _ = await asker.exchange(model, 0, send, attempts)
    return vectors


LARGEST_BATCH = 256


class Embeddings(NamedTuple):
    """``vectors`` in the order of the texts; empty where they are too large for an output, and then in the artifact
    ``vectors`` alone, whose digest is ``sha256``. ``cached`` says how many were known already."""

    vectors: Annotated[list[list[float]], Doc("in the order of the texts; empty where too large for an output")]
    dimensions: Annotated[int, Doc("length of each vector")]
    model: Annotated[str, Doc("name of the model")]
    cached: Annotated[int, Doc("texts whose vector was known already")]
    usage: Annotated[dict[str, Any], Doc("{input, output, cost} of all requests; null is not known")]
    attempts: Annotated[list[dict[str, Any]], Doc("every request: model, status, failure, usage, digests")]
    sha256: Annotated[str, Doc("digest of the artifact `vectors`, which holds all of them")]


@capability(
    "llm.embed",
    effect="read",
    spends=("cost", "tokens", "calls"),
    risks=("sends the texts to the provider of the model, over the network", "costs money"),
    own=("*",),
    preconditions=("model model hash",),
)
def embed(
    context: Context,
    texts: Annotated[str | list[str], Doc("one text or several")],
    model: Annotated[str, Doc("name of a model in planrunner.yaml, or `hash`, which needs none")] = HASH,
    batch: Annotated[int, Doc("texts of one request, at most 256")] = 64,
    dimensions: Annotated[int | None, Doc("length of the vectors; default: the model's, 256 of `hash`")] = None,
) -> Embeddings:
    """Turn texts into vectors.

    A model speaks the `/embeddings` of OpenAI, as Ollama and most servers do. What was asked once is remembered in the
    project's cache. `hash` makes vectors out of words, pairs of words and parts of words without any model.
    """
    listed = [texts] if isinstance(texts, str) else texts
    if not 1 <= batch <= LARGEST_BATCH or (dimensions is not None and not 1 <= dimensions <= 65536):
        context.spend(cost=0, tokens=0, calls=0)
        raise Failure(f"`batch` is 1 to {LARGEST_BATCH}, `dimensions` 1 to 65536")
    if model == HASH:
        context.spend(cost=0, tokens=0, calls=0)
        return _embeddings(context, [vector(text, dimensions or DIMENSIONS) for text in listed], HASH, 0, [])
    result = embedded(context, listed, model, batch, dimensions)
    return _embeddings(context, result.vectors, model, result.cached, result.attempts)


def _embeddings(
    context: Context, vectors: list[list[float]], model: str, cached: int, attempts: list[dict[str, Json]]
) -> Embeddings:
    sizes = {len(vector) for vector in vectors}
    if len(sizes) > 1:
        raise Failure(f"the vectors of `{model}` have several lengths: {sorted(sizes)}")
    text = json.dumps(vectors).encode()
    if context.services is not None:
        context.keep(text, "vectors", "json")
    shown = vectors if len(text) <= OUTPUT_LIMIT // 4 else []
    usage = usage_of(attempts)._asdict()
    return Embeddings(shown, sizes.pop() if sizes else 0, model, cached, usage, attempts, sha256(text).hexdigest())
