"""Every capability by name: the built-ins at once, those of plugins when a plan names one of their family."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from planrunner.capabilities import builtin
from planrunner.capabilities.builtin import description_of
from planrunner.fileio import read_regular
from planrunner.journal.workspace import find_project
from planrunner.later import Later
from planrunner.plan.model import Capability
from planrunner.plugins import SUPPORTED
from planrunner.plugins.sources import CAPABILITIES, PLUGINS, Installed, ProjectFile, installed, load, project_files
from planrunner.process import is_own_process, keep_streams, plugin_code, plugins_disabled

if TYPE_CHECKING:
    from planrunner.capabilities.faults import interrupts
    from planrunner.diagnostics import Diagnostic, Rule
    from planrunner.plan.rules.view import PlanView
    from planrunner.plugins.catalogue import Catalogue, Known
    from planrunner.plugins.hooks import Hooks
    from planrunner.plugins.observers import Observers
    from planrunner.plugins.reports import Loading, one_line
    from planrunner.plugins.rules import rules_of

    Check = Callable[[PlanView], Iterable[Diagnostic]]
else:
    Hooks = Later("planrunner.plugins.hooks:Hooks")
    interrupts = Later("planrunner.capabilities.faults:interrupts")
    Catalogue = Later("planrunner.plugins.catalogue:Catalogue")
    Observers = Later("planrunner.plugins.observers:Observers")
    Loading = Later("planrunner.plugins.reports:Loading")
    one_line = Later("planrunner.plugins.reports:one_line")
    rules_of = Later("planrunner.plugins.rules:rules_of")

_REGISTER = "planrunner_register_capabilities"


if TYPE_CHECKING:
    _Mapping = Mapping[str, Capability]
else:
    from _collections_abc import Mapping as _Mapping


class Registry(_Mapping):
    """Finds capabilities and their functions. As a mapping it goes from names to descriptions; iterating loads all.

    ``plugins`` False leaves the built-ins alone; ``PLANRUNNER_LOAD_PLUGINS`` (names of distributions, parted by commas)
    limits which plugins are looked at; one that cannot be loaded is left out and named in ``problems``. ``project`` is
    the directory whose own plugins count, None that of the working directory. Without ``keeps`` no cache is written.
    """

    def __init__(self, plugins: bool = True, project: str | None = None, keeps: bool = True) -> None:
        self._keeps = keeps
        self._plugins = plugins and not plugins_disabled()
        self.project = project
        self._index: tuple[Installed, ...] | None = None
        self._files: tuple[ProjectFile, ...] | None = None
        self._loaded: set[Installed | ProjectFile] = set()
        self._faults: dict[str, str] = {}
        self._books: Catalogue | None = None
        self._opened: set[str] = set()
        self._hooks: Hooks | None = None
        self._observers: Observers | None = None
        self._rules: tuple[tuple[Rule, Check], ...] | None = None

    # Looking up

    def find(self, name: str) -> Capability | None:
        """The description of a capability, or None where nothing installed has the name."""
        if name in builtin.TARGETS:
            return description_of(name)
        known = self._look_up(name)
        if known is None:
            return None
        if known.description is None:
            known = self._catalogue.described(name, known)
        return known.description

    def resolve(self, name: str) -> Callable[..., Any]:
        """The function of a capability. Raises KeyError for an unknown name, and ImportError where the plugin that has
        it is left out; an import may raise whatever it does."""
        target: Callable[..., Any] | str | None = builtin.TARGETS.get(name)
        if target is None:
            known = self._look_up(name)
            if known is None:
                why = self.missing(name)
                raise ImportError(why) if why else KeyError(name)
            target = known.target
        elif name in builtin.SEAMS and name not in self._opened:
            self._opened.add(name)
            if self._load_general():
                hook, register = builtin.SEAMS[name]
                self.hooks().call(hook, register=builtin.load(register))
        return builtin.load(target) if isinstance(target, str) else target

    def built_in(self) -> tuple[str, ...]:
        """The capabilities that come with planrunner; loads nothing."""
        return tuple(builtin.TARGETS)

    def names(self) -> tuple[str, ...]:
        """Every capability there is; loads every plugin."""
        for entry in self.installed():
            self._load(entry)
        for file in self.files():
            self._load_file(file)
        return tuple(sorted({*builtin.TARGETS, *self._catalogue.known}))

    def described(self) -> tuple[str, ...]:
        """Every capability whose function can be described; the others are left out and named in ``problems``."""
        self.names()
        self._catalogue.describe_all()
        return self.names()

    def __getitem__(self, name: str) -> Capability:
        description = self.find(name)
        if description is None:
            raise KeyError(name)
        return description

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def __len__(self) -> int:
        return len(self.names())

    def installed(self) -> tuple[Installed, ...]:
        """The entry points of the plugins that may be loaded."""
        if self._index is None:
            every = installed(self._keeps) if self._plugins else ()
            self._index = tuple(entry for entry in every if _is_allowed(entry.plugin))
        return self._index

    def files(self) -> tuple[ProjectFile, ...]:
        """The plugins that are files of the project, trusted or not."""
        if self._files is None:
            self._files = _allowed_files(self.project or find_project(None)) if self._plugins else ()
        return self._files

    def fingerprint(self) -> tuple[str, ...]:
        """What lint of a plan depends on: everything that may be loaded."""
        return (*map(str, self.installed()), *(f"{file.name} {file.trust} {file.text!r}" for file in self.files()))

    def problems(self, plugin: str | None = None) -> tuple[str, ...]:
        """What went wrong with a plugin, or with all of them so far, a sentence each."""
        return () if self._books is None else self._books.problems.of(plugin)

    def registered(self, plugin: str) -> tuple[str, ...]:
        """The capabilities that a plugin has registered so far."""
        return tuple(sorted(name for name, known in self._catalogue.known.items() if known.plugin == plugin))

    def hooks_of(self, plugin: str) -> tuple[str, ...]:
        """The hooks that a loaded plugin has, that for capabilities left out."""
        return self._hooks.of(plugin) if self._hooks is not None else ()

    def missing(self, name: str) -> str:
        """Why a capability that a plugin might have is missing; empty where no plugin might have it."""
        family = name.partition(".")[0]
        for file in self.files():
            if file.refusal() and family in file.scan().families():
                return file.refusal()
        why = "" if self._books is None else self._books.left_out.get(name)
        return why or self._faults.get(family, "")

    @property
    def aside(self) -> str:
        """What was not looked at although it might have a capability, in words; empty where everything was."""
        return "" if self._plugins or not plugins_disabled() else "plugins are left out by `--no-plugins`"

    # The other hooks

    def rules(self) -> tuple[tuple[Rule, Check], ...]:
        """The lint rules of plugins, each with its check."""
        if self._rules is None:
            self._rules = ()
            if self._load_general():
                self._rules = rules_of(self.hooks(), self._catalogue.problems)
        return self._rules

    def observer(self) -> Observers | None:
        """What to call with each durable event of a run (run id, entry), or None where no plugin watches."""
        if self._observers is None and self._load_general():
            observers = self.hooks().observers()
            if observers:
                self._observers = Observers(observers, self._catalogue.problems.add)
        return self._observers

    @property
    def _catalogue(self) -> Catalogue:
        if self._books is None:
            self._books = Catalogue()
        return self._books

    def hooks(self) -> Hooks:
        """The hooks with the built-ins registered on them; the first call imports pluggy."""
        if self._hooks is None:
            self._hooks = Hooks(self._catalogue.problems)
            self._hooks.add(builtin, "planrunner")
        return self._hooks

    def add(self, plugin: object, name: str, family: str = "") -> None:
        """Register a plugin that is at hand, as a test or an embedding program has it."""
        self._rules = self._observers = None
        if not self.hooks().add(plugin, name):
            return
        if hasattr(plugin, _REGISTER):
            self.hooks().call(_REGISTER, only=plugin, register=self._catalogue.registrar(name, family))
        else:
            self._catalogue.take_marked(plugin, name, family)

    # Loading

    def _look_up(self, name: str) -> Known | None:
        if name not in self._catalogue.known:
            family = name.partition(".")[0]
            for entry in self.installed():
                if entry.group == CAPABILITIES and entry.name == family:
                    self._load(entry)
            for file in self.files():
                if not file.refusal() and family in file.scan().families():
                    self._load_file(file)
        if name not in self._catalogue.known:
            self._load_general()
        return self._catalogue.known.get(name)

    def _load_general(self) -> bool:
        """Load the plugins that are not a capability family; whether any have hooks to call."""
        for entry in self.installed():
            if entry.group == PLUGINS:
                self._load(entry)
        for file in self.files():
            if file.has_hooks():
                self._load_file(file)
        return self._hooks is not None

    def _load(self, entry: Installed) -> None:
        if entry in self._loaded:
            return
        self._loaded.add(entry)
        family = entry.name if entry.group == CAPABILITIES else ""
        if fault := self._take(entry.plugin, f"`{entry.target}`", lambda: imported(entry.target), family):
            self._faults[family] = fault

    def _load_file(self, file: ProjectFile) -> None:
        if file in self._loaded:
            return
        self._loaded.add(file)
        if refusal := file.refusal():
            self._catalogue.problems.add(file.name, f"a plugin of the project is left out: {refusal}")
            return
        if fault := self._take(file.name, f"`{file.name}`", lambda: load(file), "", f"`{file.command('untrust')}`"):
            self._faults |= dict.fromkeys(file.scan().families(), fault)

    @plugin_code()
    def _take(self, name: str, what: str, load: Callable[[], object], family: str, without: str = "") -> str:
        """Load a plugin and register what it has; why it is left out where that raises, which stops nothing.
        ``without`` is for ``Loading``."""
        if is_own_process():
            keep_streams()
        try:
            with Loading(name, what, without):
                plugin = load()
                version = getattr(plugin, "API", None)
                if isinstance(version, int) and version not in SUPPORTED:
                    known = " and ".join(map(str, SUPPORTED))
                    raise ValueError(
                        f"it is written for version {version} of planrunner.api, this planrunner has {known}"
                    )
            has_hooks = any(name.startswith("planrunner_") for name in vars(plugin))
            if not hasattr(plugin, _REGISTER) and (family or not has_hooks):
                self._catalogue.take_marked(plugin, name, family)  # needs no hook, so pluggy stays out
            else:
                self.add(plugin, name, family)
        except BaseException as error:
            if interrupts(error):
                raise
            fault = f"the plugin {name} is left out: {one_line(error)}"
            self._catalogue.problems.add(name, fault)
            return fault
        return ""


def imported(target: str) -> object:
    """What ``module`` or ``module:attribute`` names. Raises whatever the import does."""
    module, _, attribute = target.partition(":")
    value: object = __import__(module, fromlist=["*"])
    for part in filter(None, attribute.split(".")):
        value = getattr(value, part)
    return value


_MOST = 8 << 20
"""Bytes of the project's file that are looked at: it may have no more."""


def has_files(project: str) -> bool:
    """Whether a project may have plugins of its own: two questions to the file system."""
    if os.path.isdir(os.path.join(project, ".planrunner", "plugins")):
        return True
    try:
        text = read_regular(os.path.join(project, "planrunner.yaml"), _MOST)
        return b"plugins" in text or b"include" in text
    except OSError:
        return False


def _allowed_files(project: str) -> tuple[ProjectFile, ...]:
    if not has_files(project):
        return ()
    return tuple(file for file in project_files(project) if _is_allowed(file.name))


def _is_allowed(plugin: str) -> bool:
    allowed = os.environ.get("PLANRUNNER_LOAD_PLUGINS")
    return allowed is None or plugin in {name.strip() for name in allowed.split(",")}
