"""What plugins have registered, and what went wrong with it; made with the first plugin that is looked at."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from planrunner.capabilities import builtin
from planrunner.capabilities.contract import declaration_of
from planrunner.capabilities.faults import interrupts
from planrunner.capabilities.signature import describe
from planrunner.capabilities.soundness import misdescribed
from planrunner.plan.model import Capability
from planrunner.plugins.claims import misnamed
from planrunner.plugins.problems import Problems, one_line


class Known(NamedTuple):
    """A registered capability: its function, or where to import it from, and its description once somebody asked."""

    target: Callable[..., Any] | str
    description: Capability | None
    plugin: str


class Catalogue:
    """What plugins have registered, by the name of the capability."""

    __slots__ = ("known", "left_out", "problems")

    def __init__(self) -> None:
        self.known: dict[str, Known] = {}
        self.left_out: dict[str, str] = {}
        """Names that a plugin wanted and does not have, each with the sentence that says why."""
        self.problems = Problems()

    def registrar(self, plugin: str, family: str) -> Callable[..., None]:
        """The ``register`` that a plugin is handed."""

        def register(name: str, target: Callable[..., Any] | str, description: Capability | None = None) -> None:
            if not isinstance(name, str):
                raise ValueError(f"a capability is named {name!r}, which is no text, and is left out")
            if family and name.partition(".")[0] != family:
                raise ValueError(f"the capability `{name}` is not of the family `{family}` and is left out")
            holder = "planrunner" if name in builtin.TARGETS else getattr(self.known.get(name), "plugin", "")
            if holder:
                raise ValueError(f"the capability `{name}` is left out, {holder} has one of that name")
            if isinstance(target, str) and description is None:
                raise ValueError(f"the capability `{name}` is named by a place to import and has no description")
            if description is not None and (why := misdescribed(description)):
                raise ValueError(f"the capability `{name}` is left out, {why}")
            self.known[name] = Known(target, description, plugin)

        return register

    def take_marked(self, plugin: object, name: str, family: str) -> None:
        """Register every function of a plugin that is marked."""
        register = self.registrar(name, family)
        for function in list(vars(plugin).values()):
            declaration = None
            try:
                declaration = declaration_of(function)
                if declaration is not None:
                    register(declaration.name, function)
            except ValueError as error:
                named = declaration.name if declaration is not None else ""
                self._leave_out(named, name, f"the plugin {name}: {error}")
            except BaseException as error:  # an object whose attributes raise
                if interrupts(error):
                    raise
                self.problems.add(name, f"the plugin {name}: {one_line(error)}")

    def described(self, name: str, known: Known) -> Known:
        """With its description; one that cannot be described is left out."""
        target: Any = known.target
        try:
            target = builtin.load(known.target) if isinstance(known.target, str) else known.target
            found = describe(target, known.plugin)._replace(name=name)
        except BaseException as error:  # annotations are code of the plugin
            if interrupts(error):
                raise
            told = str(error) if isinstance(error, (TypeError, NameError)) else one_line(error)
            place = "" if isinstance(target, str) else place_of(target)
            why = f"the capability `{name}` of {known.plugin} is left out: {place}{told}"
            self._leave_out(name, known.plugin, why)
            self.known.pop(name)
            return known
        self.known[name] = known = known._replace(description=found)
        for fault in misnamed(found):
            self.problems.add(known.plugin, f"the capability `{name}` of {known.plugin}: {place_of(target)}{fault}")
        return known

    def describe_all(self) -> None:
        """Describe every capability there is, so that those that cannot be are left out and named."""
        for name, known in list(self.known.items()):
            if known.description is None:
                self.described(name, known)

    def _leave_out(self, name: str, plugin: str, why: str) -> None:
        self.left_out.setdefault(name, why)
        self.problems.add(plugin, why)


def place_of(function: object) -> str:
    """File and line of a function with a colon behind, as a compiler would say it; empty for what has none."""
    code = getattr(function, "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}: " if code is not None else ""
