"""Calls of hooks, plugin by plugin: one that raises is named and left out, the others go on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pluggy

from planrunner import hookspecs
from planrunner.plugins.problems import Problems, fault_of, interrupts, one_line

if TYPE_CHECKING:
    from planrunner.plugins.observing import Observer

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

    def add(self, plugin: object, name: str) -> bool:
        """Add a plugin; False, and a problem, where it does not fit the hooks."""
        if self._manager.is_registered(plugin):
            return True
        full = f"{name}{_PART}{len(self._manager.list_name_plugin())}"
        try:
            self._manager.register(plugin, full)
            self._names.setdefault(name, []).append(plugin)
            unknown = [hook.name for hook in self._manager.get_hookcallers(plugin) or () if not hook.has_spec()]
            if unknown:
                raise ValueError(f"there is no hook `{unknown[0]}`")
        except BaseException as error:  # a wrong signature, an unknown hook, or a module whose attributes raise
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
        from planrunner.plugins.observing import Observer  # late: a plugin of capabilities needs no threads

        found = reversed(self._manager.hook.planrunner_observe_event.get_hookimpls())
        return tuple(Observer(_name(each), each.function, tuple(each.argnames)) for each in found)

    def of(self, name: str) -> tuple[str, ...]:
        """The hooks that a plugin has, by name."""
        plugins = self._names.get(name, ())
        found = [caller for plugin in plugins for caller in self._manager.get_hookcallers(plugin) or ()]
        return tuple(sorted({caller.name for caller in found}))

    def call(self, hook: str, only: object = None, **arguments: Any) -> None:
        """Call a hook of every plugin (or ``only`` one), last registered first; what one raises is reported once."""
        for implementation in reversed(getattr(self._manager.hook, hook).get_hookimpls()):
            if only is not None and implementation.plugin is not only:
                continue
            try:
                implementation.function(*(arguments[name] for name in implementation.argnames))
            except BaseException as error:  # a plugin's fault stays with the plugin
                if interrupts(error):
                    raise
                self._report(_name(implementation), hook, error)

    def _report(self, plugin: str, hook: str, error: BaseException) -> None:
        if (plugin, hook) not in self._reported:
            self._reported.add((plugin, hook))
            self._problems.add(plugin, fault_of(plugin, hook, error))


def _name(implementation: pluggy.HookImpl) -> str:
    return implementation.plugin_name.partition(_PART)[0]
