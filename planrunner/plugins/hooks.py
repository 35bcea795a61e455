"""Calls of hooks, plugin by plugin: one that raises is named and left out, the others go on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pluggy

from planrunner import hookspecs
from planrunner.plugins.problems import FAULTS, fault_of, first_line

if TYPE_CHECKING:
    from planrunner.plugins.observing import Observer

PREFIX = "planrunner_"


class _Manager(pluggy.PluginManager):
    """Takes every function named like a hook for one, so that plugins need not import a marker."""

    def parse_hookimpl_opts(self, plugin: Any, name: str) -> Any:
        marked = super().parse_hookimpl_opts(plugin, name)
        if marked is None and name.startswith(PREFIX) and callable(getattr(plugin, name, None)):
            return {}
        return marked


class Hooks:
    """The plugins that are loaded, and what went wrong with them."""

    def __init__(self, problems: list[str] | None = None) -> None:
        self.problems: list[str] = [] if problems is None else problems
        self._manager = _Manager("planrunner")
        self._manager.add_hookspecs(hookspecs)
        self._reported: set[tuple[str, str]] = set()

    def add(self, plugin: object, name: str) -> bool:
        """Add a plugin; False, and a problem, where it does not fit the hooks."""
        try:
            self._manager.register(plugin, name)
            unknown = [hook.name for hook in self._manager.get_hookcallers(plugin) or () if not hook.has_spec()]
            if unknown:
                raise ValueError(f"there is no hook `{unknown[0]}`")
        except (pluggy.PluginValidationError, ValueError) as error:
            if self._manager.is_registered(plugin):
                self._manager.unregister(plugin)
            self.problems.append(f"the plugin {name} is left out: {first_line(error)}")
            return False
        return True

    def observers(self) -> tuple[Observer, ...]:
        """Who watches runs, last registered first."""
        from planrunner.plugins.observing import Observer  # late: a plugin of capabilities needs no threads

        found = reversed(self._manager.hook.planrunner_observe_event.get_hookimpls())
        return tuple(Observer(each.plugin_name, each.function, tuple(each.argnames)) for each in found)

    def implemented(self, plugin: object) -> tuple[str, ...]:
        """The names of the hooks that a plugin has."""
        return tuple(sorted(caller.name for caller in self._manager.get_hookcallers(plugin) or ()))

    def call(self, hook: str, only: object = None, **arguments: Any) -> None:
        """Call a hook of every plugin (or ``only`` one), last registered first; what one raises is reported once."""
        for implementation in reversed(getattr(self._manager.hook, hook).get_hookimpls()):
            if only is not None and implementation.plugin is not only:
                continue
            try:
                implementation.function(*(arguments[name] for name in implementation.argnames))
            except FAULTS as error:  # a plugin's fault stays with the plugin
                self._report(implementation.plugin_name, hook, error)

    def _report(self, plugin: str, hook: str, error: BaseException) -> None:
        if (plugin, hook) not in self._reported:
            self._reported.add((plugin, hook))
            self.problems.append(fault_of(plugin, hook, error))
