"""A text of Python judged by the rules of the scan and the policies that hold: the same for whoever asks."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple

from planrunner.capabilities.contract import Context
from planrunner.capabilities.python.interpreter import on_path
from planrunner.capabilities.python.verdicts import OPTIONS, ORDER, verdict
from planrunner.plan.python.rules import RULES
from planrunner.plan.python.scan import scan as scan_text

if TYPE_CHECKING:
    from planrunner.plan.rights import Level


class Judged(NamedTuple):
    """One finding: ``verdict`` is allow, ask or deny, ``by`` the level of policy that says so (empty: nobody had to);
    ``line`` and ``column`` count from 1."""

    rule: str
    verdict: str
    by: str
    message: str
    line: int
    column: int
    snippet: str

    @property
    def said(self) -> str:
        """It in a clause, with its place and the name of its rule."""
        by = f", {self.verdict} in {self.by}" if self.by else ""
        return f"line {self.line}: {self.message} (scan.{self.rule}{by})"


def levels_of(rights: Iterable[Level]) -> list[list[Any]]:
    """The levels of policy that say something about the scan, as ``verdict`` takes them."""
    found = ((level, level.data.get("python")) for level in rights if isinstance(level.data, dict))
    return [[level.name, section, level.is_operators] for level, section in found if section]


def judge(text: str, levels: Any) -> list[Judged]:
    """What the rules find in a text, the worst first; a text that nobody can read is denied."""
    found = []
    for each in scan_text(text):
        rule = RULES[each.rule]
        said, by = verdict(each.rule, rule.verdict, levels)
        what = f"{rule.why}: {each.what}" if each.what else rule.why
        found.append(Judged(each.rule, said, by, what, each.line, each.column, each.snippet))
    return worst_first(found)


def worst_first(found: Iterable[Judged]) -> list[Judged]:
    return sorted(found, key=lambda each: -ORDER[each.verdict])


def worst(found: Sequence[Judged]) -> str:
    """The strictest verdict; ``allow`` where nothing was found."""
    return max((each.verdict for each in found), key=ORDER.__getitem__, default="allow")


def bandit_command(context: Context) -> list[str]:
    """The words that start Bandit, the one that came with planrunner or on the PATH; none where it is not there."""
    if find_spec("bandit") is not None:
        return [sys.executable, "-I", "-m", "bandit", *OPTIONS]
    program = on_path(context, "bandit")
    return [program, *OPTIONS] if program else []
