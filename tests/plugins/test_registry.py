"""The registry: built-ins, families loaded when they are used, and plugins that are broken."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from planrunner.capabilities import builtin
from planrunner.capabilities.builtin import description_of
from planrunner.capabilities.contract import capability
from planrunner.diagnostics import Diagnostic, Rule
from planrunner.machine.events import Entry, TaskQueued
from planrunner.plan.load import load
from planrunner.plan.model import Capability
from planrunner.plugins.registry import Registry
from planrunner.plugins.sources import installed
from planrunner.source import Source


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Puts a distribution on sys.path: name, entry points by group, and modules with their source."""
    folder = tmp_path / "site-packages"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))

    def install(name: str, points: dict[str, dict[str, str]], **modules: str) -> Path:
        about = folder / f"{name.replace('-', '_')}-1.2.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.2\n")
        lines = [f"[{group}]\n" + "".join(f"{a} = {b}\n" for a, b in names.items()) for group, names in points.items()]
        (about / "entry_points.txt").write_text("\n".join(lines))
        for module, source in modules.items():
            (folder / f"{module}.py").write_text(textwrap.dedent(source))
            monkeypatch.delitem(sys.modules, module, raising=False)
        return folder

    return install


WEATHER = """
    from planrunner.capabilities.contract import capability

    @capability("weather.now", effect="read")
    def now(city: str) -> str:
        '''Current weather.'''
        return f"sunny in {city}"

    @capability("other.family")
    def other() -> None: ...
"""


class TestBuiltins:
    def test_they_are_found_and_resolved_by_name(self) -> None:
        registry = Registry(plugins=False)
        assert registry.find("noop") is description_of("noop")
        assert registry.resolve("noop")(value=3).value == 3
        assert registry.find("no.such") is None
        with pytest.raises(KeyError):
            registry.resolve("no.such")
        assert registry.names() == tuple(registry) == tuple(sorted(builtin.TARGETS))
        assert len(registry) == len(builtin.TARGETS)
        assert "shell" in registry
        assert "no.such" not in registry

    def test_they_register_through_the_hook_that_plugins_use(self) -> None:
        seen: dict[str, tuple[Any, Capability]] = {}

        def register(name: str, target: Any, description: Capability) -> None:
            seen[name] = (target, description)

        Registry(plugins=False).hooks().call("planrunner_register_capabilities", register=register)
        assert seen == {name: (target, description_of(name)) for name, target in builtin.TARGETS.items()}

    def test_finding_and_running_one_loads_neither_pluggy_nor_metadata_nor_its_neighbours(self, tmp_path: Path) -> None:
        program = (
            "import sys\n"
            "from planrunner.plugins.registry import Registry\n"
            "registry = Registry()\n"
            "registry.find('shell'); registry.find('no.such'); registry.resolve('shell')\n"
            "heavy = ('pluggy', 'importlib.metadata', 'planrunner.capabilities.files')\n"
            "print([name for name in heavy if name in sys.modules])\n"
        )
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PLANRUNNER_LOAD_PLUGINS": ""}
        for start in ("first", "second"):
            done = subprocess.run(
                [sys.executable, "-c", program],
                env=environment,
                capture_output=True,
                text=True,
                timeout=240,
                check=True,
            )
            assert done.stdout.strip() == "[]", f"at the {start} start nothing is installed that could be a plugin"


class TestFamilies:
    def test_a_module_with_marked_functions_is_a_plugin(self, site) -> None:
        site("planrunner-weather", {"planrunner.capabilities": {"weather": "weather_one"}}, weather_one=WEATHER)
        registry = Registry()
        found = registry.find("weather.now")
        assert found is not None
        assert (found.plugin, found.summary, found.effect) == ("planrunner-weather", "Current weather.", "read")
        assert registry.resolve("weather.now")(city="Rome") == "sunny in Rome"

    def test_only_the_family_that_is_used_is_imported(self, site) -> None:
        site(
            "two",
            {"planrunner.capabilities": {"weather": "weather_two", "stocks": "stocks_two"}},
            weather_two=WEATHER,
            stocks_two="raise RuntimeError('not asked for')",
        )
        registry = Registry()
        assert registry.find("weather.now")
        assert "stocks_two" not in sys.modules
        assert registry.problems() == (
            "the plugin two: the capability `other.family` is not of the family `weather` and is left out",
        )

    def test_a_broken_plugin_is_named_and_left_out(self, site) -> None:
        site(
            "broken",
            {
                "planrunner.capabilities": {
                    "stocks": "stocks_three",
                    "gone": "no_such_module",
                    "odd": "stocks_four:nothing",
                }
            },
            stocks_three="import no_such_dependency",
            stocks_four="",
        )
        registry = Registry()
        assert registry.find("stocks.price") is None
        assert registry.find("stocks.price") is None
        assert registry.problems() == (
            "the plugin broken is left out: ModuleNotFoundError: No module named 'no_such_dependency'",
        )
        assert registry.names() == tuple(sorted(builtin.TARGETS))
        assert len(registry.problems()) == 3

    def test_a_description_that_cannot_be_read_leaves_out_that_capability(self, site) -> None:
        source = """
            from planrunner.capabilities.contract import capability

            @capability("odd.one")
            def one(x: NoSuchName) -> None: ...

            @capability("odd.two")
            def two() -> None: ...
        """
        site(
            "odd",
            {"planrunner.capabilities": {"odd": "odd_one"}},
            odd_one=f"from __future__ import annotations\n{textwrap.dedent(source)}",
        )
        registry = Registry()
        assert registry.find("odd.one") is None
        assert registry.find("odd.two") is not None
        (problem,) = registry.problems()
        assert problem.startswith("the capability `odd.one` of odd is left out: ")
        assert problem.endswith(
            "odd_one.py:5: the annotation 'NoSuchName' of the parameter `x` cannot be read: "
            "name 'NoSuchName' is not defined"
        )

    def test_nobody_takes_the_name_of_a_built_in_or_of_another_plugin(self) -> None:
        @capability("shell")
        def mine() -> None: ...

        @capability("tags.list")
        def first() -> None: ...

        registry = Registry(plugins=False)
        registry.add(SimpleNamespace(mine=mine, first=first), "one")
        registry.add(SimpleNamespace(again=first), "two")
        assert registry.problems() == (
            "the plugin one: the capability `shell` is left out, planrunner has one of that name",
            "the plugin two: the capability `tags.list` is left out, one has one of that name",
        )
        assert registry.resolve("shell") is not mine

    def test_the_hook_registers_functions_and_places_to_import(self) -> None:
        described = Capability("lazy.one", "Lazy.")

        def planrunner_register_capabilities(register: Callable[..., None]) -> None:
            register("lazy.one", "planrunner.capabilities.core:noop", described)
            register("lazy.two", "planrunner.capabilities.core:noop")

        registry = Registry(plugins=False)
        plugin = SimpleNamespace(planrunner_register_capabilities=planrunner_register_capabilities)
        registry.add(plugin, "lazy")
        assert registry.find("lazy.one") is described
        assert registry.resolve("lazy.one")(value=1).value == 1
        assert registry.find("lazy.two") is None
        (problem,) = registry.problems()
        assert problem.startswith("the plugin lazy failed in `planrunner_register_capabilities`: ValueError: ")
        assert problem.endswith("`lazy.two` is named by a place to import and has no description")

    def test_a_list_of_plugins_limits_what_is_loaded(self, site, monkeypatch: pytest.MonkeyPatch) -> None:
        site("planrunner-weather", {"planrunner.capabilities": {"weather": "weather_five"}}, weather_five=WEATHER)
        monkeypatch.setenv("PLANRUNNER_LOAD_PLUGINS", "some-other, another")
        assert Registry().find("weather.now") is None
        monkeypatch.setenv("PLANRUNNER_LOAD_PLUGINS", "planrunner-weather")
        assert Registry().find("weather.now")
        assert Registry(plugins=False).find("weather.now") is None

    @pytest.mark.slow
    def test_an_import_that_does_not_end_is_named_while_it_goes_on(
        self, site, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr("planrunner.plugins.reports.PATIENCE", 0.1)
        until_told = "import sys, time\nwhile not sys.stderr.getvalue(): time.sleep(0.01)\n"
        site("slow", {"planrunner.capabilities": {"slow": "slow_one"}}, slow_one=until_told)
        assert Registry().find("slow.verb") is None
        said = capsys.readouterr().err
        assert said.startswith("the plugin slow has been loading for ")
        assert "`slow_one`" in said
        assert "--no-plugins" in said


class TestHooks:
    def test_an_unknown_hook_or_argument_leaves_the_plugin_out(self) -> None:
        registry = Registry(plugins=False)
        registry.add(SimpleNamespace(planrunner_no_such_hook=lambda: None), "strange")
        registry.add(SimpleNamespace(planrunner_observe_event=lambda run_id, colour: None), "colourful")
        assert len(registry.problems()) == 2
        assert registry.problems()[0] == "the plugin strange is left out: there is no hook `planrunner_no_such_hook`"
        assert registry.problems()[1] == (
            "the plugin colourful is left out: `planrunner_observe_event` takes an argument `colour`: "
            "it may take `run_id` and `entry`"
        )
        assert registry.observer() is None

    def test_what_is_no_plain_function_is_no_hook(self) -> None:
        async def late(entry: Any) -> None: ...

        def lazy(entry: Any) -> Any:
            yield

        for hook, said in ((3, "not int"), (late, "an `async def`"), (lazy, "a generator")):
            registry = Registry(plugins=False)
            registry.add(SimpleNamespace(planrunner_observe_event=hook), "odd")
            (problem,) = registry.problems()
            assert problem.startswith("the plugin odd is left out: `planrunner_observe_event` is a")
            assert said in problem
            assert registry.observer() is None
            assert registry.hooks_of("odd") == ()

    def test_a_hook_may_have_more_arguments_that_need_not_be_given(self) -> None:
        seen: list[Any] = []

        def watch(entry: Any, more: int = 3) -> None:
            seen.append((entry.seq, more))

        registry = Registry(plugins=False)
        registry.add(SimpleNamespace(planrunner_observe_event=watch), "more")
        observe = registry.observer()
        assert observe is not None
        observe("run", Entry(1, 0.0, TaskQueued("task")))
        observe.flush()
        assert seen == [(1, 3)]

    def test_without_observers_nothing_is_to_be_called(self, site) -> None:
        assert Registry(plugins=False).observer() is None

    def test_general_plugins_come_from_their_own_group(self, site) -> None:
        source = """
            from planrunner.capabilities.contract import capability

            seen = []

            def planrunner_observe_event(entry):
                seen.append(entry)

            @capability("extra.one")
            def one() -> None: ...
        """
        site("planrunner-watch", {"planrunner.plugins": {"watch": "watch_one"}}, watch_one=source)
        registry = Registry()
        observe = registry.observer()
        assert observe is not None
        observe("run", Entry(1, 0.0, TaskQueued("task")))
        observe.flush()
        assert len(sys.modules["watch_one"].seen) == 1
        assert registry.find("extra.one")

    def test_rules_are_registered_under_codes_of_their_own(self) -> None:
        def check(view: Any) -> list[Any]:
            return []

        def planrunner_register_rules(register: Callable[..., None]) -> None:
            register(Rule("TEAM001", "no-friday", "warning", "a release on a Friday"), check)
            register(Rule("PLAN001", "mine", "warning", "not yours"), check)

        registry = Registry(plugins=False)
        assert registry.rules() == ()
        registry.add(SimpleNamespace(planrunner_register_rules=planrunner_register_rules), "team")
        assert [rule.code for rule, _ in registry.rules()] == ["TEAM001"]
        assert "the code `PLAN001` is taken" in registry.problems()[0]

    def test_rules_of_plugins_find_things_in_plans_and_a_faulty_one_stops_nothing(self) -> None:
        def friday(view: Any) -> list[Any]:
            return [Diagnostic("TEAM002", "not on a Friday", view.plan.span)] if view.plan.id == "friday" else []

        def faulty(view: Any) -> list[Any]:
            raise RuntimeError("oops")

        def planrunner_register_rules(register: Callable[..., None]) -> None:
            register(Rule("TEAM002", "no-friday", "error", "a release on a Friday"), friday)
            register(Rule("TEAM003", "faulty", "error", "raises"), faulty)

        registry = Registry(plugins=False)
        registry.add(SimpleNamespace(planrunner_register_rules=planrunner_register_rules), "team")
        text = "plan: {}\ntasks:\n  - {{id: a, run: x, timeout: 1m}}\n"
        found = load(Source(text.format("friday")), registry)
        assert [finding.code for finding in found.findings] == ["TEAM002"]
        assert found.plan is None
        assert load(Source(text.format("monday")), registry).plan is not None
        assert "RuntimeError: oops" in registry.problems()[0]


class TestDiscovery:
    def test_the_cache_is_used_until_something_is_installed(self, site, tmp_path: Path) -> None:
        before = installed()
        folder = site(
            "planrunner-weather", {"planrunner.capabilities": {"weather": "weather_six"}}, weather_six=WEATHER
        )
        found = [entry for entry in installed() if entry not in before]
        assert [(entry.name, entry.target, entry.plugin, entry.version) for entry in found] == [
            ("weather", "weather_six", "planrunner-weather", "1.2")
        ]
        (folder / "planrunner_weather-1.2.dist-info/entry_points.txt").write_text("")
        assert found[0] in installed(), "a file changed in place is not seen: installers replace folders"
        os.utime(folder)
        assert found[0] not in installed()

    def test_a_cache_that_others_could_have_written_or_that_is_damaged_is_not_believed(self, tmp_path: Path) -> None:
        expected = installed()
        (file,) = (tmp_path / "cache" / "planrunner").iterdir()
        good = file.read_text()
        for text, mode in (
            (good + "\nplanrunner.plugins\tevil\tevil\tevil\t1", 0o666),
            ("", 0o600),
            (good + "\nx", 0o600),
        ):
            file.write_text(text)
            file.chmod(mode)
            assert installed() == expected
            assert file.stat().st_mode & 0o777 == 0o600
            assert file.read_text() == good

    def test_a_cache_folder_that_cannot_be_written_is_no_trouble(self, tmp_path: Path) -> None:
        (tmp_path / "cache").write_text("a file")
        assert installed() == installed()
