"""The models of a project, as `models:` of planrunner.yaml names them: plans choose among them and add none."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from planrunner.capabilities.contract import Context, Failure, money, seconds
from planrunner.capabilities.http.headers import is_line
from planrunner.frozen import EMPTY
from planrunner.plan.agents import MODEL_CHOICES
from planrunner.plan.nearest import nearest

Json = Any

_HOMES = {
    "openai": "https://api.openai.com/v1",
    "anthropic": "https://api.anthropic.com",
    "google": "https://generativelanguage.googleapis.com",
    "ollama": "http://127.0.0.1:11434/v1",
}

USUAL_KEYS = {"openai": "OPENAI_API_KEY", "anthropic": "ANTHROPIC_API_KEY", "google": "GEMINI_API_KEY"}

_EXAMPLE = "models: {default: fast, fast: {provider: openai, model: gpt-5-mini, key_env: OPENAI_API_KEY}}"


class Price(NamedTuple):
    """Dollars for a million tokens."""

    input: float
    output: float


class Model(NamedTuple):
    """A configured model. ``base_url`` is never empty but for the built-in embedder; ``own_address`` is False where it
    is the provider's usual one. ``timeout`` is in seconds, for one request."""

    name: str
    provider: str
    model: str
    base_url: str = ""
    own_address: bool = False
    key_env: str = ""
    key_file: str = ""
    credential: str = ""
    parameters: Mapping[str, Json] = EMPTY
    price: Price | None = None
    fallback: tuple[str, ...] = ()
    timeout: float = 300.0
    structured: str = "native"
    dimensions: int | None = None


def chosen(context: Context, name: str) -> list[Model]:
    """The model of that name (empty: the default), then those that stand in for it, in their order. Raises Failure
    (logic) where the project has no such model or describes it wrongly."""
    section = context.settings("models")
    first = first_of(section, name)
    return [first, *(read_model(section, other) for other in first.fallback)]


def first_of(section: Mapping[str, Json], name: str) -> Model:
    """The model of that name, without those that stand in for it; raises as ``chosen``."""
    return read_model(section, name or _default(section))


def judge_of(context: Context) -> str:
    """The name of the model that judges where none is named; empty: the default one."""
    name = context.settings("models").get("judge", "")
    return name if isinstance(name, str) else ""


def _default(section: Mapping[str, Json]) -> str:
    named = [name for name in section if name not in MODEL_CHOICES]
    default = section.get("default") or (named[0] if len(named) == 1 else "")
    if isinstance(default, str) and default:
        return default
    if not named:
        raise Failure(f"no model is configured: add to planrunner.yaml, for example, `{_EXAMPLE}`")
    raise Failure(f"no model is named, and planrunner.yaml has no `models: default:` ({', '.join(sorted(named))})")


def read_model(section: Mapping[str, Json], name: str) -> Model:
    """One entry of the section. Raises Failure that says what to write instead."""
    given = section.get(name)
    if name in MODEL_CHOICES or given is None:
        raise Failure(_unknown(section, name))
    where = f"planrunner.yaml: `models: {name}:`"
    if not isinstance(given, dict):
        raise Failure(f"{where} is not a mapping; it has at least `provider` and `model`")
    try:
        provider, base_url = given["provider"], given.get("base_url", "")
        if not base_url and provider not in _HOMES:
            raise ValueError(f"needs a `base_url`, since its provider is `{provider}`")
        price, fallback = given.get("price"), given.get("fallback") or ()
        if name in fallback:
            raise ValueError("has a `fallback` that is itself")
        named = base_url or given.get("key_file") or given.get("credential")
        usual = "" if named else USUAL_KEYS.get(provider, "")
        return Model(
            name=name,
            provider=provider,
            model=given["model"],
            base_url=(base_url or _HOMES[provider]).rstrip("/"),
            own_address=bool(base_url),
            key_env=given.get("key_env") or usual,
            key_file=given.get("key_file", ""),
            credential=given.get("credential", ""),
            parameters=given.get("parameters") or {},
            price=None if price is None else Price(money(price["input"]), money(price["output"])),
            fallback=tuple(fallback),
            timeout=seconds(given.get("timeout", 300.0)),
            structured=given.get("structured", "native"),
            dimensions=given.get("dimensions"),
        )
    except ValueError as error:
        raise Failure(f"{where} {error}") from None


def _unknown(section: Mapping[str, Json], name: str) -> str:
    named = sorted(model for model in section if model not in MODEL_CHOICES)
    if not named:
        return f"no model `{name}`: planrunner.yaml configures none; add, for example, `{_EXAMPLE}`"
    close = nearest(name, named)
    hint = f"did you mean `{close}`?" if close else f"it has {', '.join(named[:8])}"
    return f"planrunner.yaml has no model `{name}` under `models`: {hint}"


def key_of(model: Model, context: Context) -> str:
    """The key that the model's requests carry; empty where none is configured. Raises Failure (policy) where the one
    that is configured cannot be had."""
    if model.credential:
        return _key(model, context.credential(model.credential))
    if model.key_file:
        try:
            with open(os.path.expanduser(model.key_file), encoding="utf-8") as file:
                return _key(model, _concealed(context, model.name, file.read().strip()))
        except (OSError, UnicodeDecodeError):
            raise Failure(
                f"the key of `{model.name}` cannot be read from {model.key_file}", rule="models.key"
            ) from None
    if why := missing_key(model, os.environ):
        raise Failure(why, rule="models.key")
    if not model.key_env:
        return ""
    return _key(model, _concealed(context, model.key_env, os.environ[model.key_env].strip()))


def missing_key(model: Model, environment: Mapping[str, str]) -> str:
    """Why the key of a model cannot be had, where it comes from a variable or a file; empty where nothing is known
    against it."""
    if model.key_file:
        path = os.path.expanduser(model.key_file)
        return "" if os.access(path, os.R_OK) else f"the key of `{model.name}` cannot be read from {model.key_file}"
    if not model.key_env or environment.get(model.key_env, "").strip():
        return ""
    way = f"set it, such as `export {model.key_env}=…`"
    return f"`{model.name}` takes its key from the variable {model.key_env}, which is not set: {way}"


def _concealed(context: Context, name: str, key: str) -> str:
    context.conceal(name, key)
    return key


def _key(model: Model, key: str) -> str:
    """A key that a header can carry: what is said about another one would hold it."""
    if not is_line(key):
        raise Failure(f"the key of `{model.name}` is not one line of ASCII text", rule="models.key")
    return key
