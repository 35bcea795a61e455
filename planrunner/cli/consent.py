"""Asks at the terminal whether a plan may run that nobody has said yes to yet; elsewhere only tells what it may do."""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

from planrunner.app.admission import Answer, Wish, admit
from planrunner.cli.settings import Settings, messages
from planrunner.journal.workspace import find_project
from planrunner.plugins.registry import Registry
from planrunner.views.rights import powers_lines

Json = Any


def consent(given: Settings, alone: bool, found: dict[str, Json]) -> Answer:
    """Show a plan and ask about it; with ``alone`` nobody is asked, wherever the command runs."""
    show(given, found)
    if alone or given.no_input or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return "nobody"
    screen = messages(given)
    while True:
        screen.write("Run it? yes, no, or always exactly this [y/N/a] ")
        answer = sys.stdin.readline().strip().lower()
        if answer in ("y", "yes"):
            return "once"
        if answer in ("a", "always"):
            return "always"
        if answer in ("", "n", "no"):
            return "no"


def vouch(given: Settings, path: str, params: tuple[tuple[str, Json], ...]) -> None:
    """Have somebody say that a plan may run, where its effects are real and no run keeps the answer. Raises Denied."""
    admit(Wish(path, params, ask=partial(consent, given, False)), Registry(project=find_project(path)))


def show(given: Settings, found: dict[str, Json]) -> None:
    """Tell what a plan may do, on standard error."""
    screen = messages(given)
    screen.write("".join(f"{line}\n" for line in (_head(found), *powers_lines(screen, found))))


def _head(found: dict[str, Json]) -> str:
    """Why somebody is asked."""
    if found["origin"] == "outside":
        changed = " It has changed since it was trusted." if found["trusted"] == "changed" else ""
        return f"A plan from outside the project wants to run.{changed}"
    if found["outside"]:
        return "A plan of the project wants to act outside of it."
    return "A plan of the project wants to run, and the policy has somebody asked."
