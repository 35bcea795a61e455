"""A fault in a repository of 60 commits is found, fixed and proved.

Real: the repository, the Python package in it with its tests, the commit in the middle that brought the fault among
other changes, and every command. Scripted: the model. It names the same three suspects whatever the fault, and it
knows how each of them is fixed.

The variable FAULT is rounding (default), thousands or cached; with MODEL=useless no change of the model helps.
"""

from __future__ import annotations

import os
import subprocess
from typing import Any, NamedTuple

from planrunner.testing.rehearsal import Scene, rehearse
from planrunner.testing.scripted_model import Heard

COMMITS, GOOD = 60, 5
MODULES = {
    "measures/convert.py": '''"""Conversion from one unit to another."""

from measures.units import UNITS


def convert(value, unit, to):
    """The value in another unit."""
    base = value * UNITS[unit]
    return round(base / UNITS[to], 9)
''',
    "measures/parse.py": '''"""Quantities as people write them."""


def quantity(text):
    """Number and unit of a text such as "1,250 m"."""
    number, unit = text.split()
    return float(number.replace(",", "")), unit
''',
    "measures/cache.py": '''"""Conversions that were asked for before."""

from measures.convert import convert

_KNOWN = {}


def cached(value, unit, to):
    """As convert, from memory where it can."""
    key = (value, unit, to)
    if key not in _KNOWN:
        _KNOWN[key] = convert(value, unit, to)
    return _KNOWN[key]
''',
}
REWORDED = dict(zip((9, 22, 27, 49, 52, 57), [*MODULES, *MODULES], strict=True))
"""Commits that touch a module and do not change what it does."""


class Fault(NamedTuple):
    commit: int
    subject: str
    path: str
    right: str
    wrong: str
    symptom: str
    check: str
    conditions: str
    test: str


FAULTS = {
    "rounding": Fault(
        31,
        "Round amounts to two digits",
        "measures/convert.py",
        "base = value * UNITS[unit]",
        "base = round(value * UNITS[unit], 2)",
        "Small lengths become 0",
        "from measures.convert import convert; assert convert(4, 'mm', 'm') == 0.004",
        '[""]',
        'from measures.convert import convert\n\nassert convert(4, "mm", "m") == 0.004',
    ),
    "thousands": Fault(
        44,
        "Accept a comma as decimal mark",
        "measures/parse.py",
        'number.replace(",", "")',
        'number.replace(",", ".")',
        "A thousand becomes one",
        "import os; from measures.parse import quantity; assert quantity(os.environ['CONDITION'])[0] > 999",
        '["1000 m", "1,250 m"]',
        'from measures.parse import quantity\n\nassert quantity("1,250 m") == (1250, "m")',
    ),
    "cached": Fault(
        17,
        "Use less memory for known conversions",
        "measures/cache.py",
        "key = (value, unit, to)",
        "key = (value, unit)",
        "Now and then a conversion gives the result of another one",
        "import os, random; from measures.cache import cached; from measures.convert import convert; "
        "r = random.Random(int(os.environ['CONDITION'])); "
        "asked = [(r.randrange(9), 'm', r.choice(['cm', 'mm'])) for _ in '1234']; "
        "assert [cached(*a) for a in asked] == [convert(*a) for a in asked]",
        "[1, 2, 3, 4]",
        'from measures.cache import cached\n\nassert cached(1, "m", "cm") != cached(1, "m", "mm")',
    ),
}


def version(number: int, fault: Fault) -> tuple[str, dict[str, str]]:
    """Subject and files of a commit. Each adds a unit, its test and a line of the changelog."""
    units = {"m": 1, "cm": 0.01} | {f"s{at}": at * 0.5 for at in range(2, number + 1)}
    files = dict(MODULES)
    for at, path in REWORDED.items():
        if number >= at:
            files[path] = files[path].replace('."""\n', f'; reworded in {at}."""\n', 1)
    if number >= fault.commit:
        files[fault.path] = files[fault.path].replace(fault.right, fault.wrong)
    files["measures/units.py"] = f"UNITS = {units | {'mm': 0.001}!r}\n"
    files["tests/test_units.py"] = (
        "import unittest\n\nfrom measures.convert import convert\n\n\nclass TestUnits(unittest.TestCase):\n"
        f"    def test_units(self):\n        for unit, factor in {units!r}.items():\n"
        "            self.assertEqual(convert(2, unit, 'm'), 2 * factor)\n"
    )
    files[".gitignore"] = "__pycache__/\n.planrunner/\nplanrunner.yaml\nplans/\n"
    files["tests/__init__.py"] = ""
    files["CHANGELOG.md"] = "".join(f"- The unit s{at}\n" for at in range(number, 1, -1))
    if number == fault.commit:
        return fault.subject, files
    return f"Reword {REWORDED[number]}" if number in REWORDED else f"Add the unit s{number}", files


def commit(number: int, subject: str, files: dict[str, str]) -> str:
    """One a day, in the language of ``git fast-import``."""
    lines = [f"commit refs/heads/main\ncommitter Ana <ana@example.org> {1767225600 + number * 86400} +0000\n"]
    lines.append(f"data {len(subject)}\n{subject}\n")
    lines += [f"M 644 inline {path}\ndata {len(text)}\n{text}\n" for path, text in files.items()]
    return "".join(lines)


def model(useless: bool) -> Any:
    def answer(heard: Heard) -> Any:
        system, said = heard.turns[0][1], heard.said()
        if "look for the cause" in system:
            names = ("first", "second", "third")
            paths = ("measures/parse.py", "measures/convert.py", "measures/cache.py")
            why = "What fails passes through it."
            return [("answer", {name: {"path": path, "why": why} for name, path in zip(names, paths, strict=True)})]
        fault = next(other for other in FAULTS.values() if f"Place: {other.path}" in said)
        if "regression test" in system:
            lines = fault.test.replace("\n\n", "\n        ")
            head = "import unittest\n\n\nclass TestRegression(unittest.TestCase):\n    def test_it(self):\n        "
            return [("answer", {"content": f"{head}{lines}\n"})]
        if heard.turns[-1][0] == "tool":
            factors = ["The commit adds a unit as well, and its subject tells of one of the two."]
            actions = ["Change what a module does in commits of their own."]
            cause = f"`{fault.wrong}` in {fault.path}"
            return [
                (
                    "answer",
                    {"cause": cause, "factors": factors, "gaps": ["No test has such values."], "actions": actions},
                )
            ]
        if useless:
            times = sum(role == "user" for role, _ in heard.turns)
            return [("files_write", {"path": "NOTES.md", "content": f"Tried {times} times.\n"})]
        return [("files_edit", {"blocks": [{"path": fault.path, "search": fault.wrong, "replace": fault.right}]})]

    return answer


def prepare(scene: Scene) -> None:
    fault = FAULTS[os.environ.get("FAULT", "rounding")]
    scene.model(model(os.environ.get("MODEL") == "useless"))
    if scene.new:
        scene.git("init", "-q", "-b", "main")
        history = "".join(commit(number, *version(number, fault)) for number in range(1, COMMITS + 1))
        subprocess.run(["git", "fast-import", "--quiet"], cwd=scene.folder, input=history.encode(), check=True)
        scene.git("reset", "-q", "--hard")
        scene.git("tag", "v1.0", f"HEAD~{COMMITS - GOOD}")
    scene.arguments += ["-p", f"symptom={fault.symptom}", "-p", "good=v1.0", "-p", f"conditions={fault.conditions}"]
    scene.arguments += ["-p", f'reproduce=python3 -B -c "{fault.check}"', "-p", "tests=python3 -B -m unittest -q"]
    scene.arguments += ["-p", "test_file=tests/test_regression.py"]


if __name__ == "__main__":
    rehearse(prepare, __file__)
