"""What went wrong with plugins in this process, for whoever tells people of it: each sentence once."""

from __future__ import annotations

FAULTS = (Exception, SystemExit, GeneratorExit)
"""What code of a plugin may raise without harm to others. KeyboardInterrupt is the wish of whoever sits there."""

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


class Problems(list[str]):
    """The sentences of one registry; each is told as well."""

    def append(self, problem: str) -> None:
        super().append(problem)
        tell(problem)


def fault_of(plugin: str, hook: str, error: BaseException) -> str:
    """The sentence about a hook that raised."""
    return f"the plugin {plugin} failed in `{hook}`: {type(error).__name__}: {first_line(error)}"


def first_line(error: BaseException) -> str:
    """The message of an exception in one line."""
    return str(error).strip().partition("\n")[0]
