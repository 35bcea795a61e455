"""Tests as evidence: real pytest with hypothesis, and reports of other programs."""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest as real_pytest
from workbench import ROOT

from planrunner.capabilities.contract import Call, Context, Failure
from planrunner.capabilities.validate.tests import Case, NoReport, example, junit, pytest, read_cases
from planrunner.plan.model import Task

PLUGIN = "planrunner.testing.pytest_plugin"


class Log:
    def __init__(self) -> None:
        self.data = b""

    def write(self, data: bytes, stream: str = "stdout") -> None:
        self.data += data

    def beat(self) -> None: ...
    def spend(self, amounts: Any) -> None: ...


def context(directory: Path, stop: Any = lambda: False, **env: str) -> Context:
    call = Call("r", Task("t"), 1, "k", {}, "", (), {}, env, str(directory), str(directory / "scratch"), None)
    return Context(call, Log(), stop)


TESTS = """
import pytest
from hypothesis import given, strategies as st

@given(st.integers(), st.text(max_size=2))
def test_small(a, b):
    assert a < 100

def test_fine(): pass

def test_wrong():
    x = 1
    assert x == 2, "no & <good>"

@pytest.fixture
def broken():
    raise RuntimeError("no database")

def test_never(broken): pass

@pytest.mark.skip(reason="later")
def test_later(): pass

@pytest.mark.parametrize("v", [1, 2])
class TestMore:
    def test_value(self, v): assert v == 1
"""


@real_pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_shop.py").write_text(TESTS)
    return tmp_path


class TestPytest:
    def test_results_are_evidence_with_the_example_that_hypothesis_found(self, project: Path) -> None:
        found = pytest(context(project), "tests", seed=1, python=sys.executable, fail=False)
        assert (found.tool, found.ok, found.truncated) == ("pytest", False, False)
        assert found.version == real_pytest.__version__
        assert found.counts == {"total": 7, "passed": 2, "failed": 3, "errors": 1, "skipped": 1}
        failures = {each["name"].rpartition("test_shop.")[2]: each for each in found.failures}
        assert list(failures) == ["test_small", "test_wrong", "test_never", "TestMore.test_value[2]"]
        assert (failures["test_wrong"]["file"], failures["test_wrong"]["line"]) == ("tests/test_shop.py", 13)
        assert failures["test_wrong"]["message"] == "AssertionError: no & <good>\nassert 1 == 2"
        assert failures["test_small"]["example"].startswith("test_small(\n    a=100,\n    b=''")
        assert failures["test_never"]["message"] == 'failed on setup with "RuntimeError: no database"'
        assert found.findings[1]["severity"] == "error"
        assert found.duration > 0

    def test_nothing_is_left_in_the_tree(self, project: Path) -> None:
        pytest(context(project), keyword="fine", python=sys.executable)
        assert {path.name for path in project.rglob("*")} == {"pytest.ini", "tests", "test_shop.py"}

    def test_a_failing_test_fails_the_task_with_the_evidence(self, project: Path) -> None:
        with real_pytest.raises(Failure) as failed:
            pytest(context(project), ["tests/test_shop.py::test_wrong"], python=sys.executable)
        assert failed.value.failure == "tests"
        assert str(failed.value) == "1 of 1 tests failed: tests.test_shop.test_wrong"
        assert failed.value.outputs["counts"]["failed"] == 1

    def test_a_choice_of_tests_and_its_bounds(self, project: Path) -> None:
        found = pytest(
            context(project), keyword="fine or value", max_failures=1, python=sys.executable, fail=False, max_findings=0
        )
        assert found.counts["total"] == 3
        assert (found.failures, found.truncated) == ([], True)

    def test_no_tests_or_a_wrong_choice_is_no_success(self, project: Path) -> None:
        with real_pytest.raises(Failure, match="no tests were found") as failed:
            pytest(context(project), keyword="nothing_is_named_so", python=sys.executable)
        assert failed.value.failure == "tests"
        with real_pytest.raises(Failure, match="pytest ended with 4") as failed:
            pytest(context(project), "tests/no_such_file.py", python=sys.executable)
        assert failed.value.failure == "logic"

    def test_a_file_that_cannot_be_imported_is_an_error(self, project: Path) -> None:
        (project / "tests" / "test_broken.py").write_text("import no_such_module\n")
        found = pytest(context(project), python=sys.executable, fail=False)
        assert found.counts["errors"] == 1
        assert "no_such_module" in found.failures[0]["text"]

    def test_an_option_in_place_of_a_path_is_refused(self, project: Path) -> None:
        with real_pytest.raises(Failure, match="--version is an option here") as refused:
            pytest(context(project), "--version", python=sys.executable)
        assert refused.value.failure == "policy"

    @real_pytest.mark.parametrize(("python", "there"), [("", False), (sys.executable, True)])
    def test_planrunners_own_plugin_stays_out_of_a_project_without_a_python(
        self, tmp_path: Path, python: str, there: bool
    ) -> None:
        (tmp_path / "pytest.ini").write_text("[pytest]\n")
        (tmp_path / "test_plugins.py").write_text(
            f"def test_plugins(pytestconfig):\n    assert pytestconfig.pluginmanager.hasplugin('{PLUGIN}') == {there}\n"
        )
        (tmp_path / "empty").mkdir()
        here = context(tmp_path, PATH=str(tmp_path / "empty"), PYTEST_PLUGINS=PLUGIN, PYTHONPATH=str(ROOT))
        assert pytest(here, python=python).counts["passed"] == 1

    def test_a_python_without_pytest_tells_what_to_install(self, tmp_path: Path) -> None:
        bare = tmp_path / "python"
        bare.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
        bare.chmod(0o755)
        with real_pytest.raises(Failure, match=f"pytest is not installed: {bare} -m pip install pytest"):
            pytest(context(tmp_path), python=str(bare))

    def test_a_stop_ends_the_tests(self, project: Path) -> None:
        (project / "tests" / "test_slow.py").write_text("import time\ndef test_slow(): time.sleep(600)\n")
        stop = threading.Event()
        threading.Timer(1.5, stop.set).start()
        began = time.monotonic()
        with real_pytest.raises(Failure, match="was stopped"):
            pytest(context(project, stop.is_set), "tests/test_slow.py", python=sys.executable)
        assert time.monotonic() - began < 240


REPORT = """<?xml version="1.0"?>
<testsuites><testsuite name="s">
<testcase name="a" classname="m.C" time="1,000.5"/>
<testcase name="b"><skipped message="not now"/></testcase>
<testcase name="c"><failure message="m &amp; n" type="T">text &lt;here&gt;</failure><system-out>x</system-out></testcase>
<testcase name="d"><failure message="first">f</failure><error message="then">e</error></testcase>
</testsuite></testsuites>"""


class TestReports:
    def test_every_test_has_a_result_and_what_it_said(self) -> None:
        assert read_cases(REPORT.encode()) == [
            Case("a", "passed", "m.C", seconds=1000.5),
            Case("b", "skipped", message="not now"),
            Case("c", "failed", message="m & n", text="text <here>"),
            Case("d", "error", message="then", text="e"),
        ]

    def test_reports_are_read_by_pattern_and_added_up(self, tmp_path: Path) -> None:
        for name in ("TEST-a.xml", "TEST-b.xml"):
            (tmp_path / "build").mkdir(exist_ok=True)
            (tmp_path / "build" / name).write_text(REPORT)
        found = junit(context(tmp_path), "build/**/TEST-*.xml", fail=False)
        assert found.counts == {"total": 8, "passed": 2, "failed": 2, "errors": 2, "skipped": 2}
        with real_pytest.raises(Failure, match="4 of 8 tests failed: c, d, c and 1 more") as failed:
            junit(context(tmp_path), ["build/TEST-a.xml", "build/TEST-b.xml"])
        assert failed.value.failure == "tests"

    @real_pytest.mark.parametrize(
        ("data", "message"),
        [
            ('<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]><testsuite><testcase name="&e;"/></testsuite>', "document type"),
            ('<!DOCTYPE l [<!ENTITY a "x"><!ENTITY b "&a;&a;&a;">]><testsuite>&b;</testsuite>', "document type"),
            ("<testsuite><testcase>", "is not a JUnit report: no element found"),
            ("{}", "is not a JUnit report"),
        ],
    )  # fmt: skip
    def test_what_is_no_plain_report_is_refused(self, tmp_path: Path, data: str, message: str) -> None:
        with real_pytest.raises(NoReport, match=message):
            read_cases(data.encode())
        (tmp_path / "r.xml").write_text(data)
        with real_pytest.raises(Failure, match=f"r.xml .*{message}"):
            junit(context(tmp_path), "r.xml")

    def test_reports_without_tests_and_missing_reports_are_no_success(self, tmp_path: Path) -> None:
        (tmp_path / "r.xml").write_text("<testsuite/>")
        with real_pytest.raises(Failure, match="the reports hold no tests"):
            junit(context(tmp_path), "r.xml")
        with real_pytest.raises(Failure, match="no file matches other"):
            junit(context(tmp_path), "other*.xml")

    @real_pytest.mark.parametrize(
        ("text", "wanted"),
        [
            ("E   Falsifying example: f(\nE       a=1,\nE   )\nmore", "f(\n    a=1,\n)"),
            ("x\nFalsifying example: f(a=1)\n", "f(a=1)"),
            ("    Failing test case: f(\n        a=')',\n    )", "f(\n    a=')',\n)"),
            ("AssertionError", ""),
        ],
    )
    def test_the_example_is_read_as_hypothesis_writes_it(self, text: str, wanted: str) -> None:
        assert example(Case("f", "failed", text=text)) == wanted
