"""Test cases of a plan as data: what the world does, what goes wrong, and what has to come of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from planrunner.app.proof.lives import Mishap
from planrunner.app.proof.world import World
from planrunner.source import Span

Json = Any

HERE = Span(0, 0)


class Expectation(NamedTuple):
    """One thing that must hold: ``about`` names it (``status``, ``tasks.build.attempts``), ``wanted`` is data, ``span``
    its place in the test file, ``task`` the name or pattern of the task it is about."""

    about: str
    wanted: Json
    span: Span = HERE
    task: str = ""


class Crash(NamedTuple):
    """The process dies at a journal write; ``write`` 0 means each in turn."""

    write: int
    stored: bool = True


class Case(NamedTuple):
    """``plan`` is the path of the plan file, ``span`` the name of the case in its file. ``generated`` cases follow from
    the plan and stand in no file; ``guess`` marks one that is there for what it reaches alone."""

    name: str
    plan: str
    params: Mapping[str, Json] = {}
    seed: int = 0
    env: Mapping[str, str] = {}
    world: World = World()
    mishaps: tuple[Mishap, ...] = ()
    crash: Crash | None = None
    settle: Mapping[str, str] = {}
    expect: tuple[Expectation, ...] = ()
    span: Span = HERE
    generated: bool = False
    guess: bool = False
