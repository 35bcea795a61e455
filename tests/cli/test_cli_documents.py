"""Pages and tables that are printed from the commands are what the commands say today."""

from __future__ import annotations

import re

from rows import rows
from workbench import ROOT

from planrunner import errors
from planrunner.cli import reference
from planrunner.cli.group import load
from planrunner.cli.guard import PIPE_CLOSED, UNWRITTEN
from planrunner.cli.table import COMMANDS, GROUPS


def test_the_reference_of_the_command_line_is_printed_from_the_commands():
    assert (ROOT / "docs/reference/cli.md").read_text(encoding="utf-8") == reference.page()


def test_every_exit_code_is_documented_and_no_other():
    page = (ROOT / "docs/reference/exit-codes.md").read_text(encoding="utf-8")
    documented = {int(code) for code in re.findall(r"^\| (\d+) \|", page, re.MULTILINE)}
    declared = {value for name, value in vars(errors).items() if name.isupper() and isinstance(value, int)}
    assert documented == declared | {PIPE_CLOSED, UNWRITTEN}


@rows("name", [name for name, *_ in COMMANDS])
def test_every_command_of_the_table_is_declared_with_examples_or_is_plain(name):
    command = load(name)
    assert command is not None
    assert command.name == name
    assert command.help
    assert all(param.help for param in command.params if param.param_type_name == "option")


def test_every_command_belongs_to_a_group_and_stands_in_the_help(run):
    assert {group for *_, group in COMMANDS} == {group for group, _ in GROUPS}
    text = run("--help").out
    assert all(re.search(rf"^  {name} ", text, re.MULTILINE) for name, *_ in COMMANDS)


@rows("module", sorted({module for _, module, *_ in COMMANDS}))
def test_command_modules_are_thin(module):
    """What a command does stands below it; what is shared by commands keeps to the bounds of the architecture."""
    path = ROOT / f"planrunner/cli/{module}.py"
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 320
