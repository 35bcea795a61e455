"""Declared texts: a value under ``type: string`` is the text that was written, whatever YAML takes it for."""

from __future__ import annotations

from plan_loading import loaded
from rows import rows

WORDS = ("1.10", "4913e68", "0012345", "0x1F", "1e3", "3.10", "2026-11-28", "yes", "no", "on", "+5", "0o17")
PLAN = """plan: p
params:
  word: {{type: string, default: {word}}}
  chosen: {{type: string, choices: [{word}, other], default: {word}}}
tasks:
  - {{id: a, uses: noop, outputs: {{kept: {{type: string, value: {word}}}}}}}
  - {{id: b, subplan: inner, params: {{word: {word}}}}}
  - {{id: g, gate: approval, ask: go, form: {{word: {{type: string, default: {word}}}}}}}
subplans:
  inner:
    params: {{word: {{type: string, required: true}}}}
    tasks: [{{id: c, uses: noop}}]
"""


@rows("word", WORDS)
def test_a_declared_text_is_the_text_that_was_written(word: str) -> None:
    plan = loaded(PLAN.format(word=word)).plan
    assert plan is not None
    assert [(each.default, (each.choices or [word])[0]) for each in plan.params] == [(word, word)] * 2
    made, linked, gate = plan.tasks
    assert made.outputs[0].value == linked.params["word"] == gate.gate.form[0].default == word  # type: ignore[union-attr]


def test_a_number_that_is_declared_text_is_quoted_by_the_fix() -> None:
    found = next(each for each in loaded(PLAN.format(word="0012")).findings if "octal" in each.message)
    assert found.message.startswith("`0012` is text here") and found.fix is not None
    assert found.fix.safe and found.fix.edits[0].text == '"0012"'
