"""Calls of hooks, plugin by plugin: one that raises is named and left out, the others go on."""

from __future__ import annotations

import inspect
from typing import Any

import pluggy

from planrunner import hookspecs
from planrunner.capabilities.faults import interrupts
from planrunner.plan.nearest import meant, nearest
from planrunner.plugins.observers import Observer
from planrunner.plugins.reports import Problems, fault_of, one_line
from planrunner.plugins.sources import HOOKS
from planrunner.process import plugin_code

PREFIX = "planrunner_"
_PART = "\0"
"""Between the name of a distribution and the number of its module: one may have several."""


class _Manager(pluggy.PluginManager):
    """Takes every function named like a hook for one, so that plugins need not import a marker."""

    def parse_hookimpl_opts(self, plugin: Any, name: str) -> Any:
        marked = super().parse_hookimpl_opts(plugin, name)
        if marked is None and name.startswith(PREFIX) and callable(getattr(plugin, name, None)):
            return {}
        return marked


class Hooks:
    """The plugins that are loaded, and what went wrong with them."""

    def __init__(self, problems: Problems) -> None:
        self._problems = problems
        self._manager = _Manager("planrunner")
        self._manager.add_hookspecs(hookspecs)
        self._names: dict[str, list[object]] = {}
        self._reported: set[tuple[str, str]] = set()
        self.calling = ""
        """The plugin whose hook is being called."""

    def add(self, plugin: object, name: str) -> bool:
        """Add a plugin; False, and a problem, where it does not fit the hooks."""
        if self._manager.is_registered(plugin):
            return True
        if fault := _misfit(plugin):
            self._problems.add(name, f"the plugin {name} is left out: {fault}")
            return False
        full = f"{name}{_PART}{len(self._manager.list_name_plugin())}"
        try:
            self._manager.register(plugin, full)
            self._names.setdefault(name, []).append(plugin)
        except BaseException as error:  # pluggy knows more reasons than are told in our words
            if interrupts(error):
                raise
            if self._manager.is_registered(plugin):
                self._manager.unregister(plugin)
            why = one_line(error).replace(repr(full), name).replace(full, name)
            why = why.removeprefix(f"{type(error).__name__}: ") if isinstance(error, Exception) else why
            self._problems.add(name, f"the plugin {name} is left out: {why}")
            return False
        return True

    def observers(self) -> tuple[Observer, ...]:
        """Who watches runs, last registered first."""
        implementations = reversed(self._manager.hook.planrunner_observe_event.get_hookimpls())
        return tuple(Observer(_name(each), each.function, tuple(each.argnames)) for each in implementations)

    def of(self, name: str) -> tuple[str, ...]:
        """The hooks that a plugin has, by name."""
        plugins = self._names.get(name, ())
        callers = [caller for plugin in plugins for caller in self._manager.get_hookcallers(plugin) or ()]
        return tuple(sorted({caller.name for caller in callers}))

    @plugin_code()
    def call(self, hook: str, only: object = None, **arguments: Any) -> None:
        """Call a hook of every plugin (or ``only`` one), last registered first; what one raises is reported once."""
        for implementation in reversed(getattr(self._manager.hook, hook).get_hookimpls()):
            if only is not None and implementation.plugin is not only:
                continue
            self.calling = _name(implementation)
            try:
                implementation.function(*(arguments[name] for name in implementation.argnames))
            except BaseException as error:  # a plugin's fault stays with the plugin
                if interrupts(error):
                    raise
                plugin = _name(implementation)
                if (plugin, hook) not in self._reported:
                    self._reported.add((plugin, hook))
                    self._problems.add(plugin, fault_of(plugin, hook, error))


def _misfit(plugin: object) -> str:
    """Why what a plugin has under the names of hooks cannot be called as hooks; empty where it can."""
    try:
        hooks = {name: getattr(plugin, name) for name in dir(plugin) if name.startswith(PREFIX)}
        return next(filter(None, (_fault(name, value) for name, value in hooks.items())), "")
    except BaseException as error:  # a module whose attributes raise
        if interrupts(error):
            raise
        return one_line(error)


def _fault(name: str, value: object) -> str:
    spec = getattr(hookspecs, name, None)
    if not callable(value):
        return "" if spec is None else f"`{name}` is a hook and so has to be a function, not {type(value).__name__}"
    if spec is None:
        near = nearest(name, HOOKS)
        return f"there is no hook `{name}`" + meant(near)
    if inspect.iscoroutinefunction(value) or inspect.isasyncgenfunction(value):
        return f"`{name}` is an `async def`: a hook is a plain function"
    if inspect.isgeneratorfunction(value):
        return f"`{name}` is a generator: a hook is a plain function"
    allowed = tuple(inspect.signature(spec).parameters)
    given = inspect.signature(value).parameters.values()
    open_ended = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    needed = [one.name for one in given if one.default is one.empty and one.kind not in open_ended]
    wrong = [name for name in needed if name not in allowed]
    if wrong:
        return f"`{name}` takes an argument `{wrong[0]}`: it may take {' and '.join(f'`{one}`' for one in allowed)}"
    return ""


def _name(implementation: pluggy.HookImpl) -> str:
    return implementation.plugin_name.partition(_PART)[0]
