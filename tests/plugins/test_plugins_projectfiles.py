"""Plugins that are single files of a project: executed only as their user has seen and trusted them."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import workbench
from workbench import ROOT

from planrunner.plugins import reports
from planrunner.plugins.registry import Registry
from planrunner.plugins.sources import scan
from planrunner.safety import trust

WEATHER = '''
"""Weather."""
from typing import Annotated
from planrunner.api import Doc, capability

open("EXECUTED", "w").close()

@capability("weather.now", effect="read", risks=("reaches the network",))
def now(city: Annotated[str, Doc("name of the city")]) -> str:
    """Current weather."""
    return f"sunny in {city}"
'''

PLAN = "plan: p\ntasks:\n  - {id: a, uses: weather.now, with: {city: Rome}, timeout: 2m}\n"

Command = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(autouse=True)
def _own_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "tools").mkdir(parents=True)
    (folder / "planrunner.yaml").write_text("plugins:\n  files: [tools/weather.py]\n")
    (folder / "tools" / "weather.py").write_text(WEATHER)
    (folder / "plan.yaml").write_text(PLAN)
    return folder


@pytest.fixture
def command(project: Path) -> Command:
    return partial(workbench.planrunner, project)


class TestTrust:
    def test_nothing_of_an_untrusted_file_is_executed_and_lint_names_the_way(
        self, project: Path, command: Command
    ) -> None:
        for words in (("lint", "plan.yaml"), ("exec", "plan.yaml"), ("plugins",), ("capabilities",)):
            done = command(*words)
            assert not (project / "EXECUTED").exists(), words
            assert "tools/weather.py" in done.stdout + done.stderr
        found = json.loads(command("lint", "--format", "json", "plan.yaml").stdout)
        assert "planrunner plugins trust tools/weather.py" in json.dumps(found)
        assert "PLAN007" in json.dumps(found)

    def test_trust_shows_what_would_be_registered_without_executing_it_and_asks(
        self, project: Path, command: Command
    ) -> None:
        done = command("plugins", "trust", "tools/weather.py")
        assert done.returncode == 2
        assert "cannot prompt for trust" in done.stderr
        assert "capability weather.now (effect read, risks=('reaches the network',))" in done.stdout
        assert "imports planrunner.api, typing" in done.stdout
        assert not (project / "EXECUTED").exists()
        assert trust.trust_state(str(project / "tools/weather.py"), WEATHER.encode()) == "untrusted"

    def test_nothing_hides_from_who_is_asked_to_trust(self, project: Path, command: Command) -> None:
        file = project / "tools" / "weather.py"
        command("plugins", "trust", "tools/weather.py", "--yes")
        hidden = "x = 1  # \u202e harmless\n@capability('weather.\x1b[2Kb')\ndef b(c='\x1b[8m'): ...\n"
        file.write_text(WEATHER + hidden)
        shown = command("plugins", "trust", "tools/weather.py", "--yes").stdout
        assert "\x1b" not in shown
        assert "\u202e" not in shown
        assert "\\u202e" in shown
        assert "\\033[2K" in shown
        assert "characters that do not show: U+202E in line 12, U+001B in line 13, U+001B in line 14" in shown

    def test_a_trusted_file_runs_until_it_changes_and_the_change_is_shown(
        self, project: Path, command: Command
    ) -> None:
        assert command("plugins", "trust", "tools/weather.py", "--yes").returncode == 0
        assert command("lint", "plan.yaml").returncode == 0
        done = command("exec", "plan.yaml", "--json")
        assert done.returncode == 0
        assert (project / "EXECUTED").exists()
        file = project / "tools" / "weather.py"
        file.write_text(WEATHER.replace("sunny", "rainy"))
        (project / "EXECUTED").unlink()
        again = command("exec", "plan.yaml")
        assert again.returncode == 5
        assert "has changed since it was trusted" in again.stderr
        assert not (project / "EXECUTED").exists()
        shown = command("plugins", "trust", "tools/weather.py", "--yes").stdout
        assert '-    return f"sunny in {city}"' in shown
        assert '+    return f"rainy in {city}"' in shown
        assert command("exec", "plan.yaml").returncode == 0
        assert command("plugins", "untrust", "tools/weather.py").returncode == 0
        assert command("exec", "plan.yaml").returncode == 5

    def test_a_run_that_goes_on_does_not_execute_what_has_changed_meanwhile(
        self, project: Path, command: Command
    ) -> None:
        (project / "plan.yaml").write_text(
            "plan: p\ntasks:\n  - {id: ask, gate: approval}\n  - {id: a, needs: [ask], uses: weather.now, with: {city: Rome}, timeout: 2m}\n"
        )
        command("plugins", "trust", "tools/weather.py", "--yes")
        assert command("exec", "plan.yaml").returncode == 8
        (project / "tools" / "weather.py").write_text(WEATHER.replace("sunny", "rainy"))
        (project / "EXECUTED").unlink()
        command("approve", "last", "ask")
        resumed = command("resume", "last")
        assert resumed.returncode == 5
        assert "has changed since it was trusted" in resumed.stderr
        assert not (project / "EXECUTED").exists()

    @pytest.mark.parametrize("loss", ["changed", "untrusted", "gone", "--no-plugins"])
    def test_a_run_does_not_go_on_without_a_plugin_it_needs_and_loses_nothing_by_that(
        self, project: Path, command: Command, loss: str
    ) -> None:
        (project / "plan.yaml").write_text(
            "plan: p\ntasks:\n  - {id: ask, gate: approval}\n"
            "  - {id: a, needs: [ask], uses: weather.now, with: {city: Rome}, timeout: 2m}\n"
        )
        tool = project / "tools" / "weather.py"
        command("plugins", "trust", "tools/weather.py", "--yes")
        assert command("exec", "plan.yaml").returncode == 8
        command("approve", "last", "ask")
        if loss == "changed":
            tool.write_text(WEATHER.replace("sunny", "rainy"))
        elif loss == "untrusted":
            command("plugins", "untrust", "tools/weather.py")
        elif loss == "gone":
            tool.unlink()
        before = json.loads(command("show", "last", "--json").stdout)
        resumed = command(*(["--no-plugins"] if loss == "--no-plugins" else []), "resume", "last")
        assert resumed.returncode == 5, resumed.stderr
        assert "error[PLAN007] the capability `weather.now` cannot be used" in resumed.stderr
        assert "plan.yaml:4:" in resumed.stderr
        now = json.loads(command("show", "last", "--json").stdout)
        assert now["status"] == before["status"]
        tool.write_text(WEATHER)
        command("plugins", "trust", "tools/weather.py", "--yes")
        assert command("resume", "last").returncode == 0

    def test_a_run_goes_on_without_a_plugin_that_it_needs_no_more(self, project: Path, command: Command) -> None:
        (project / "plan.yaml").write_text(
            "plan: p\ntasks:\n  - {id: a, uses: weather.now, with: {city: Rome}, timeout: 2m}\n"
            "  - {id: ask, needs: [a], gate: approval}\n"
        )
        command("plugins", "trust", "tools/weather.py", "--yes")
        assert command("exec", "plan.yaml").returncode == 8
        command("plugins", "untrust", "tools/weather.py")
        command("approve", "last", "ask")
        assert command("resume", "last").returncode == 0
        command("plugins", "untrust", "tools/weather.py")
        assert command("rerun", "last", "a").returncode == 5

    def test_trust_lies_outside_the_project_for_this_user_alone_and_others_cannot_forge_it(self, project: Path) -> None:
        path, text = str(project / "tools" / "weather.py"), WEATHER.encode()
        trust.trust(path, text)
        (record,) = Path(trust.trust_folder()).iterdir()
        assert record.stat().st_mode & 0o777 == 0o600
        assert not record.is_relative_to(project)
        assert trust.trust_state(path, text) == "trusted"
        record.chmod(0o666)
        assert trust.trust_state(path, text) == "untrusted", "anybody could have written it"
        record.chmod(0o600)
        Path(trust.trust_folder()).chmod(0o777)
        assert trust.trust_state(path, text) == "untrusted", "anybody could have put it there"
        Path(trust.trust_folder()).chmod(0o700)
        kept = json.loads(record.read_text())
        record.write_text(json.dumps({**kept, "text": "another"}))
        assert trust.trust_state(path, text) == "untrusted", "text and digest of a record belong together"
        record.write_text("{")
        assert trust.trust_state(path, text) == "untrusted"

    def test_the_same_text_at_another_place_is_not_trusted(self, project: Path, tmp_path: Path) -> None:
        trust.trust(str(project / "tools" / "weather.py"), WEATHER.encode())
        assert trust.trust_state(str(tmp_path / "weather.py"), WEATHER.encode()) == "untrusted"

    def test_what_was_hashed_is_what_is_executed_even_if_the_file_changes_in_between(self, project: Path) -> None:
        file = project / "tools" / "weather.py"
        trust.trust(str(file), WEATHER.encode())
        registry = Registry(project=str(project))
        assert [each.trust for each in registry.files()] == ["trusted"]
        file.write_text("raise SystemExit('another text')")
        os.chdir(project)
        try:
            assert registry.resolve("weather.now")(city="Rome") == "sunny in Rome"
        finally:
            os.chdir(ROOT)


UNTIL_TOLD = "import sys, time\nwhile not sys.stderr.getvalue(): time.sleep(0.01)\n"
"""An import that takes as long as it takes until somebody is told of it."""


class TestFinding:
    def test_an_import_that_takes_long_is_named_with_the_ways_around_it(
        self, project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (project / "tools" / "weather.py").write_text(f"{UNTIL_TOLD}{WEATHER}")
        path = str(project / "tools" / "weather.py")
        trust.trust(path, Path(path).read_bytes())
        monkeypatch.setattr(reports, "PATIENCE", 0.1)
        monkeypatch.chdir(project)
        assert Registry(project=str(project)).find("weather.now")
        told = capsys.readouterr().err
        assert "the plugin tools/weather.py has been loading for " in told
        assert "Ctrl-C stops it, and `planrunner --no-plugins …` does without plugins" in told
        assert "`planrunner plugins untrust tools/weather.py` permanently" in told

    def test_files_in_the_state_folder_count_as_well(self, project: Path) -> None:
        folder = project / ".planrunner" / "plugins"
        folder.mkdir(parents=True)
        (folder / "tags.py").write_text(
            WEATHER.replace("weather.", "tags.").replace('open("EXECUTED", "w").close()', "")
        )
        trust.trust(str(folder / "tags.py"), (folder / "tags.py").read_bytes())
        registry = Registry(project=str(project))
        assert [file.name for file in registry.files()] == [".planrunner/plugins/tags.py", "tools/weather.py"]
        assert registry.find("tags.now")
        assert registry.find("weather.now") is None
        assert "tools/weather.py" in registry.missing("weather.now")
        assert registry.missing("tags.later") == registry.missing("no.such") == ""

    def test_a_file_is_imported_only_for_a_family_it_has(self, project: Path, tmp_path: Path) -> None:
        file = project / "tools" / "weather.py"
        file.write_text(WEATHER.replace('open("EXECUTED", "w").close()', "raise RuntimeError('imported')"))
        trust.trust(str(file), file.read_bytes())
        registry = Registry(project=str(project))
        assert registry.find("other.verb") is None
        assert registry.problems() == ()
        assert registry.find("weather.now") is None
        assert registry.problems() == ("the plugin tools/weather.py is left out: RuntimeError: imported",)

    @pytest.mark.parametrize(
        "text", [b"def broken(:", b"\0", b"\xff\xfe", b"raise SystemExit(3)", b"import no_such_module_anywhere", b""]
    )
    def test_a_file_that_is_broken_breaks_nothing(self, project: Path, text: bytes) -> None:
        file = project / "tools" / "weather.py"
        file.write_bytes(text)
        trust.trust(str(file), text)
        registry = Registry(project=str(project))
        assert registry.find("weather.now") is None
        assert "noop" in registry.names()

    def test_why_a_file_is_left_out_is_told_where_a_plan_needs_it(self, project: Path, command: Command) -> None:
        path = project / "tools" / "weather.py"
        path.write_text(f"{WEATHER}\n1 / 0\n")
        trust.trust(str(path), path.read_bytes())
        done = command("exec", "plan.yaml")
        assert done.returncode == 5
        assert "the capability `weather.now` cannot be used" in done.stderr
        assert "the plugin tools/weather.py is left out: ZeroDivisionError: division by zero" in done.stderr

    def test_a_package_that_cannot_be_loaded_is_no_fault_of_a_file(
        self, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        about = tmp_path / "site" / "broken-1.0.dist-info"
        about.mkdir(parents=True)
        (about / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
        (about / "entry_points.txt").write_text("[planrunner.plugins]\nbroken = no_such_module\n")
        monkeypatch.syspath_prepend(str(tmp_path / "site"))
        monkeypatch.chdir(project)
        trust.trust(str(project / "tools/weather.py"), WEATHER.encode())
        registry = Registry()
        assert "weather.now" in registry.names()
        assert registry.problems("broken")
        assert registry.missing("weather.tomorrow") == ""

    def test_what_is_no_file_or_too_large_is_named_and_nothing_waits_for_it(self, project: Path) -> None:
        file = project / "tools" / "weather.py"
        file.unlink()
        os.mkfifo(file)
        assert [each.problem for each in Registry(project=str(project)).files()] == ["it is not a regular file"]
        file.unlink()
        file.mkdir()
        assert [each.problem for each in Registry(project=str(project)).files()] == ["it is not a regular file"]
        file.rmdir()
        with open(file, "wb") as made:
            made.truncate(2 << 20)
        assert [each.problem for each in Registry(project=str(project)).files()] == ["it is larger than 1 MiB"]

    def test_what_can_be_no_path_is_named(self, project: Path, command: Command) -> None:
        (project / "planrunner.yaml").write_text('plugins: {files: ["a\\0b.py"]}\n')
        assert [each.problem for each in Registry(project=str(project)).files()] == ["embedded null byte"]
        done = command("lint", "plan.yaml")
        assert (done.returncode, "internal error" in done.stderr) == (1, False)

    def test_a_missing_file_is_named(self, project: Path) -> None:
        (project / "tools" / "weather.py").unlink()
        registry = Registry(project=str(project))
        registry.names()
        assert registry.problems() == (
            "a plugin of the project is left out: `tools/weather.py` cannot be read: No such file or directory",
        )

    def test_it_takes_no_name_of_a_built_in(self, project: Path) -> None:
        text = WEATHER.replace("weather.now", "files.read").replace('open("EXECUTED", "w").close()', "")
        (project / "tools" / "weather.py").write_text(text)
        trust.trust(str(project / "tools" / "weather.py"), text.encode())
        registry = Registry(project=str(project))
        assert registry.resolve("files.read").__module__.startswith("planrunner.capabilities")
        registry.names()
        assert "planrunner has one of that name" in registry.problems()[0]

    def test_without_plugins_no_file_is_looked_at(self, project: Path, command: Command) -> None:
        done = command("--no-plugins", "lint", "plan.yaml")
        assert "unknown capability `weather.now`" in done.stdout
        assert "help: plugins are left out by `--no-plugins`; " in done.stdout
        assert "tools/weather.py" not in done.stdout + done.stderr

    def test_the_section_of_the_project_is_checked_with_its_place(self, project: Path, command: Command) -> None:
        for text, said in (
            ("plugins:\n  file: [a.py]\n", "did you mean `files`?"),
            ("plugins: {files: tools/weather.py}\n", "planrunner.yaml:1:18"),
        ):
            (project / "planrunner.yaml").write_text(text)
            done = command("lint", "plan.yaml")
            assert done.returncode == 1
            assert said in done.stdout

    @pytest.mark.parametrize("words", [("plugins",), ("plugins", "check"), ("plugins", "show", "weather")])
    def test_a_project_file_that_is_not_sound_is_told_instead_of_an_empty_list(
        self, project: Path, command: Command, words: tuple[str, ...]
    ) -> None:
        (project / "planrunner.yaml").write_text("plugins: nonsense\n")
        done = command(*words)
        assert done.returncode == 5
        assert "planrunner.yaml:1:10" in done.stderr
        assert done.stdout == ""

    def test_a_file_that_is_no_python_is_left_out_and_nobody_is_sent_to_trust_it(
        self, project: Path, command: Command
    ) -> None:
        (project / "tools" / "weather.py").write_text("def broken(:\n")
        (found,) = json.loads(command("plugins", "--json").stdout)["plugins"]
        assert found["state"] == "left out"
        assert found["problems"][0].endswith("cannot be read: it is not Python: SyntaxError in line 1")

    def test_trust_says_that_more_may_be_registered_than_it_names(self, project: Path, command: Command) -> None:
        text = "from planrunner.api import capability\n@capability('weather.' + 'now', effect='read')\ndef f(): 'x'\n"
        (project / "tools" / "weather.py").write_text(text)
        said = command("plugins", "trust", "tools/weather.py", "--yes").stdout
        assert "every statement outside its functions runs when it is loaded, and may register more" in said


class TestScanning:
    def test_names_effects_hooks_and_imports_are_read_without_executing(self) -> None:
        found = scan(WEATHER.encode() + b"\ndef planrunner_observe_event(entry): ...\n")
        (one,) = found.capabilities
        assert (one.name, one.effect, found.families()) == ("weather.now", "read", {"weather"})
        assert found.hooks == ("planrunner_observe_event",)
        assert found.imports == ("planrunner.api", "typing")

    @pytest.mark.parametrize(
        "text",
        ["-" * 99999 + "1", "(" * 99999, "a." * 99999 + "b", "@capability('a.b')\ndef f(x=" + "1+" * 900 + "1): ..."],
    )
    def test_a_text_that_goes_too_deep_is_no_trouble(self, text: str) -> None:
        assert scan(text.encode()).hooks == ()

    def test_names_that_are_computed_are_not_guessed(self) -> None:
        assert scan(b"@capability(NAME)\ndef f(): ...\n@capability('a.' + 'b')\ndef g(): ...").capabilities == ()


def test_a_fault_in_a_file_of_the_project_says_to_fix_that_file(command: Command, project: Path) -> None:
    text = WEATHER.replace('return f"sunny in {city}"', "return city / 0")
    (project / "tools" / "weather.py").write_text(text)
    assert command("plugins", "trust", "tools/weather.py", "--yes").returncode == 0
    told = command("exec", "plan.yaml").stderr
    line = text.splitlines().index("    return city / 0") + 1
    assert f"go on    fix tools/weather.py:{line}, then: planrunner retry " in told
