"""``validate.pytest`` and ``validate.junit``: tests as evidence, run here or read from reports."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from typing import Annotated, Any, NamedTuple, TypedDict
from xml.parsers import expat

from planrunner.capabilities.contract import Context, Doc, Failure, capability
from planrunner.capabilities.programs import Program, run
from planrunner.capabilities.validate.code import Tool, cache, find
from planrunner.capabilities.validate.evidence import Finding, Pattern, finding, found_files, headline, names, relative

LONGEST = 20_000
"""Characters of what a test said that are kept: the end of them."""


class NoReport(Exception):
    """The data is not a report of tests; the message says why."""


class Case(NamedTuple):
    """One test; ``result`` is passed, failed, error (it could not run to its end) or skipped. ``line`` counts from 1,
    0 where the report does not tell; ``seconds`` is how long it took."""

    name: str
    result: str
    suite: str = ""
    file: str = ""
    line: int = 0
    seconds: float = 0.0
    message: str = ""
    text: str = ""


_RESULTS = {"failure": "failed", "error": "error", "skipped": "skipped"}
_WEIGHT = ("passed", "skipped", "failed", "error")


def read_cases(data: bytes) -> list[Case]:
    """The tests of a report in their order; raises NoReport."""
    reader = _Reader()
    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = reader.say
    parser.StartDoctypeDeclHandler = _refuse
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        raise NoReport(f"is not a JUnit report: {error}") from None
    return reader.cases


def _refuse(*_: Any) -> None:
    raise NoReport("declares a document type, which a report of tests does not need")


class _Reader:
    __slots__ = ("_inside", "_text", "cases")

    def __init__(self) -> None:
        self.cases: list[Case] = []
        self._inside = ""
        self._text: list[str] = []

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        if tag == "testcase":
            line = attributes.get("line", "")
            try:
                seconds = float(attributes.get("time", "0").replace(",", ""))
            except ValueError:
                seconds = 0.0
            self.cases.append(
                Case(
                    name=attributes.get("name", "?"),
                    result="passed",
                    suite=attributes.get("classname", ""),
                    file=attributes.get("file", ""),
                    line=int(line) + 1 if line.isdecimal() and len(line) < 10 else 0,
                    seconds=seconds if 0 <= seconds < float("inf") else 0.0,
                )
            )
        elif tag in _RESULTS and self.cases:
            self._inside, self._text = tag, []
            last, result = self.cases[-1], _RESULTS[tag]
            if _WEIGHT.index(result) >= _WEIGHT.index(last.result):
                self.cases[-1] = last._replace(result=result, message=attributes.get("message", "")[:LONGEST])
            else:
                self._inside = ""

    def say(self, text: str) -> None:
        if self._inside:
            self._text.append(text)

    def end(self, tag: str) -> None:
        if tag == self._inside:
            self.cases[-1] = self.cases[-1]._replace(text="".join(self._text)[-LONGEST:])
            self._inside = ""


_LARGEST = 64 << 20
"""Bytes of a report."""
_TEXT = 4_000
_PLACE = re.compile(r"^(\S[^:\n]*):(\d+): ", re.MULTILINE)
_EXAMPLE = re.compile(
    r"^(?P<in>[ E]*)(?:Falsifying example|Failing test case): (?P<text>[^\n]*?\)$|.*?\n(?P=in)\))",
    re.MULTILINE | re.DOTALL,
)
WITHOUT = ("-p", "no:planrunner.testing.pytest_plugin", "-p", "no:schemathesis")
"""The plugin with which plugins of planrunner are tested: its fixtures are not those of a project that has no Python of
its own. And one that keeps hypothesis from printing the inputs that it found."""
_PATHS = "files, folders and tests; default: what the project's settings say"
_PYTHON = "interpreter of the project; default: `python` on the PATH, else that of planrunner"


class FailedTest(TypedDict):
    """``text`` is the end of what the test said; ``example`` the inputs that hypothesis found to fail."""

    name: str
    file: str
    line: int
    message: str
    text: str
    example: str


class Tested(NamedTuple):
    """``counts`` holds total, passed, failed, errors and skipped; ``duration`` is in seconds."""

    tool: Annotated[str, Doc("what ran the tests, or read the reports")]
    version: Annotated[str, Doc("its version; empty where it has none")]
    ok: Annotated[bool, Doc("there were tests and none failed")]
    counts: Annotated[dict[str, int], Doc("total, passed, failed, errors and skipped")]
    duration: Annotated[float, Doc("seconds that the tests took together", form="seconds")]
    failures: Annotated[list[FailedTest], Doc("name, file, line, message, text and example of each test that failed")]
    findings: Annotated[list[Finding], Doc("the failures in the shape in which all checks tell what they found")]
    truncated: Annotated[bool, Doc("there are more failures than are given")]


_RISK = "runs code of the project, which may change files and use the network"


@capability(
    "validate.pytest",
    effect="read",
    risks=(_RISK,),
    foreign=("findings", "failures"),
    own=("tool", "version", "counts"),
)
def pytest(
    context: Context,
    paths: Annotated[str | list[str] | None, Doc(_PATHS)] = None,
    keyword: Annotated[str, Doc("run tests whose names fit this expression (-k)")] = "",
    markers: Annotated[str, Doc("run tests whose markers fit this expression (-m)")] = "",
    max_failures: Annotated[int, Doc("stop after so many failures; 0: never")] = 0,
    profile: Annotated[str, Doc("profile of hypothesis")] = "",
    seed: Annotated[int | None, Doc("seed of hypothesis, for the same examples every time")] = None,
    keep: Annotated[str, Doc("name of an artifact to keep the JUnit report as")] = "",
    python: Annotated[str, Doc(_PYTHON, use="command")] = "",
    fail: Annotated[bool, Doc("fail with the class `tests` where a test fails or none is found")] = True,
    max_findings: Annotated[int, Doc("the most failures to give; `counts` is of all")] = 50,
) -> Tested:
    """Run tests with pytest and read its report, with the failing examples of hypothesis."""
    tool = find(context, "pytest", python)
    chosen = [f"-k{keyword}"] if keyword else []
    chosen += [f"-m{markers}"] if markers else []
    chosen += [f"--maxfail={max_failures}"] if max_failures else []
    chosen += [f"--hypothesis-profile={profile}"] if profile else []
    chosen += [f"--hypothesis-seed={seed}"] if seed is not None else []
    tested = tested_with(context, tool, [*chosen, "--", *names(paths or [])], max_findings, keep=keep)
    return judged(tested, fail)


def tested_with(
    context: Context, tool: Tool, arguments: list[str], most: int, *, keep: str = "", made: str = ""
) -> Tested:
    """The evidence of a run of pytest; ``made`` as in ``Program``. Raises Failure where there is none."""
    code, said, cases = _ran(context, tool, arguments, keep, made)
    if code not in (0, 1, 5) and not _bad(cases):
        raise Failure(f"pytest ended with {code}: {said}")
    tested = told("pytest", tool.version, context, cases, most)
    if not tested.ok or (code == 0 and cases):
        return tested
    why = "no tests were found" if code == 5 or not cases else f"pytest ended with {code}: {said}"
    return tested._replace(ok=False, findings=[finding(why)])


def _ran(context: Context, tool: Tool, arguments: list[str], keep: str, made: str) -> tuple[int, str, list[Case]]:
    """Exit code, last line and tests of a run of pytest; what it remembers lies in planrunner's cache, but what code
    that is shut in writes."""
    folder = context.call.scratch or tempfile.mkdtemp(prefix="planrunner-")
    os.makedirs(folder, mode=0o700, exist_ok=True)
    report = os.path.join(folder, "junit.xml")
    options, env = ["-o", "junit_family=xunit1", f"--junitxml={report}"], {"PYTHONDONTWRITEBYTECODE": "1"}
    options += [*WITHOUT] if tool.borrowed else []
    if context.services is None or made:
        options += ["-p", "no:cacheprovider"]
        env["HYPOTHESIS_STORAGE_DIRECTORY"] = os.path.join(folder, "hypothesis")
    else:
        options += ["-o", f"cache_dir={cache(context, 'pytest')}"]
        env["HYPOTHESIS_STORAGE_DIRECTORY"] = cache(context, "hypothesis")
    try:
        ended = run(context, Program((*tool.words, *options, *arguments), env=env, loud=True, made=made))
        whole = os.path.exists(report)
        if whole and keep:
            context.keep_file(report, keep, "junit")
        return ended.code, ended.said, _read(report) if whole else []
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@capability("validate.junit", effect="read", foreign=("findings", "failures"), own=("tool", "version", "counts"))
def junit(
    context: Context,
    files: Annotated[Pattern | list[Pattern], Doc("reports, or patterns such as build/**/TEST-*.xml")],
    fail: Annotated[bool, Doc("fail with the class `tests` where a test failed or none ran")] = True,
    max_findings: Annotated[int, Doc("the most failures to give; `counts` is of all")] = 50,
) -> Tested:
    """Read reports of tests in the JUnit form, by whatever program they were written."""
    cases: list[Case] = []
    for path in found_files(context, names(files)):
        cases += _read(os.path.join(context.call.directory, path))
    tested = told("junit", "", context, cases, max_findings)
    if not cases:
        tested = tested._replace(ok=False, findings=[finding("the reports hold no tests")])
    return judged(tested, fail)


def _read(path: str) -> list[Case]:
    name = os.path.basename(path)
    with open(path, "rb") as file:
        data = file.read(_LARGEST + 1)
    if len(data) > _LARGEST:
        raise Failure(f"{name} is larger than {_LARGEST >> 20} MiB")
    try:
        return read_cases(data)
    except NoReport as error:
        raise Failure(f"{name} {error}") from None


def told(tool: str, version: str, context: Context, cases: list[Case], most: int) -> Tested:
    """The evidence of the tests of a report."""
    bad = _bad(cases)
    counts = {"total": len(cases)}
    for name, result in (("passed", "passed"), ("failed", "failed"), ("errors", "error"), ("skipped", "skipped")):
        counts[name] = sum(case.result == result for case in cases)
    failures = [_failure(context, case) for case in bad[:most]]
    findings = [
        finding(failure["message"], "error", failure["name"], failure["file"], (failure["line"], 0))
        for failure in failures
    ]
    seconds = round(sum(case.seconds for case in cases), 3)
    return Tested(tool, version, not bad, counts, seconds, failures, findings, len(bad) > most)


def _bad(cases: list[Case]) -> list[Case]:
    return [case for case in cases if case.result in ("failed", "error")]


def _failure(context: Context, case: Case) -> FailedTest:
    """A failing test with the place where it failed: the last one that what it said names."""
    places = _PLACE.findall(case.text)
    file, line = (places[-1][0], int(places[-1][1])) if places else (case.file, case.line)
    if os.path.isabs(file) or not os.path.isfile(os.path.join(context.call.directory, file)):
        file, line = (relative(context, file), line) if os.path.isabs(file) else (case.file or file, case.line or line)
    name = f"{case.suite}.{case.name}" if case.suite else case.name
    message = case.message or next((text for text in case.text.splitlines() if text.strip()), case.result)
    text = case.text if len(case.text) <= _TEXT else "…" + case.text[-_TEXT:]
    failed: FailedTest = {
        "name": name, "file": file, "line": line, "message": message[:1000], "text": text, "example": example(case),
    }  # fmt: skip
    return failed


def example(case: Case) -> str:
    """The inputs with which hypothesis made a test fail, as it writes them; empty where it had no part in it."""
    match = _EXAMPLE.search(case.message) or _EXAMPLE.search(case.text)
    if match is None:
        return ""
    margin = len(match["in"])
    first, *rest = match["text"].splitlines()
    return "\n".join([first, *(line[margin:] for line in rest)])[:_TEXT]


def judged(tested: Tested, fail: bool) -> Tested:
    """The evidence again, or a Failure that carries it where a test failed and that is to count."""
    if tested.ok or not fail:
        return tested
    counts = tested.counts
    bad = counts["failed"] + counts["errors"]
    said = f"{bad} of {counts['total']} tests failed: " if bad else ""
    names = ", ".join(failure["name"] for failure in tested.failures[:3])
    more = f" and {bad - 3} more" if bad > 3 else ""
    message = f"{said}{names}{more}" if bad else headline(tested.findings, 1)
    outputs: dict[str, Any] = tested._asdict()
    raise Failure(message, "tests", outputs)
