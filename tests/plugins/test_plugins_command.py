"""``planrunner plugins``: what there is, what is wrong with it, and a new one whose tests pass at once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import commands
import pytest
from workbench import ROOT

GOOD = """
from typing import Annotated
from planrunner.api import Doc, capability

API = 1

@capability("stocks.price", effect="read")
def price(name: Annotated[str, Doc("name of the share")]) -> float:
    "Price of a share."
    return 1.5

@capability("stocks.buy")
def buy(name: str) -> None:
    pass
"""

Command = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def site(tmp_path: Path) -> Callable[[str, str], None]:
    """Installs a distribution of one module, with its family as the name."""

    def install(family: str, source: str) -> None:
        about = tmp_path / "site-packages" / f"planrunner_{family}-2.1.dist-info"
        about.mkdir(parents=True)
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: planrunner-{family}\nVersion: 2.1\n")
        (about / "entry_points.txt").write_text(f"[planrunner.capabilities]\n{family} = planrunner_{family}\n")
        (tmp_path / "site-packages" / f"planrunner_{family}.py").write_text(source)

    return install


@pytest.fixture
def command(tmp_path: Path) -> Command:
    work = tmp_path / "work"
    work.mkdir()

    def run(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
        path = os.pathsep.join([str(ROOT), str(tmp_path / "site-packages")])
        given = {"PYTHONPATH": path, "XDG_CACHE_HOME": str(tmp_path / "c"), "XDG_DATA_HOME": str(tmp_path / "d"), **env}
        process = commands.start(*words, folder=work, env={**os.environ, **given})
        out, err = process.communicate(240)
        return subprocess.CompletedProcess(words, process.wait(), out, err)

    return run


class TestList:
    def test_name_version_families_and_state_are_listed_and_broken_ones_named_once(
        self, site, command: Command
    ) -> None:
        site("stocks", GOOD)
        site("broken", "raise SystemExit('at import')")
        done = command("plugins")
        rows = {line.split()[0]: " ".join(line.split()) for line in done.stdout.splitlines()}
        assert rows["planrunner-stocks"] == "planrunner-stocks 2.1 stocks ready: 2 capabilities"
        assert rows["planrunner-broken"] == "planrunner-broken 2.1 broken left out"
        assert done.stdout.count("the plugin planrunner-broken is left out: SystemExit: at import") == 1
        assert done.stderr == ""
        found = json.loads(command("plugins", "list", "--json").stdout)["plugins"]
        one = next(each for each in found if each["name"] == "planrunner-stocks")
        assert one["capabilities"] == ["stocks.buy", "stocks.price"]
        assert one["problems"] == []

    def test_a_plugin_is_shown_by_its_name_or_a_family_and_a_wrong_name_gets_the_nearest(
        self, site, command: Command
    ) -> None:
        site("stocks", GOOD)
        for name in ("stocks", "planrunner-stocks"):
            assert "stocks.price" in command("plugins", "show", name).stdout
        wrong = command("plugins", "show", "stoks")
        assert wrong.returncode == 3
        assert "did you mean `stocks`?" in wrong.stderr

    def test_a_plugin_for_another_version_of_the_interface_is_left_out(self, site, command: Command) -> None:
        site("stocks", GOOD.replace("API = 1", "API = 7"))
        assert "it is written for version 7 of planrunner.api, this planrunner has 1" in command("plugins").stdout

    def test_check_judges_what_capabilities_say_of_themselves(self, site, command: Command) -> None:
        site("stocks", GOOD)
        done = command("plugins", "check", "stocks")
        assert done.returncode == 1
        buy, price = (line for line in done.stdout.splitlines() if line.startswith("stocks."))
        assert price == "stocks.price: the output `value` has no text: annotate it with Doc(…)"
        for part in ("no `preview`", "irreversible=True", "no docstring", "the input `name` has no text"):
            assert part in buy

    def test_check_judges_the_functions_as_well(self, site, command: Command) -> None:
        site("stocks", GOOD.replace("(name: str)", "(name: bytes)"))
        done = command("plugins", "check", "stocks")
        assert done.returncode == 1
        assert "stocks.buy: " in done.stdout
        assert "the input `name` has the type `bytes`, which JSON has no form for" in done.stdout

    def test_a_command_that_needs_a_broken_plugin_warns_and_goes_on(
        self, site, command: Command, tmp_path: Path
    ) -> None:
        site("broken", "import no_such_module")
        (tmp_path / "work" / "plan.yaml").write_text("plan: p\ntasks: [{id: a, uses: broken.verb, timeout: 1s}]\n")
        done = command("lint", "plan.yaml")
        assert done.returncode == 1
        assert "the plugin planrunner-broken is left out: ModuleNotFoundError" in done.stdout
        assert "warning: the plugin planrunner-broken is left out" in done.stderr
        quiet = command("--no-plugins", "lint", "plan.yaml")
        assert "planrunner-broken" not in quiet.stdout + quiet.stderr

    def test_loading_is_traced_on_request(self, site, command: Command) -> None:
        site("stocks", GOOD)
        traced = command("capabilities", "stocks.price", PLANRUNNER_TRACE_PLUGINS="1").stderr
        assert "plugins: `planrunner_stocks` of planrunner-stocks: " in traced
        assert traced.rstrip().endswith(" ms")
        assert command("capabilities", "stocks.price").stderr == ""

    def test_the_trace_names_a_plugin_that_ends_the_process_while_it_is_imported(self, site, command: Command) -> None:
        site("stocks", "import os\nos._exit(3)\n")
        done = command("capabilities", "stocks.price", PLANRUNNER_TRACE_PLUGINS="1")
        assert done.returncode == 3
        assert done.stderr.rstrip().endswith("plugins: `planrunner_stocks` of planrunner-stocks: begins")


BROKEN = """
from planrunner.api import capability

@capability("stocks.sell", effect="read")
def sell(name: str, x: "NoSuchType"):
    "Sell."

@capability("stocks.many", effect="read")
def many(*names: int):
    "Many."

@capability("stocks.place", effect="read")
def place(name: int, /):
    "By place."
"""


class TestLeftOut:
    """What planrunner has to leave out of a plugin is named, with its place."""

    SAID = (
        ("stocks.sell", 4, "the annotation 'NoSuchType' of the parameter `x` cannot be read"),
        ("stocks.many", 8, "the parameter `*names` of many cannot be given by name"),
        ("stocks.place", 12, "the parameter `name` of place cannot be given by name"),
    )

    def test_check_and_list_name_every_capability_that_is_left_out(
        self, site, command: Command, tmp_path: Path
    ) -> None:
        site("stocks", BROKEN)
        file = tmp_path / "site-packages" / "planrunner_stocks.py"
        for words, code in ((("check", "stocks"), 1), (("check",), 1), (("list",), 0), (("show", "stocks"), 0)):
            done = command("plugins", *words)
            assert done.returncode == code, words
            for name, line, why in self.SAID:
                assert f"problem: the capability `{name}` of planrunner-stocks is left out: {file}:{line}: {why}" in (
                    done.stdout
                ), words
            assert "sound" not in done.stdout
        assert "ready" not in command("plugins").stdout

    def test_what_is_sound_beside_it_still_counts(self, site, command: Command) -> None:
        site("stocks", GOOD + BROKEN)
        assert "ready: 2 capabilities" in command("plugins").stdout
        done = command("plugins", "check", "stocks", "--json")
        assert done.returncode == 1
        found = json.loads(done.stdout)
        assert len(found["problems"]) == 3
        assert found["capabilities"].keys() == {"stocks.price", "stocks.buy"}

    def test_lint_says_why_a_plan_cannot_use_one(self, site, command: Command, tmp_path: Path) -> None:
        site("stocks", GOOD + BROKEN)
        (tmp_path / "work" / "plan.yaml").write_text("plan: p\ntasks: [{id: a, uses: stocks.sell, timeout: 1s}]\n")
        done = command("lint", "plan.yaml")
        assert done.returncode == 1
        assert "the capability `stocks.sell` cannot be used" in done.stdout
        assert "NoSuchType" in done.stdout

    def test_of_two_packages_with_one_family_the_names_of_the_second_are_named(
        self, site, command: Command, tmp_path: Path
    ) -> None:
        site("stocks", GOOD)
        about = tmp_path / "site-packages" / "acme_stocks-3.0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-stocks\nVersion: 3.0\n")
        (about / "entry_points.txt").write_text("[planrunner.capabilities]\nstocks = acme_stocks\n")
        (tmp_path / "site-packages" / "acme_stocks.py").write_text(GOOD.replace("stocks.buy", "stocks.short"))
        listed = command("plugins")
        assert "the plugin planrunner-stocks: the capability `stocks.price` is left out, acme-stocks has one" in (
            listed.stdout
        )
        found = json.loads(command("plugins", "list", "--json").stdout)["plugins"]
        names = {each["name"]: each["capabilities"] for each in found}
        assert names["acme-stocks"] == ["stocks.price", "stocks.short"]
        assert names["planrunner-stocks"] == ["stocks.buy"]
        assert "acme-stocks has one of that name" in command("capabilities", "stocks.price").stderr


class TestNew:
    def test_a_new_plugin_passes_its_tests_at_once_and_its_plan_runs(self, command: Command, tmp_path: Path) -> None:
        done = command("plugins", "new", "lists")
        assert done.returncode == 0
        assert "pip install -e '.[test]'" in done.stdout
        root = tmp_path / "work" / "planrunner-lists"
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(root / "src")])}
        tests = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "planrunner.testing.pytest_plugin", "-p", "no:cacheprovider"],
            cwd=root, env=environment, capture_output=True, text=True, timeout=240,
        )  # fmt: skip
        assert tests.returncode == 0, tests.stdout + tests.stderr
        assert "36 passed" in tests.stdout
        (root / "planrunner.yaml").write_text("plugins: {files: [src/planrunner_lists.py]}\n")
        trusting = ("plugins", "trust", str(root / "src" / "planrunner_lists.py"), "--yes")
        assert command(*trusting).returncode == 0
        plan = str(root / "plans" / "lists.yaml")
        assert command("lint", plan).returncode == 0
        assert command("trust", str(root), "--yes").returncode == 0  # it is another project than that of the caller
        assert command("--state", str(tmp_path / "s"), "exec", plan).returncode == 0
        assert (root / "list.txt").read_text() == "milk\n"
        assert command("--state", str(tmp_path / "s"), "rollback", "last").returncode == 0
        assert not (root / "list.txt").exists(), "undone exactly"

    def test_every_file_is_there_and_nothing_is_overwritten(self, command: Command, tmp_path: Path) -> None:
        command("plugins", "new", "lists", "--into", str(tmp_path))
        root = tmp_path / "planrunner-lists"
        files = {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}
        assert files == {
            "pyproject.toml", "README.md", ".gitignore", "src/planrunner_lists.py", "tests/test_lists.py",
            "plans/lists.yaml", ".github/workflows/test.yml",
        }  # fmt: skip
        for path in files:
            assert "$" not in (root / path).read_text().replace("${{", "").replace("$PLANRUNNER_", ""), path
        (root / "README.md").write_text("mine")
        again = command("plugins", "new", "lists", "--into", str(tmp_path))
        assert again.returncode == 2
        assert "nothing is overwritten" in again.stderr
        assert (root / "README.md").read_text() == "mine"

    @pytest.mark.parametrize(
        ("name", "said"),
        [
            ("Weather-Station", "did you mean `weather_station`?"),
            ("planrunner-weather", "did you mean `weather`?"),
            ("9lives", "is not a valid family name"),
            ("../up", "did you mean `up`?"),
            ("shell", "belongs to planrunner itself"),
            ("file", "easily taken for the family `files`"),
            ("", "`` is not a valid family name"),
        ],
    )
    def test_a_name_that_will_not_do_is_refused_with_one_that_will(
        self, name: str, said: str, command: Command
    ) -> None:
        done = command("plugins", "new", name)
        assert done.returncode == 2
        assert said in done.stderr

    def test_an_action_that_there_is_not_gets_the_nearest(self, command: Command) -> None:
        done = command("plugins", "lits")
        assert done.returncode == 2
        assert "did you mean `list`?" in done.stderr
