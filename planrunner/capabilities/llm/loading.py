"""The library that speaks to providers, imported in a thread: it takes seconds, and a stop need not wait for it."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterable
from importlib import import_module
from typing import Any

from planrunner.capabilities.contract import Context, Failure

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
            raise Failure("stopped while its library was being loaded", "interrupted")
    if problems:
        raise Failure(f"llm needs the extra `llm`: pip install 'planrunner[llm]' ({problems[0]})")
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
