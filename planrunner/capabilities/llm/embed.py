"""Texts as vectors: asked of a model in batches and remembered by content, or made without one."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Annotated, Any, NamedTuple

from planrunner.capabilities.contract import OUTPUT_LIMIT, Context, Failure, Json
from planrunner.capabilities.declare import Doc, capability
from planrunner.capabilities.llm.embedding import embedded
from planrunner.capabilities.llm.hashing import DIMENSIONS, vector
from planrunner.capabilities.llm.usage import usage_of

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
    model: Annotated[str, Doc("name of a model in planrunner.yaml, or `hash`, which needs none")] = "hash",
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
    if model == "hash":
        return _hashed(context, listed, dimensions or DIMENSIONS)
    found = embedded(context, listed, model, batch, dimensions)
    return _embeddings(context, found.vectors, model, found.cached, found.attempts)


def _hashed(context: Context, texts: list[str], dimensions: int) -> Embeddings:
    context.spend(cost=0, tokens=0, calls=0)
    return _embeddings(context, [vector(text, dimensions) for text in texts], "hash", 0, [])


def _embeddings(
    context: Context, vectors: list[list[float]], model: str, cached: int, attempts: list[dict[str, Json]]
) -> Embeddings:
    sizes = {len(each) for each in vectors}
    if len(sizes) > 1:
        raise Failure(f"the vectors of `{model}` have several lengths: {sorted(sizes)}")
    text = json.dumps(vectors).encode()
    if context.services is not None:
        context.keep(text, "vectors", "json")
    shown = vectors if len(text) <= OUTPUT_LIMIT // 4 else []
    usage = usage_of(attempts)._asdict()
    return Embeddings(shown, sizes.pop() if sizes else 0, model, cached, usage, attempts, sha256(text).hexdigest())
