"""What went wrong with plugins in this process, for whoever tells people of it: each sentence once."""

from __future__ import annotations

from planrunner.capabilities.faults import said

_told: dict[str, bool] = {}
"""Sentence to whether somebody has fetched it."""


def tell(problem: str) -> None:
    """Keep a sentence for the end of the command."""
    _told.setdefault(problem, False)


def fetch() -> list[str]:
    """The sentences that nobody has fetched yet."""
    found = [problem for problem, fetched in _told.items() if not fetched]
    _told.update(dict.fromkeys(found, True))
    return found


class Problems:
    """The sentences of one registry, by plugin; each is told as well."""

    __slots__ = ("_found",)

    def __init__(self) -> None:
        self._found: list[tuple[str, str]] = []

    def add(self, plugin: str, problem: str) -> None:
        """Keep a sentence about a plugin."""
        self._found.append((plugin, problem))
        tell(problem)

    def of(self, plugin: str | None = None) -> tuple[str, ...]:
        """The sentences about a plugin, or all of them."""
        return tuple(problem for name, problem in self._found if plugin is None or name == plugin)


def fault_of(plugin: str, hook: str, error: BaseException) -> str:
    """The sentence about a hook that raised."""
    return f"the plugin {plugin} failed in `{hook}`: {one_line(error)}"


def one_line(error: BaseException) -> str:
    """Class and message of an exception in one line."""
    return said(error).strip().partition("\n")[0]
