"""Asking models: the one that is chosen, then those that stand in for it; every request and reply is kept."""

from __future__ import annotations

import asyncio
import json
import threading
import warnings
from collections.abc import Awaitable, Callable, Iterable, Sequence
from hashlib import sha256
from importlib import import_module
from typing import Any, NamedTuple, TypeVar

import httpx2

from planrunner.capabilities.contract import Context, Failure
from planrunner.capabilities.http.client import async_client
from planrunner.capabilities.llm.messages import Asked, Reply
from planrunner.capabilities.llm.models import Model, chosen, key_of
from planrunner.capabilities.llm.usage import Purse, Usage, dollars, purse_of
from planrunner.capabilities.llm.wire import Exchange, Wire, exchanged, failure_of
from planrunner.extras import needed

Json = Any
Chains = list[list[Model]]
Result = TypeVar("Result")

SEVERAL = 8
"""Requests of one attempt that are on their way at once."""


class Answer(NamedTuple):
    """A reply, the model that gave it, what was tried to get it, and the digests of what was sent and came back."""

    reply: Reply
    model: Model
    attempts: list[dict[str, Json]]
    request_sha256: str
    reply_sha256: str


def asking(
    context: Context, names: Sequence[str], work: Callable[[Asker, Chains], Awaitable[Result]], library: bool = True
) -> Result:
    """Do ``work`` with the models of those names, each with what stands in for it, and tell the engine what it used.
    ``library`` False is for requests that are made without it. Raises Failure."""

    async def inside(purse: Purse, chains: Chains) -> Result:
        async with (
            async_client(context, follow_redirects=False) as guarded,
            httpx2.AsyncClient(transport=Wire(guarded), timeout=None) as client,
        ):
            return await work(Asker(context, purse, client), chains)

    with purse_of(context) as purse:
        chains = [chosen(context, name) for name in names]
        if library:
            for chain in chains:
                key_of(chain[0], context)  # what lacks one is told without loading anything
            load(context, {chain[0].provider for chain in chains})
        return asyncio.run(inside(purse, chains))


class Asker:
    """Sends the requests of one attempt."""

    __slots__ = ("_keys", "_number", "_several", "client", "context", "purse")

    def __init__(self, context: Context, purse: Purse, client: httpx2.AsyncClient) -> None:
        self.client = client
        self._keys: dict[str, str] = {}
        self._number = 0
        self._several = asyncio.Semaphore(SEVERAL)
        self.context = context
        self.purse = purse

    async def ask(self, models: list[Model], asked: Asked, stream: bool = False) -> Answer:
        """The reply of the first of the models that gives one. Raises Failure, with what was tried in its outputs."""
        tried: list[dict[str, Json]] = []
        failed: list[Failure] = []
        for model in models:
            if failed:
                self.note(f"{failed[-1]}; asking `{model.name}` instead")
            try:
                async with self._several:
                    return await self._once(model, asked, stream, tried)
            except Failure as failure:
                failed.append(failure)
                if failure.failure != "transient":
                    break
        raise _joined(models, failed, tried) from None

    def note(self, text: str) -> None:
        """Tell people, beside the answer, what is going on."""
        self.context.log.write(f"{text}\n".encode(), "stderr")

    async def _once(self, model: Model, asked: Asked, stream: bool, tried: list[dict[str, Json]]) -> Answer:
        parameters = {**model.parameters, **asked.parameters}
        limit = parameters.get("max_tokens") or self.purse.most_output(model, _size_of(asked))
        whole = asked._replace(parameters={**parameters, "max_tokens": limit})
        reply, digests = await self.exchange(model, limit, lambda exchange: self._send(exchange, whole, stream), tried)
        return Answer(reply, model, tried, *digests)

    async def exchange(
        self, model: Model, limit: int, send: Callable[[Exchange], Awaitable[Result]], tried: list[dict[str, Json]]
    ) -> tuple[Result, tuple[str, str]]:
        """Have ``send`` make one request, of which the reply has at most ``limit`` tokens, and read what comes back;
        gives the digests of both as well. What happened is added to ``tried``. Raises Failure."""
        if model.name not in self._keys:
            self._keys[model.name] = key_of(model, self.context)
        exchange = Exchange(model, self._keys[model.name], self.purse, limit)
        try:
            with exchanged(exchange):
                async with asyncio.timeout(model.timeout):
                    result = await send(exchange)
        except Exception as error:  # the libraries raise whatever they please
            failure = failure_of(error, exchange)
            tried.append(_record(exchange, failure, self._keep(exchange)))
            raise failure from None
        digests = self._keep(exchange)
        tried.append(_record(exchange, None, digests))
        self.note(_line(exchange))
        return result, digests

    async def _send(self, exchange: Exchange, asked: Asked, stream: bool) -> Reply:
        speaker = load(self.context, {exchange.model.provider})  # of a model that stands in for another
        made = speaker.adapter(exchange.model, self.client)
        if asked.parameters.get("effort") and not speaker.thinks(made):
            self.note(f"`{exchange.model.name}` has no setting for effort; asking without")
        if not stream:
            return _blinded(await speaker.request(made, exchange.model, asked, None), exchange)
        shown = exchange.redactor.stream()
        write = self.context.log.write
        try:
            reply = await speaker.request(
                made, exchange.model, asked, lambda piece: write(shown.take(piece.encode("utf-8", "replace")))
            )
        finally:
            write(shown.rest() + b"\n")
        return _blinded(reply, exchange)

    def _keep(self, exchange: Exchange) -> tuple[str, str]:
        """Keep what was sent and what came back; gives their digests."""
        if not exchange.request:
            return "", ""
        self._number += 1
        kind = "sse" if exchange.is_event_stream else "json"
        sent = self._kept(exchange.request, f"request-{self._number}.json", "json")
        return sent, self._kept(bytes(exchange.reply), f"reply-{self._number}.{kind}", kind) if exchange.reply else ""

    def _kept(self, data: bytes, name: str, kind: str) -> str:
        if self.context.services is not None:
            self.context.keep(data, name, kind)
        return sha256(data).hexdigest()


def _record(exchange: Exchange, failure: Failure | None, digests: tuple[str, str]) -> dict[str, Json]:
    model, used = exchange.model, exchange.used
    usage = None if used is None else Usage(*used.tokens, used.cost)._asdict()
    return {
        "model": model.name,
        "provider": model.provider,
        "id": model.model,
        "status": exchange.status or None,
        "failure": failure.failure if failure is not None else "",
        "reason": str(failure) if failure is not None else "",
        "usage": usage,
        "request_sha256": digests[0],
        "reply_sha256": digests[1],
    }


def _line(exchange: Exchange) -> str:
    used, model = exchange.used, exchange.model
    if used is None:
        why = f" ({exchange.odd})" if exchange.odd else ""
        return f"`{model.name}` returned invalid usage figures{why}; the full reservation is charged"
    price = "at a price that is not known" if used.cost is None else dollars(used.cost)
    return f"`{model.name}` answered: {used.tokens.input} tokens in, {used.tokens.output} out, {price}"


def _joined(models: list[Model], failed: list[Failure], tried: list[dict[str, Json]]) -> Failure:
    """One failure for all: the last one, unless that only says that nothing further could be asked."""
    last = failed[-1]
    if len(failed) > 1 and last.failure == "budget":
        said = f"{failed[-2]}; `{models[len(failed) - 1].name}` was not asked: {last}"
        last = failed[-2]
        return Failure(said, last.failure, {"attempts": tried}, rule=last.rule, retry_after=last.retry_after)
    before = ", ".join(f"`{model.name}`" for model in models[: len(failed) - 1])
    said = f"{last} (before it {before} failed as well)" if before else str(last)
    return Failure(said, last.failure, {"attempts": tried}, rule=last.rule, retry_after=last.retry_after)


def _size_of(asked: Asked) -> int:
    """About how many bytes the request will have, for lack of the request itself."""
    said = [message._asdict() for message in asked.messages]
    return len(json.dumps([said, [tool._asdict() for tool in asked.tools], asked.schema, asked.schema])) + 512


def _blinded(reply: Reply, exchange: Exchange) -> Reply:
    """The reply without the key, even where it came in pieces."""
    redactor = exchange.redactor
    calls = tuple(call._replace(arguments=redactor.data(call.arguments)) for call in reply.calls)
    thought = reply.thought if redactor.data(reply.thought) == reply.thought else None  # a changed one is refused
    return reply._replace(text=redactor.text(reply.text), calls=calls, thought=thought)


_SPEAKER = "planrunner.capabilities.llm.providers"

_WRITERS = ("pydantic_ai", "openai", "anthropic", "google.genai", "genai_prices")
"""Whose warnings would be written over the live view."""

_one_at_a_time = threading.Lock()  # modules that import each other are not made for several threads
_loaded: set[str] = set()


def load(context: Context, providers: Iterable[str]) -> Any:
    """The module ``llm.providers``, with what it needs for these providers. Raises Failure where the extra is not
    installed, or the attempt is stopped."""
    missing = sorted(set(providers) - _loaded)
    if not missing:
        return import_module(_SPEAKER)
    problems: list[str] = []
    thread = threading.Thread(target=_import, args=(missing, problems), daemon=True, name="planrunner-models")
    thread.start()
    while thread.is_alive():
        thread.join(0.1)
        if context.cancelled():
            raise Failure("stopped while the library was being loaded", "interrupted")
    if problems:
        raise Failure(needed("llm needs", "llm", problems[0]))
    return import_module(_SPEAKER)


def _import(providers: list[str], problems: list[str]) -> None:
    with _one_at_a_time:
        try:
            speaker = import_module(_SPEAKER)
            for provider in providers:
                speaker.classes(provider)
        except ImportError as error:
            problems.append(str(error))
            return
        for module in _WRITERS:
            warnings.filterwarnings("ignore", module=module.replace(".", r"\."))
        _loaded.update(providers)
