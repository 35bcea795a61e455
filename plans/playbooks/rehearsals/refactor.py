"""A rehearsal of refactor: git, pytest and the sandbox are real, the replies of the model are scripted. It reads the
file and writes its diffs from that; the first diff of the first step breaks a test, the second one heeds the reason."""

from __future__ import annotations

import difflib
import json

from planrunner.testing.rehearsal import Scene, rehearse
from planrunner.testing.scripted_model import Heard, Reply

FILES = {
    ".gitignore": "__pycache__/\n.planrunner/\n",
    "conftest.py": "",
    "prices.py": '''"""Prices."""


def gross(net):
    """The price with tax."""
    result = net + net * 19 / 100
    return round(result, 2)


def discounted(net):
    """The price for members."""
    result = net - net * 10 / 100
    return round(result, 2)
''',
    "tests/test_prices.py": """from prices import discounted, gross


def test_gross():
    assert gross(9.99) == 11.89


def test_discounted():
    assert discounted(9.99) == 8.99
""",
}
STEPS = ["Extract percent() from gross() and discounted()", "Return without a variable"]


def project(scene: Scene) -> None:
    """A module with some repetition and its tests, in git."""
    if scene.new:
        scene.write(FILES)
        scene.git("init", "-q", "-b", "main")
        scene.git("add", "-A")
        scene.git("commit", "-qm", "Add prices")


def answer(heard: Heard) -> Reply:
    """What the model says: the steps, or a diff from the text that it has read."""
    role, said = heard.turns[-1]
    if "Which steps does that take" in said:
        return [("answer", {"steps": STEPS})]
    if role == "user":
        return [("files_read", {"path": "prices.py"})]
    text = str(json.loads(said)["content"])
    if STEPS[0] in heard.said():
        divide = "/" if "test_gross" in heard.said() else "//"
        return proposal("Extract percent()", text, extracted(text, divide))
    return proposal("Return at once", text, returned(text))


def extracted(text: str, divide: str) -> str:
    text = text.replace("net * 19 / 100", "percent(net, 19)").replace("net * 10 / 100", "percent(net, 10)")
    return f"{text}\n\ndef percent(amount, rate):\n    return amount * rate {divide} 100\n"


def returned(text: str) -> str:
    for expression in ("net + percent(net, 19)", "net - percent(net, 10)"):
        text = text.replace(
            f"    result = {expression}\n    return round(result, 2)", f"    return round({expression}, 2)"
        )
    return text


def proposal(subject: str, before: str, after: str) -> Reply:
    """The answer with the diff between two texts of prices.py."""
    lines = difflib.unified_diff(before.splitlines(True), after.splitlines(True), "a/prices.py", "b/prices.py")
    return [("answer", {"subject": subject, "diff": "".join(lines)})]


def prepare(scene: Scene) -> None:
    scene.model(answer)
    project(scene)


if __name__ == "__main__":
    rehearse(prepare, __file__, needs=("pytest",))
