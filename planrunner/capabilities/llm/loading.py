"""Importing the library, which takes a second or two: beside the attempt, so that a stop need not wait for it."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterable

from planrunner.capabilities.contract import Context, Failure

_PARTS = {
    "openai": ("pydantic_ai.models.openai", "pydantic_ai.providers.openai"),
    "openai-compatible": ("pydantic_ai.models.openai", "pydantic_ai.providers.openai"),
    "anthropic": ("pydantic_ai.models.anthropic", "pydantic_ai.providers.anthropic"),
    "google": ("pydantic_ai.models.google", "pydantic_ai.providers.google"),
    "ollama": ("pydantic_ai.models.ollama", "pydantic_ai.providers.ollama"),
}

_WRITERS = ("pydantic_ai", "openai", "anthropic", "google.genai", "genai_prices")
"""Whose warnings would be written over the live view."""

_one_at_a_time = threading.Lock()  # modules that import each other are not made for several threads
_loaded: set[str] = set()


def load(context: Context, providers: Iterable[str]) -> None:
    """Import what speaks for the providers. Raises Failure where the extra is not installed, or the attempt is
    stopped."""
    missing = sorted(set(providers) - _loaded)
    if not missing:
        return
    problems: list[str] = []
    thread = threading.Thread(target=_import, args=(missing, problems), daemon=True, name="planrunner-models")
    thread.start()
    while thread.is_alive():
        thread.join(0.1)
        if context.cancelled():
            raise Failure("stopped while its library was being loaded", "interrupted")
    if problems:
        raise Failure(f"llm needs the extra `llm`: pip install 'planrunner[llm]' ({problems[0]})")


def _import(providers: list[str], problems: list[str]) -> None:
    with _one_at_a_time:
        try:
            for module in ("pydantic_ai.direct", *(part for provider in providers for part in _PARTS[provider])):
                __import__(module)
        except ImportError as error:
            problems.append(str(error))
            return
        for module in _WRITERS:
            warnings.filterwarnings("ignore", module=module.replace(".", r"\."))
        _loaded.update(providers)
