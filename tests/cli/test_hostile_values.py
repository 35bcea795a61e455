"""A thousand hostile strings through templates in ``run:``, in every quoting context, by the real command line: each arrives
byte for byte and none is executed."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from workbench import planrunner

COUNT = 1000
FORMS = {
    "unquoted": "printf '%s\\0' {{ params.v%d }} >> out",
    "double quotes": 'printf "%%s\\0" "{{ params.v%d }}" >> out',
    "single quotes": "printf '%%s\\0' '{{ params.v%d }}' >> out",
    "glued": "printf '%%s\\0' --x={{ params.v%d }} >> out",
}
PIECES = [
    "'", '"', "`touch canary`", "$(touch canary)", "${PATH}", "$HOME", "\\", "\\\\", "\n", "\r\n", "\t", " ", "  ", ";touch canary;",
    "&&touch canary", "|touch canary", ">canary", "<(touch canary)", "*", "?", "[a-z]", "~", "~root", "-n", "--", "-rf", "!", "!!", "#x",
    "{a,b}", "%s", "%n", "{{ params.v1 }}", "{% raw %}", "é", "日本語", "🧨", "\u202e", "\u200b", "\x01", "\x1b[31m", "\x7f", "a", "0", "=",
    "$'\\n'", "EOF", "$((1+1))", "${PR_0}", "PR_0=x", "$", "''", '""', "\ufeff",
]  # fmt: skip


def hostile(seed: int) -> list[str]:
    rng = random.Random(seed)
    values = ["", " ", "-", "--help", "'", '"', "\n", "\n\n", "a\n", *PIECES]
    while len(values) < COUNT:
        values.append("".join(rng.choice(PIECES) for _ in range(rng.randint(1, 6))))
    return values


@pytest.mark.parametrize("form", FORMS)
def test_a_thousand_hostile_strings_arrive_as_they_are(form: str, tmp_path: Path) -> None:
    values = hostile(len(form))
    (tmp_path / ".git").mkdir()
    template = FORMS[form].replace("%%", "%")
    script = "".join(template.replace("v%d", f"v{number}") + "\n" for number in range(len(values)))
    params = {f"v{number}": {"type": "string", "required": True} for number in range(len(values))}
    plan = {"plan": "hostile", "params": params, "tasks": [{"id": "t", "run": script, "timeout": "2m"}]}
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    (tmp_path / "values.json").write_text(json.dumps({f"v{number}": value for number, value in enumerate(values)}))
    done = planrunner(tmp_path, "exec", "plan.json", "--params-file", "values.json", HOME=str(tmp_path))
    assert done.returncode == 0, done.stderr[-2000:]
    arrived = (tmp_path / "out").read_bytes().decode().split("\0")[:-1]
    prefix = "--x=" if form == "glued" else ""
    assert arrived == [prefix + value for value in values]
    assert not (tmp_path / "canary").exists()


def test_a_nul_character_is_refused_with_a_message(tmp_path: Path) -> None:
    plan = {
        "plan": "nul",
        "params": {"v": {"type": "string"}},
        "tasks": [{"id": "t", "run": "echo {{ params.v }} | cat", "timeout": "1m"}],
    }
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    (tmp_path / "values.json").write_text(json.dumps({"v": "a\0b"}))
    done = planrunner(tmp_path, "exec", "plan.json", "--params-file", "values.json")
    assert done.returncode == 1
    assert "NUL" in done.stderr
    assert "Traceback" not in done.stderr
