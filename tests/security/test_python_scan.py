"""What the scan finds in Python, what it leaves alone, and that any text whatever has an answer in bounded time."""

from __future__ import annotations

import ast
import random
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rows import rows
from workbench import ROOT

from planrunner.capabilities.python.scan import judge, worst
from planrunner.capabilities.python.verdicts import of_bandit, verdict
from planrunner.plan.python.rules import RULES
from planrunner.plan.python.scan import LARGEST, scan

DENIED = {
    "eval('1')": "eval",
    "e = eval\ne(args['x'])": "eval",
    "(lambda: exec(args['x']))()": "eval",
    "import builtins\nbuiltins.exec('x')": "introspect",
    "__import__('os')": "import",
    "import importlib\nimportlib.import_module('os')": "import",
    "from importlib import import_module as load\nload('os')": "import",
    "().__class__.__base__.__subclasses__()": "dunder",
    "getattr((), '__class__')": "dunder",
    "'{0.__class__.__mro__}'.format(1)": "dunder",
    "def f(): yield\nf().gi_frame.f_back": "dunder",
    "def f(): yield\ngetattr(f().gi_frame, 'f_back')": "dunder",
    "import operator\noperator.attrgetter('__globals__')(f)": "dunder",
    "import sys\nsys.modules['os'].system('id')": "introspect",
    "import sys\nsys._getframe(1)": "introspect",
    "globals()['__builtins__']": "introspect",
    "import ctypes": "native",
    "import pickle\npickle.loads(data)": "unpickle",
    "import yaml\nyaml.load(text)": "unpickle",
    "import os\nos.system('id')": "shell",
    "import os as o\nx = o\ny = x\ny.popen('id')": "shell",
    "from os import system as s\ns('id')": "shell",
    "import os\ngetattr(os, 'system')('id')": "shell",
    "import subprocess as sp\nsp.run('id', shell=True)": "shell",
    "import subprocess as sp\nsp.run('id', shell=args['s'])": "shell",
    "import shutil\nshutil.os.system('id')": "shell",
    "import os.path as p\np.os.system('id')": "shell",
    "from glob import os as o\no.popen('id')": "shell",
    "import linecache\nlinecache.os.system('id')": "shell",
    "import sqlite3\nsqlite3.connect('a').enable_load_extension(True)": "native",
    "import sqlite3\nsqlite3.connect('a').execute('SELECT load_extension(?)', (args['x'],))": "native",
    "x = 1  # \u202e": "hidden",
    "# -*- coding: utf-7 -*-\nx = 1": "hidden",
    "x = 1\n# vim: set fileencoding=latin-1 :": "hidden",
    "open('/tmp/x', 'w')": "write-outside",
    "from pathlib import Path\nPath('../x').write_text('a')": "write-outside",
    "def f(:": "unreadable",
    "\0": "unreadable",
    "x = '\ud800'": "unreadable",
}

ASKED = {
    "import subprocess\nsubprocess.run(['ls'])": "process",
    "import os\nos.fork()": "process",
    "import socket": "network",
    "from urllib import request": "network",
    "import urllib.request as u": "network",
    "open('/etc/passwd').read()": "read-outside",
    "import os\nos.path.expanduser('~/.ssh/id_rsa')": "read-outside",
    "import shutil\nshutil.rmtree('build')": "delete",
    "from pathlib import Path\nPath('a').unlink()": "delete",
    "import os\nos.environ['TOKEN']": "environ",
    "import linecache\nlinecache.getlines('/etc/passwd')": "read-outside",
    "import glob\nf(glob.os)": "dynamic",
    "getattr(x, 'sys' + 'tem')": "dynamic",
    "import os\n[os][0].system('x')": "dynamic",
    "import os\nf(os)": "dynamic",
    "from os import *": "dynamic",
    "import os\nos.__dict__['system']": "dynamic",
    "import pip": "install",
    "import sys\nsys.path.insert(0, 'x')": "install",
    "import os\nos.kill(1, 9)": "system",
}

ALLOWED = (
    "",
    "result = {'n': args['n'] + 1}",
    "import json, re, math, datetime\nresult = re.compile('a').findall(json.dumps(args))",
    "class A:\n    def __init__(self): self.x = 1\n    def __repr__(self): return self.__class__.__name__",
    "if __name__ == '__main__':\n    print(__file__, __doc__)",
    "open('out.txt', 'w').write('x')",
    "from pathlib import Path\nresult = Path('data/in.csv').read_text().splitlines()",
    "import os\nresult = os.path.join('a', 'b') + os.sep + os.getcwd()",
    "import importlib.metadata\nresult = importlib.metadata.version('x')",
    "import yaml\nresult = yaml.safe_load(args['text'])",
    "text = 'a/b ../c'\nresult = text.replace('..', '').strip('/')",
    "def compile_all(evaluate): return evaluate(1)\ncode = site = signal = 1\nresult = code + site",
    "from .os import system\nfrom . import socket",
    "model.eval()\ntable.query('a > 1')\ndf.eval('a + b')",
)


@rows("text", DENIED)
def test_what_leads_out_of_python_is_denied(text: str) -> None:
    found = judge(text, [])
    assert worst(found) == "deny"
    assert DENIED[text] in {each.rule for each in found if each.verdict == "deny"}


@rows("text", ASKED)
def test_what_reaches_beyond_the_process_is_asked_about(text: str) -> None:
    found = judge(text, [])
    assert worst(found) == "ask", found
    assert ASKED[text] in {each.rule for each in found}


@rows("text", ALLOWED)
def test_ordinary_python_passes(text: str) -> None:
    assert worst(judge(text, [])) == "allow", judge(text, [])


def test_a_finding_names_its_place() -> None:
    text = "x = 1\n\nif x:\n    é = [eval(args['n'])]\n"
    (found,) = scan(text)
    assert (found.line, found.column, found.snippet) == (4, 10, "é = [eval(args['n'])]")
    assert text[found.start :].startswith("eval(") and found.sure


def test_a_hundred_harmless_findings_hide_no_denied_one() -> None:
    text = "import socket\n" * 3000 + "eval('1')"
    assert worst(judge(text, [])) == "deny"
    assert judge(text, [])[0].rule == "eval"


class TestThePolicy:
    def test_the_operator_may_let_pass_and_a_plan_may_only_narrow(self) -> None:
        said = {"allow": ["scan.net*"], "ask": "eval", "deny": ["write"]}
        own, plan = ("planrunner.yaml", said, True), ("the plan", said, False)
        assert verdict("network", "ask", [own]) == ("allow", "planrunner.yaml")
        assert verdict("eval", "deny", [own]) == ("ask", "planrunner.yaml")
        assert verdict("write", "allow", [own]) == ("deny", "planrunner.yaml")
        assert verdict("network", "ask", [plan]) == ("ask", "")
        assert verdict("eval", "deny", [plan]) == ("deny", "")
        assert verdict("write", "allow", [plan]) == ("deny", "the plan")
        assert verdict("process", "ask", [own, plan]) == ("ask", "")

    def test_of_several_levels_the_strictest_counts(self) -> None:
        user, project = ("/etc/x", {"deny": ["network"]}, True), ("planrunner.yaml", {"allow": ["*"]}, True)
        for levels in ([user, project], [project, user]):
            assert verdict("network", "ask", levels) == ("deny", "/etc/x")
            assert verdict("eval", "deny", levels) == ("allow", "planrunner.yaml")
        task = ("task a", {"ask": ["eval"]}, False)
        assert verdict("eval", "deny", [task]) == ("deny", "")
        assert verdict("write", "allow", [project, task]) == ("allow", "planrunner.yaml")
        assert verdict("eval", "deny", [project, task]) == ("ask", "task a")

    def test_what_is_denied_beats_what_is_asked_and_let_pass_in_one_section(self) -> None:
        section = {"allow": ["*"], "ask": ["B6*"], "deny": ["B602"]}
        own = ("planrunner.yaml", section, True)
        assert [verdict(rule, "ask", [own])[0] for rule in ("B602", "B603", "B101")] == ["deny", "ask", "allow"]

    @pytest.mark.parametrize("section", [None, [], "x", {"deny": None}, {"deny": [None, 3, {}]}, {"allow": {}}])
    def test_a_section_of_another_shape_changes_nothing(self, section: object) -> None:
        assert verdict("eval", "deny", [("x", section, True)]) == ("deny", "")

    @pytest.mark.parametrize(
        "text", ["", "x", "[]", "{}", '{"errors": [], "results": [{}]}', '{"errors": [{}], "results": []}']
    )
    def test_what_is_no_report_of_bandit_is_none(self, text: str) -> None:
        assert of_bandit(text, []) is None


DEEP = {
    "minus": ("-", "1", ""),
    "not": ("not ", "1", ""),
    "parentheses": ("(", "", ")"),
    "open": ("(", "", ""),
    "mixed": ("({[", "", ""),
    "plus": ("1+", "1", ""),
    "power": ("2**", "2", ""),
    "attributes": ("a.", "a", ""),
    "calls": ("f(", "", ")"),
    "lambda": ("lambda:", "1", ""),
    "conditions": ("a if b else ", "c", ""),
    "elif": ("if a:\n pass\nel", "if a: pass", ""),
    "assignments": ("a=", "1", ""),
    "texts": ("'a' ", "'b'", ""),
    "comparisons": ("a<", "a", ""),
    "f-strings": ('f"{', "1", '}"'),
    "decorators": ("@a\n", "def f(): pass", ""),
    "lines": ("x = x.y\n", "import x", ""),
    "names": ("import x\nx = x.y\n", "x", ""),
    "hidden": ("\u202e", "", ""),
    "newlines": ("\r", "", ""),
    "strings": ("'__class__'\n", "", ""),
    "digits": ("9", "", ""),
    "backslashes": ("\\\n", "1", ""),
    "match": ("match a:\n case [", "", "]: pass"),
}


@rows("count", [90, 1500, 30_000])
@rows("shape", DEEP)
def test_any_depth_has_an_answer(shape: str, count: int) -> None:
    before, middle, after = DEEP[shape]
    text = (before * count + middle + after * count)[:LARGEST]
    found = judge(text, [])
    assert all(each.rule in RULES for each in found)
    try:
        ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        assert worst(found) == "deny"


def test_what_is_too_large_is_not_looked_at() -> None:
    (found,) = scan("x" * (LARGEST + 1))
    assert found.rule == "unreadable" and "256 KiB" in found.what


@given(st.text(max_size=400))
@settings(max_examples=400, deadline=None)
def test_any_text_has_an_answer(text: str) -> None:
    found = scan(text)
    assert all(each.rule in RULES and 0 <= each.start <= len(text) and each.line >= 1 for each in found)


def test_mutated_programs_have_an_answer() -> None:
    """Programs of our own with pieces swapped, cut and put in: most are nearly Python."""
    rng = random.Random(7)
    programs = [path.read_text() for path in sorted((ROOT / "planrunner" / "capabilities" / "files").glob("*.py"))]
    pieces = [*DENIED, *ASKED, "(", "[", "{", '"""', "f'{", "\\", "\n\n", "\t", "lambda:", "async ", "\x0c", "\ufeff"]
    for _ in range(300):
        text = rng.choice(programs)[: rng.randint(200, 6000)]
        for _ in range(rng.randint(1, 6)):
            at, end = rng.randrange(len(text) + 1), rng.randrange(len(text) + 1)
            text = text[:at] + rng.choice([rng.choice(pieces), text[min(at, end) : max(at, end)][:500]]) + text[at:]
        assert all(each.rule in RULES for each in scan(text))


def test_the_parser_says_nothing_on_standard_error(tmp_path: Path) -> None:
    code = "from planrunner.plan.python.scan import scan; scan(r\"x = '\\d' is 'a'\"); scan('1 is 1')"
    done = subprocess.run(
        [sys.executable, "-W", "always", "-c", code], capture_output=True, text=True, cwd=ROOT, check=True
    )
    assert done.stderr == ""
