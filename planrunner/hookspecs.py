"""The hooks of planrunner: what a plugin may add and what it may watch.

A plugin is a module named by an entry point, with functions of the names below; no marker is needed. It may leave out
arguments it does not use. An argument that a hook does not have, or a hook that does not exist, is named in a warning
and the plugin is left out. Nothing a plugin returns or raises changes the course of a run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Protocol

import pluggy

from planrunner.diagnostics import Diagnostic, Rule
from planrunner.machine.events import Entry
from planrunner.plan.model import Capability

if TYPE_CHECKING:
    from planrunner.capabilities.research.providers import Found, Search
    from planrunner.plan.rules.view import PlanView


hookspec = pluggy.HookspecMarker("planrunner")


class RegisterCapability(Protocol):
    """Adds a capability: a tagged function, or ``module:function`` to import when it is first used, then with its
    description. Raises ValueError for a name that is taken or lies outside the plugin's family."""

    def __call__(
        self, name: str, target: Callable[..., object] | str, description: Capability | None = None
    ) -> None: ...


class RegisterRule(Protocol):
    """Adds a lint rule: its code with name, severity and title, and the check that yields its findings. Raises
    ValueError for a code that is taken or starts with ``PLAN``, which is planrunner's own."""

    def __call__(self, rule: Rule, check: Callable[[PlanView], Iterable[Diagnostic]]) -> None: ...


class RegisterSearchProvider(Protocol):
    """Adds a search provider: a function that is given a ``Search`` and returns a ``Found`` (see
    ``planrunner.capabilities.research.providers``). Raises ValueError for a name that another one has."""

    def __call__(self, name: str, provider: Callable[[Search], Found]) -> None: ...


@hookspec
def planrunner_register_capabilities(register: RegisterCapability) -> None:
    """Add capabilities.

    Called once in a process for each plugin, when a plan names a capability of its family or all are listed; the
    built-ins register through it as well. A module without this hook offers every function in it that is marked with
    ``@capability``. Raising leaves out what the plugin has not registered yet and names it in a warning.
    """


@hookspec
def planrunner_register_rules(register: RegisterRule) -> None:
    """Add lint rules.

    Called once in a process before the first lint; a run that finds its plan in the cache does not call it. Raising
    leaves out what the plugin has not registered yet and names it in a warning.
    """


@hookspec
def planrunner_register_search_providers(register: RegisterSearchProvider) -> None:
    """Add search providers for ``research.search``.

    Called once in a process before the first search, in the thread that starts it. A provider is called once for each
    search, in the thread of the attempt; it reaches the network by the ``get`` it is given, which spends a call and
    keeps to the rules of the project. A Failure it raises fails the task as it says, anything else as ``logic``.
    Raising in the hook leaves out what the plugin has not registered yet and names it in a warning.
    """


@hookspec
def planrunner_observe_event(run_id: str, entry: Entry) -> None:
    """Watch a run.

    Called for each event, after it is durable and in the order of the journal, in a thread of the plugin's own, with a
    copy of the entry: the run goes on meanwhile. A plugin that cannot keep up misses events, which are counted and
    named. The return value is ignored. Raising, whatever it be, is reported once for a plugin and has no other effect.
    Events that were written before a crash are not shown again.
    """
