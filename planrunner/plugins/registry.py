"""Every capability by name: the built-ins at once, those of plugins when a plan names one of their family."""

from __future__ import annotations

import os

from planrunner.capabilities import builtin
from planrunner.capabilities.declare import declaration_of
from planrunner.plugins.discovery import CAPABILITIES, PLUGINS, Installed, installed
from planrunner.record import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import Any

    from planrunner.diagnostics import Diagnostic, Rule
    from planrunner.machine.events import Entry
    from planrunner.plan.model import Capability
    from planrunner.plan.rules.view import PlanView
    from planrunner.plugins.hooks import Hooks

    Check = Callable[[PlanView], Iterable[Diagnostic]]

_REGISTER = "planrunner_register_capabilities"


if TYPE_CHECKING:
    _Mapping = Mapping[str, Capability]
else:
    from _collections_abc import Mapping as _Mapping


class Known(NamedTuple):
    """A registered capability: its function, or where to import it from, and its description once somebody asked."""

    target: Callable[..., Any] | str
    description: Capability | None
    plugin: str


class Registry(_Mapping):
    """Finds capabilities and their functions. As a mapping it goes from names to descriptions; iterating loads all.

    ``plugins`` False leaves the built-ins alone; ``PLANRUNNER_LOAD_PLUGINS`` (names of distributions, parted by commas)
    limits which plugins are looked at. A plugin that cannot be loaded is left out and named in ``problems``.
    """

    def __init__(self, plugins: bool = True) -> None:
        self._plugins = plugins
        self._index: tuple[Installed, ...] | None = None
        self._known: dict[str, Known] = {}
        self._loaded: set[Installed] = set()
        self._opened: set[str] = set()
        self._problems: list[str] = []
        self._hooks: Hooks | None = None
        self._rules: dict[str, tuple[Rule, Check]] = {}

    # Looking up

    def find(self, name: str) -> Capability | None:
        """The description of a capability, or None where nothing installed has the name."""
        if name in builtin.TARGETS:
            from planrunner.capabilities.descriptions import description_of  # late: a plan seen before needs none

            return description_of(name)
        known = self._look_up(name)
        if known is None:
            return None
        if known.description is None:
            known = self._described(name, known)
        return known.description

    def resolve(self, name: str) -> Callable[..., Any]:
        """The function of a capability. Raises KeyError where there is none; an import may raise whatever it does."""
        target: Callable[..., Any] | str | None = builtin.TARGETS.get(name)
        if target is None:
            known = self._look_up(name)
            if known is None:
                raise KeyError(name)
            target = known.target
        elif name in builtin.SEAMS:
            self._open_seam(name)
        return builtin.load(target) if isinstance(target, str) else target

    def _open_seam(self, name: str) -> None:
        """Let plugins add to a built-in; once for each registry."""
        if name not in self._opened:
            self._opened.add(name)
            if self._load_general():
                hook, register = builtin.SEAMS[name]
                self.hooks().call(hook, register=builtin.load(register))

    def names(self) -> tuple[str, ...]:
        """Every capability there is; loads every plugin."""
        for entry in self.installed():
            self._load(entry)
        return tuple(sorted({*builtin.TARGETS, *self._known}))

    def __getitem__(self, name: str) -> Capability:
        found = self.find(name)
        if found is None:
            raise KeyError(name)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def __len__(self) -> int:
        return len(self.names())

    def installed(self) -> tuple[Installed, ...]:
        """The entry points of the plugins that may be loaded."""
        if self._index is None:
            allowed = os.environ.get("PLANRUNNER_LOAD_PLUGINS")
            names = None if allowed is None else {name.strip() for name in allowed.split(",")}
            every = installed() if self._plugins else ()
            self._index = tuple(entry for entry in every if names is None or entry.plugin in names)
        return self._index

    def problems(self) -> tuple[str, ...]:
        """What went wrong with plugins so far, a sentence each."""
        return (*self._problems, *(self._hooks.problems if self._hooks is not None else ()))

    # The other hooks

    def rules(self) -> tuple[tuple[Rule, Check], ...]:
        """The lint rules of plugins, each with its check."""
        if self._load_general():
            self.hooks().call("planrunner_register_rules", register=self._register_rule)
        return tuple(self._rules.values())

    def observer(self) -> Callable[[str, Entry], None] | None:
        """What to call with each durable event of a run (run id, entry), or None where no plugin watches."""
        if not self._load_general() or not self.hooks().listeners("planrunner_observe_event"):
            return None
        hooks = self.hooks()

        def observe(run_id: str, entry: Entry) -> None:
            hooks.call("planrunner_observe_event", run_id=run_id, entry=entry)

        return observe

    def hooks(self) -> Hooks:
        """The hooks with the built-ins registered on them; the first call imports pluggy."""
        if self._hooks is None:
            from planrunner.plugins.hooks import Hooks  # late: a run of built-ins needs none

            self._hooks = Hooks()
            self._hooks.add(builtin, "planrunner")
        return self._hooks

    def add(self, plugin: object, name: str, family: str = "") -> None:
        """Register a plugin that is at hand, as a test or an embedding program has it."""
        if not self.hooks().add(plugin, name):
            return
        if hasattr(plugin, _REGISTER):
            self.hooks().call(_REGISTER, only=plugin, register=self._registrar(name, family))
        else:
            self._register_tagged(plugin, name, family)

    # Loading

    def _look_up(self, name: str) -> Known | None:
        if name not in self._known:
            family = name.partition(".")[0]
            for entry in self.installed():
                if entry.group == CAPABILITIES and entry.name == family:
                    self._load(entry)
        if name not in self._known:
            self._load_general()
        return self._known.get(name)

    def _load_general(self) -> bool:
        """Load the plugins that are no capability family; whether there are any hooks to call."""
        for entry in self.installed():
            if entry.group == PLUGINS:
                self._load(entry)
        return self._hooks is not None

    def _load(self, entry: Installed) -> None:
        if entry in self._loaded:
            return
        self._loaded.add(entry)
        family = entry.name if entry.group == CAPABILITIES else ""
        try:
            module, _, attribute = entry.target.partition(":")
            plugin: object = __import__(module, fromlist=["*"])
            for part in filter(None, attribute.split(".")):
                plugin = getattr(plugin, part)
        except Exception as error:  # whatever an import may raise, the run goes on without the plugin
            self._problems.append(f"the plugin {entry.plugin} is left out: {type(error).__name__}: {error}")
            return
        if family and not hasattr(plugin, _REGISTER):
            self._register_tagged(plugin, entry.plugin, family)  # needs no hook, so pluggy stays out
        else:
            self.add(plugin, entry.plugin, family)

    def _register_tagged(self, plugin: object, name: str, family: str) -> None:
        register = self._registrar(name, family)
        for function in list(vars(plugin).values()):
            declaration = declaration_of(function)
            if declaration is not None:
                try:
                    register(declaration.name, function)
                except ValueError as error:
                    self._problems.append(f"the plugin {name}: {error}")

    def _registrar(self, plugin: str, family: str) -> Callable[..., None]:
        def register(name: str, target: Callable[..., Any] | str, description: Capability | None = None) -> None:
            if family and name.partition(".")[0] != family:
                raise ValueError(f"the capability `{name}` is not of the family `{family}` and is left out")
            holder = "planrunner" if name in builtin.TARGETS else getattr(self._known.get(name), "plugin", "")
            if holder:
                raise ValueError(f"the capability `{name}` is left out, {holder} has one of that name")
            if isinstance(target, str) and description is None:
                raise ValueError(f"the capability `{name}` is named by a place to import and has no description")
            self._known[name] = Known(target, description, plugin)

        return register

    def _described(self, name: str, known: Known) -> Known:
        from planrunner.capabilities.signature import describe  # late: loads inspect

        try:
            known = known._replace(description=describe(self.resolve(name), known.plugin)._replace(name=name))
        except Exception as error:  # annotations are code of the plugin
            self._problems.append(f"the capability `{name}` of {known.plugin} is left out: {error}")
            self._known.pop(name)
            return known
        self._known[name] = known
        return known

    def _register_rule(self, rule: Rule, check: Check) -> None:
        if rule.code.startswith("PLAN") or rule.code in self._rules:
            raise ValueError(f"the code `{rule.code}` is taken")
        self._rules[rule.code] = (rule, self._guarded(rule, check))

    def _guarded(self, rule: Rule, check: Check) -> Check:
        """A check that finds nothing where it raises: a faulty plugin is named and lint goes on."""

        def guarded(view: PlanView) -> Iterable[Diagnostic]:
            try:
                return list(check(view))
            except Exception as error:  # whatever a plugin raises is its own fault
                self._problems.append(f"the rule {rule.code} ({rule.name}) raised {type(error).__name__}: {error}")
                return []

        return guarded
