"""A rehearsal of coding-agent: git, pytest, the scan, the sandbox and the memory are real, the replies of the model are
scripted. Its coder knows one wrong idea, and the right one once the reflector or the memory has told it."""

from __future__ import annotations

from planrunner.testing.rehearsal import Scene, rehearse
from planrunner.testing.scripted_model import Heard, Reply

FILES = {
    ".gitignore": "__pycache__/\n.planrunner/\n",
    "durations.py": '''"""Durations such as 1h30m."""

import re

UNITS = {"s": 1, "m": 60, "h": 3600}


def seconds(text):
    """The seconds of a duration."""
    parts = re.findall(r"(\\d+)([smh])", text)
    return max([int(number) * UNITS[unit] for number, unit in parts])
''',
    "tests/test_durations.py": """from durations import seconds


def test_one_part():
    assert seconds("5m") == 300


def test_parts_add_up():
    assert seconds("1h30m") == 5400
""",
    "conftest.py": "",
}


def project(scene: Scene) -> None:
    """A module with a bug that its tests find, in git."""
    if scene.new:
        scene.write(FILES)
        scene.git("init", "-q", "-b", "main")
        scene.git("add", "-A")
        scene.git("commit", "-qm", "Parse durations")


def answer(heard: Heard) -> Reply:
    """What the model says as planner, as reflector and as coder."""
    role, said = heard.turns[-1]
    if "Which steps does that take?" in said:
        return [("answer", {"steps": ["Mend seconds() in durations.py"]})]
    if "Why, and what is to be done instead?" in said:
        return [("answer", {"lesson": "The longest part is returned. Add the parts up: sum() in place of max()."})]
    knows = "sum()" in heard.said()
    if role == "tool":
        return [("answer", {"change": f"Used {'sum' if knows else 'sorted'}() in seconds()."})]
    return [edit("max([", "sum([") if knows else edit("in parts]", "in sorted(parts)]")]


def edit(search: str, replace: str) -> tuple[str, object]:
    return "files_edit", {"blocks": [{"path": "durations.py", "search": search, "replace": replace}]}


def prepare(scene: Scene) -> None:
    scene.model(answer)
    project(scene)


if __name__ == "__main__":
    rehearse(prepare, __file__, needs=("pytest",))
