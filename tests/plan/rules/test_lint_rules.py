"""Each rule on small plans: what it must find, and above all what it must leave alone."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rows import rows

from planrunner.diagnostics import Diagnostic
from planrunner.plan.fixes import apply_fixes
from planrunner.plan.load import load
from planrunner.plan.params import bind_params
from planrunner.plugins.registry import Registry
from planrunner.source import Source, notation_of

QUIET = {"PLAN020", "PLAN010"}
"""What small plans have beside the point."""


def findings(text: str, name: str = "p.yaml") -> list[Diagnostic]:
    return list(load(Source(text, name, notation_of(name)), Registry()).findings)


def lint(tasks: str, head: str = "") -> list[str]:
    """The codes for a plan of these tasks, each with the words it points at."""
    text = f"plan: p\ndefaults: {{timeout: 5m}}\n{head}tasks:\n{tasks}"
    return [
        f"{finding.code} {text[finding.span.start : finding.span.end]}"
        for finding in findings(text)
        if finding.code not in QUIET
    ]


@pytest.mark.parametrize(("said", "codes"), [("false", []), ("true", ["PLAN020"])])
def test_planning_on_its_own_is_off_and_can_only_be_said_to_be(said: str, codes: list[str]) -> None:
    text = f"plan: p\npolicy: {{autonomous: {said}}}\ntasks:\n  - {{id: a, run: x, timeout: 1m}}\n"
    assert [finding.code for finding in findings(text)] == codes


@rows(
    ("task", "found"),
    [
        ("uses: noop, ok_codes: [0, 3]", ["PLAN235 [0, 3]"]),
        ('subplan: [{id: b, run: x}], expect: "exit_code == 0"', ['PLAN235 "exit_code == 0"']),
        ("gate: approval, ask: go on, postconditions: [exit_code == 0]", ["PLAN235 exit_code == 0"]),
        ("run: x, ok_codes: [0, 3]", []),
        ("foreach: [1], run: x, ok_codes: 3", []),
        ("uses: docker.run, with: {image: a, command: [b]}, ok_codes: 3", []),
        ('uses: python.run, with: {code: "print(1)"}, expect: [exit_code == 0]', []),
        ("uses: noop, expect: [outputs.value == 1]", []),
    ],
)
def test_a_task_that_runs_no_program_has_no_exit_code(task: str, found: list[str]) -> None:
    assert [each for each in lint(f"  - {{id: a, {task}}}\n") if each.startswith("PLAN235")] == found


@rows(
    ("said", "code"),
    [
        ("{% if carry.notes %}x{% endif %}", "PLAN236"),
        ("{{ 'x' if not carry.notes else 'y' }}", "PLAN236"),
        ("{{ carry.notes or 'none' }}", "PLAN205"),
        ("{% if carry.notes is not empty %}x{% endif %}", ""),
        ("{% if loop.round > 1 and carry.notes %}x{% endif %}", ""),
        ("{% if loop.round > 1 %}{% if carry.notes %}x{% endif %}{% endif %}", ""),
        ("{% if default(carry.notes, false) %}x{% endif %}", ""),
        ("{% if carry.ready %}x{% endif %}", ""),
    ],
)
@rows("around", ["[{id: b, run: RUN}]", "[{id: b, subplan: [{id: c, run: RUN}]}]"])
def test_what_a_loop_carries_is_null_in_its_first_round_where_nothing_is_said(
    said: str, code: str, around: str
) -> None:
    tasks = around.replace("RUN", json.dumps(f"echo {said}"))
    carry = "{notes: '{{ 1 }}', ready: {first: false, next: true}}"
    found = lint(f"  - {{id: a, loop: {{max: 2, carry: {carry}, tasks: {tasks}}}}}\n")
    assert [each.split()[0] for each in found] == [code] * bool(code)


@rows(
    ("condition", "way_out"),
    [
        ("params.text or 'x'", 'write `default(params.text, "x")`; where it may be empty, `params.text if params.text'),
        ("params.n or 1", "write `default(params.n, 1)`"),
        ("params.flag or params.text", "compare it, or ask `params.text is not empty`"),
        ("params.text or params.flag", "compare it, or ask `params.text is not empty`"),
        ("params.text", "compare it, or ask `params.text is not empty`"),
        ("params.n", "compare it"),
    ],
)
@rows("place", ["when: ", "run: echo {{ 'y' if CONDITION else 'n' }}", "run: echo {% if CONDITION %}%{% endif %}"])
def test_a_value_that_is_no_condition_has_its_way_out(condition: str, way_out: str, place: str) -> None:
    text = place.replace("CONDITION", condition) if "CONDITION" in place else f"when: {condition}\n    run: x"
    head = "params: {text: {type: string}, n: {type: int}, flag: {type: bool}}\ntasks:\n  - id: a\n    "
    found = findings(f"plan: p\ndefaults: {{timeout: 1m}}\n{head}{text}\n")
    told = [(each.code, each.help) for each in found if each.code != "PLAN209"]
    assert len(told) == 1 and told[0][0] == "PLAN205" and told[0][1].startswith(way_out), told


CLEAN = {
    "outputs of printed text and JSON": """
  - {id: a, run: x, stdout: json, outputs: {n: int, m: string}}
  - {id: t, run: x, stdout: text, outputs: {one: string}}
  - {id: l, run: x, stdout: lines, outputs: {one: {type: string, path: x.txt}}}
  - {id: b, run: "echo {{ tasks.a.outputs.n }} {{ tasks.t.outputs.one }} {{ tasks.l.outputs.value }}", needs: [a, t, l]}
""",
    "members of an answer that its schema lists, or that it lets be": """
  - id: a
    uses: llm.complete
    with: {prompt: x, schema: {type: object, properties: {n: {type: integer}}}}
  - id: o
    uses: llm.complete
    with: {prompt: x, schema: {type: object, properties: {n: {type: integer}}, additionalProperties: true}}
  - {id: h, uses: http.get, with: {url: "https://example.org", expect_schema: {type: object, properties: {n: {type: integer}}}}}
  - {id: b, run: y, needs: [a, o, h], when: tasks.a.outputs.json.n > 1 and tasks.o.outputs.json.m > 1 and tasks.h.outputs.json.m > 1}
""",
    "a need that must have completed by its expression": """
  - {id: a, run: x, outputs: {n: int}}
  - {id: b, run: x, needs: [a]}
  - {id: c, run: "echo {{ tasks.a.outputs.n }}", needs: a.ok and (b.ok or b.failed)}
""",
    "a need that either way of an expression asks for": """
  - {id: a, run: x, outputs: {n: int}}
  - {id: b, run: x}
  - {id: c, run: "echo {{ tasks.a.outputs.n }}", needs: (a.ok and b.ok) or (tasks.a.status == "completed" and b.failed)}
""",
    "a need without a condition where none failed": """
  - {id: a, run: x, outputs: {n: int}}
  - {id: b, run: x, needs: [a], outputs: {n: int}}
  - {id: c, run: "echo {{ tasks.a.outputs.n }} {{ tasks.b.outputs.n }}", needs: [b], join: none_failed}
""",
    "how a task ended that may fail": """
  - {id: a, run: x, allow_failure: true}
  - {id: b, run: "echo {{ tasks.a.exit_code }} {{ tasks.a.stderr }} {{ tasks.a.stdout }}", needs: [a]}
""",
    "what a rejected gate says": """
  - {id: g, gate: approval, ask: really, on_reject: {to: h}}
  - {id: h, run: "echo {{ tasks.g.outputs.comment }} {{ tasks.g.outputs.by }}"}
""",
    "the choice of a gate whose option leads here": """
  - {id: g, gate: decision, ask: which, options: [{id: one, to: h}, {id: two, to: k}], form: {n: int}}
  - {id: h, run: "echo {{ tasks.g.outputs.choice }} {{ tasks.g.outputs.n }}"}
  - {id: k, run: y}
""",
    "a value that the condition of the edge reads": """
  - {id: a, run: x, outputs: {n: int}, next: [{to: b, when: outputs.n > 1}, {to: c, else: true}]}
  - {id: b, run: "echo {{ tasks.a.outputs.n }}"}
  - {id: c, run: y}
""",
    "a condition that asks for the value it reads": """
  - {id: a, run: x, when: plan.id == "x", outputs: {n: int}}
  - {id: b, run: "echo {{ tasks.a.outputs.n }}", needs: [a], join: all_done, when: plan.id == "p" and exists(tasks.a.outputs.n)}
  - {id: c, run: y, needs: [a], join: none_failed, when: tasks.a.skipped or tasks.a.outputs.n > 1}
  - {id: d, run: "echo {{ tasks.a.outputs.n }}", needs: [a], join: none_failed, when: not tasks.a.skipped}
""",
    "what the condition of a task before it asks for": """
  - {id: a, run: x, when: plan.id == "x", outputs: {n: int}}
  - {id: b, run: y, needs: [a], join: all_done, when: tasks.a.ok}
  - {id: c, run: "echo {{ tasks.a.outputs.n }}", needs: [b]}
""",
    "a handler that reads the failure of what it handles": """
  - {id: a, run: x, on_failure: h}
  - {id: h, run: "echo {{ tasks.a.stderr }} {{ tasks.a.exit_code }}"}
""",
    "a handler that recovers beside a dependent": """
  - {id: a, run: x, on_failure: {to: h, recovers: true}}
  - {id: h, run: y}
  - {id: b, run: z, needs: [a, h]}
""",
    "a task that both outcomes lead to": """
  - {id: a, run: x, on_success: b, on_failure: b}
  - {id: b, run: y}
""",
    "a handler whose failing task is allowed to fail": """
  - {id: a, run: x, allow_failure: true, on_failure: h}
  - {id: h, run: y, needs: [a]}
""",
    "a handler that waits for anything else": """
  - {id: a, run: x, on_failure: h}
  - {id: b, run: x}
  - {id: h, run: y, needs: [b]}
""",
    "a noop that can fail after all": """
  - {id: a, uses: noop, expect: [duration < 1s], on_failure: h}
  - {id: b, uses: noop, with: {value: "{{ env.UNKNOWN }}"}, on_failure: h}
  - {id: h, run: y}
""",
    "a join over both ways": """
  - {id: a, run: x, on_success: good, on_failure: bad}
  - {id: good, run: y}
  - {id: bad, run: z}
  - {id: c, run: w, needs: [good, bad], join: any}
""",
    "a read through a chain of needs": """
  - {id: a, run: x, outputs: {count: int}}
  - {id: b, run: x, needs: [a]}
  - {id: c, run: "echo {{ tasks.a.outputs.count }}", needs: [b]}
""",
    "a read after success edges": """
  - {id: a, run: x, outputs: {count: int}, on_success: b}
  - {id: b, run: "echo {{ tasks.a.outputs.count }}"}
""",
    "a read where every way leads through the other task": """
  - {id: a, run: x, outputs: {count: int}}
  - {id: b, run: x, needs: [a]}
  - {id: c, run: x, needs: [a]}
  - {id: d, run: "echo {{ tasks.a.outputs.count }}", needs: [b, c], join: any}
""",
    "a conjunction of results": """
  - {id: a, run: x, outputs: {count: int}}
  - {id: b, run: x}
  - {id: c, run: "echo {{ tasks.a.outputs.count }}", needs: a.ok and b.done}
""",
    "a value with a default": """
  - {id: a, run: x, outputs: {count: int}, allow_failure: true}
  - {id: b, run: "echo {{ tasks.a.outputs.count | default(0) }}", needs: [a]}
""",
    "a value with a default that is written as a call": """
  - {id: a, run: x, outputs: {count: int}, allow_failure: true}
  - {id: b, run: "echo {{ default(tasks.a.outputs.count, 0) }}", needs: [a]}
""",
    "the status of a task that may have failed": """
  - {id: a, run: x}
  - {id: b, run: "echo {{ tasks.a.status }}", needs: [a], join: all_done}
""",
    "own results in criteria and outputs": """
  - id: a
    run: x
    outputs: {count: int, twice: "{{ outputs.count }}"}
    expect: [outputs.count > 1, duration < 5m, tasks.a.exit_code == 0]
""",
    "an output of a capability": """
  - {id: a, uses: noop, with: {value: 3}}
  - {id: b, run: "echo {{ tasks.a.outputs.value }}", needs: [a]}
""",
    "outputs that nobody declares": """
  - {id: a, run: x}
  - {id: b, run: "echo {{ tasks.a.outputs.anything }}", needs: [a]}
""",
    "an output that two conditions read one after the other": """
  - {id: a, run: x, outputs: {count: int}}
  - {id: b, run: x, needs: [a], when: tasks.a.outputs.count > 1}
  - {id: c, run: x, needs: [b], join: none_failed, when: tasks.a.outputs.count < 1}
  - {id: d, run: "echo {{ tasks.a.outputs.count }}", needs: [c], join: none_failed}
""",
    "ids with hyphens": """
  - {id: sign-off, run: x, outputs: {count: int}}
  - {id: b, run: "echo {{ tasks.sign-off.outputs.count }}", needs: [sign-off], when: tasks.sign-off.outputs.count > 1}
""",
    "every member of what sent the run back": """
  - {id: a, run: "echo {{ rework.comment }} {{ rework.by }} {{ rework.from }} {{ rework.round }}", when: rework.by != "x"}
  - {id: g, gate: approval, needs: [a], on_reject: {rework: a, max: 2}}
""",
    "a rework from a gate to an earlier task": """
  - {id: a, run: x}
  - {id: g, gate: approval, needs: [a], on_reject: {rework: a, max: 2}}
""",
    "a loop with a bound": """
  - id: l
    loop: {max: 3, until: tasks.inner.outputs.done == true, tasks: [{id: inner, run: x}]}
""",
    "a fan-out that reads its item": """
  - {id: each, foreach: "[1, 2]", as: number, run: "echo {{ number }}"}
  - {id: other, foreach: "[1, 2]", run: "echo {{ item }}"}
""",
    "facts in preconditions": """
  - {id: w, run: x, when: host.os == "linux" and disk.free > 1GB}
  - {id: a, run: x, preconditions: [memory.has_space >= 50MB, network.online == true, disk.free > 1GB, host.cpus > 1]}
""",
    "a gate of checks on results": """
  - {id: a, run: x}
  - {id: g, gate: checks, needs: [a], checks: [a.ok, tasks.a.exit_code == 0]}
""",
    "a failure mode that reads the failure": """
  - id: a
    run: x
    failure_modes: [{name: net, detect: message contains "timeout" and failure != "policy", recover: retry by hand}]
""",
    "a template with its own names": """
  - {id: a, uses: noop, with: {value: "{% for x in [1, 2] %}{{ x }}{% endfor %}"}}
""",
    "tasks called as names of the plan in expressions over results": """
  - {id: plan, run: x, allow_failure: true}
  - {id: run, run: x}
  - {id: tasks, run: x}
  - {id: params, run: x, needs: plan.ok or plan.failed}
  - {id: env, run: x, needs: 'plan.ok and run.status == "completed"'}
  - {id: last, run: x, needs: tasks.plan.done and tasks.ok and env.ok}
  - {id: joined, run: x, needs: [run, params], join: run.ok or params.ok}
""",
    "outputs that are types, and texts that are not": """
  - {id: a, run: x, outputs: {n: int, l: "list[url]", p: path, b: main, t: {value: intt}, v: "{{ run.id }}"}}
""",
    "inputs with templates of any type": """
  - {id: a, uses: files.write, with: {path: "{{ env.HOME }}/a", content: "{{ run.id }}", parents: "{{ true }}"}}
""",
}


@pytest.mark.parametrize("tasks", CLEAN.values(), ids=CLEAN.keys())
def test_nothing_is_said_about(tasks: str) -> None:
    assert lint(tasks) == []


FOUND = {
    "a join of both ways with all": (
        """
  - {id: a, run: x, on_success: good, on_failure: bad}
  - {id: good, run: y}
  - {id: bad, run: z}
  - {id: c, run: w, needs: [good, bad]}
""",
        ["PLAN108 good"],
    ),
    "a success far above a handler": (
        """
  - {id: a, run: x, on_failure: h}
  - {id: b, run: x, needs: [a]}
  - {id: c, run: x, needs: [b]}
  - {id: h, run: y, needs: [c]}
""",
        ["PLAN108 c"],
    ),
    "an output that is not among those declared of printed JSON": (
        """
  - {id: a, run: x, stdout: json, outputs: {n: int, m: string}}
  - {id: b, run: "echo {{ tasks.a.outputs.k }}", needs: [a], when: tasks.a.outputs.n == "x"}
""",
        ["PLAN202 k", 'PLAN205 tasks.a.outputs.n == "x"'],
    ),
    "a member that the schema of an answer does not list": (
        """
  - id: a
    uses: llm.complete
    with:
      prompt: x
      schema: {type: object, properties: {n: {type: integer}, of: {type: array, items: {type: object, properties: {k: {type: string}}}}}}
  - {id: b, run: y, needs: [a], when: tasks.a.outputs.json.m == 1}
  - {id: c, run: y, needs: [a], when: tasks.a.outputs.json.n == "x"}
  - {id: d, run: y, needs: [a], when: "tasks.a.outputs.json.of[0].j == 'x'"}
""",
        ["PLAN201 m", 'PLAN205 tasks.a.outputs.json.n == "x"', "PLAN201 j"],
    ),
    "an output behind a condition that another task may meet": (
        """
  - {id: a, run: x, outputs: {count: int}}
  - {id: b, run: x}
  - {id: c, run: "echo {{ tasks.a.outputs.count }}", needs: [a, b], join: all_done, when: tasks.a.ok or tasks.b.ok}
""",
        ["PLAN204 tasks.a.outputs.count"],
    ),
    "an output that a condition reads before it asks": (
        """
  - {id: a, run: x, outputs: {count: int}}
  - {id: c, run: y, needs: [a], join: all_done, when: tasks.a.outputs.count > 1 and tasks.a.ok}
""",
        ["PLAN204 tasks.a.outputs.count"],
    ),
    "an output of a need that its expression does not ask for": (
        """
  - {id: a, run: x, outputs: {count: int}}
  - {id: b, run: x}
  - {id: c, run: "echo {{ tasks.a.outputs.count }}", needs: a.done and b.ok}
""",
        ["PLAN204 tasks.a.outputs.count"],
    ),
    "an output of a need that may be skipped where none failed": (
        """
  - {id: a, run: x, when: plan.id == "x", outputs: {count: int}}
  - {id: c, run: "echo {{ tasks.a.outputs.count }}", needs: [a], join: none_failed}
""",
        ["PLAN204 tasks.a.outputs.count"],
    ),
    "an output behind a condition that a skipped task may not have come to": (
        """
  - {id: z, run: x, when: plan.id == "x"}
  - {id: a, run: x, needs: [z], outputs: {count: int}}
  - {id: b, run: x, needs: [a], when: plan.id == "y"}
  - {id: c, run: "echo {{ tasks.a.outputs.count }}", needs: [b], join: none_failed}
""",
        ["PLAN204 tasks.a.outputs.count"],
    ),
    "an output that the condition of a skipped task alone asked for": (
        """
  - {id: a, run: x, allow_failure: true, outputs: {count: int}}
  - {id: b, run: x, needs: [a], when: tasks.a.ok}
  - {id: c, run: "echo {{ tasks.a.outputs.count }}", needs: [b], join: none_failed}
""",
        ["PLAN204 tasks.a.outputs.count"],
    ),
    "an output of a task that may fail": (
        """
  - {id: a, run: x, allow_failure: true, outputs: {count: int}}
  - {id: c, run: "echo {{ tasks.a.outputs.count }}", needs: [a]}
""",
        ["PLAN204 tasks.a.outputs.count"],
    ),
    "how a task ended that a precondition may keep from running": (
        """
  - {id: a, run: x, allow_failure: true, preconditions: [disk.free > 1GB]}
  - {id: c, run: "echo {{ tasks.a.stderr }}", needs: [a]}
""",
        ["PLAN204 tasks.a.stderr"],
    ),
    "the form of a gate that was rejected": (
        """
  - {id: g, gate: approval, ask: really, on_reject: {to: h}, form: {n: int}}
  - {id: h, run: "echo {{ tasks.g.outputs.n }}"}
""",
        ["PLAN204 tasks.g.outputs.n"],
    ),
    "an output behind an optional way": (
        """
  - {id: a, run: x, outputs: {count: int}}
  - {id: b, run: x}
  - {id: c, run: x, needs: [a, b], join: any}
  - {id: d, run: "echo {{ tasks.a.outputs.count }}", needs: [c]}
""",
        ["PLAN204 tasks.a.outputs.count"],
    ),
    "outputs of what failed": (
        """
  - {id: a, run: x, on_failure: h, outputs: {count: int}}
  - {id: h, run: "echo {{ tasks.a.outputs.count }}"}
""",
        ["PLAN204 tasks.a.outputs.count"],
    ),
    "an unknown name in quoted text with escapes": (
        """
  - {id: a, uses: noop, with: {value: "a\\tb {{ params.x }}"}}
""",
        ["PLAN201 x"],
    ),
    "a wrong member of a task called as a name of the plan": (
        """
  - {id: plan, run: x, allow_failure: true}
  - {id: a, run: x, needs: plan.okk or run.ok}
""",
        ["PLAN201 okk", "PLAN201 ok"],
    ),
    "outputs that are all but a type": (
        """
  - {id: a, run: x, outputs: {x: intt, z: strnig, l: "lits[url]", f: float, d: {type: durration}}}
""",
        ["PLAN006 intt", "PLAN006 strnig", 'PLAN006 "lits[url]"', "PLAN006 float", "PLAN006 durration"],
    ),
    "an output declared as its own name": (
        """
  - {id: a, run: x, outputs: {m: m}}
""",
        ["PLAN006 m"],
    ),
    "what the result of a call in a command does not have": (
        """
  - {id: a, command: 'shell(run="x") -> s', expect: [s.exit_code == 0]}
  - {id: b, command: git.status() -> s, expect: [s.exit_code == 0, s.branch == "main"]}
""",
        ["PLAN201 exit_code", "PLAN202 exit_code"],
    ),
    "facts that there are not": (
        """
  - {id: a, run: x, when: host.oss == "linux" and host.cpus > 2MB}
  - {id: b, run: x, fresh: {when: network.onlin}, preconditions: [disk.fre > 1GB]}
""",
        ["PLAN201 oss", "PLAN205 host.cpus > 2MB", "PLAN201 onlin", "PLAN201 fre"],
    ),
    "what templates compute of kinds that do not fit": (
        """
  - {id: a, uses: noop, with: {value: "{{ 2 ** 10 }}"}}
  - {id: b, uses: noop, with: {value: "{{ params.n | upper }} {{ params.t | sum }} {{ params.n + params.t }}"}}
  - {id: c, uses: noop, with: {value: "{% for x in params.n %}{{ x | nofilter }}{% endfor %}{% if params.t %}y{% endif %}"}}
  - {id: d, uses: noop, with: {value: "{{ [x.y for x in params.l if x.n > 1 and x.m == y] }} {{ '{% name %}' }}"}}
""",
        [
            *("PLAN210 **", "PLAN205 params.n", "PLAN205 params.t", "PLAN205 params.n + params.t"),
            *("PLAN205 params.n", "PLAN208 nofilter", "PLAN205 params.t", "PLAN201 y"),
        ],
    ),
    "a name behind escapes": (
        """
  - {id: a, uses: noop, with: {value: "\\x41 run.idd \\"{{ run.id }}{{ run.idd }}\\""}}
  - {id: b, run: x, when: 'run.id == "it''s" or run.idd == "x"'}
""",
        ["PLAN201 idd", "PLAN201 idd"],
    ),
    "the second of two equal texts in one block": (
        """
  - id: a
    run: |
      echo {{ run.id }}

      echo {{ run.idd }}
        echo {{ run.idd }}
""",
        ["PLAN201 idd", "PLAN201 idd"],
    ),
    "a folded text": (
        """
  - id: a
    uses: noop
    with:
      value: >
        one {{ run.id }}
        two {{ run.idd }}
""",
        ["PLAN201 idd"],
    ),
    "a type that does not fit": (
        """
  - {id: a, uses: files.write, with: {path: a, content: b, parents: "no"}}
""",
        ["PLAN008 no"],
    ),
    "what can be no address, status, time or number of tries": (
        """
  - {id: a, uses: http.get, with: {url: 5, retries: {times: x}, expect_status: "2yy", timeout: banana}}
  - {id: b, uses: http.get, with: {url: "ftp://a/b", expect_status: [200, "300-200"], timeout: {connect: soon}}}
  - {id: c, uses: http.get, with: {url: "http://a", retries: {tims: 1}, auth: {bearer: T}, timeout: {conect: 1s}}}
  - {id: d, uses: http.poll, with: {url: "http://", until: done, fail: "jsn.a == 1"}}
""",
        [
            *("PLAN008 5", "PLAN008 x", "PLAN008 2yy", "PLAN008 banana"),
            *("PLAN008 ftp://a/b", "PLAN008 300-200", "PLAN008 soon"),
            *("PLAN008 tims", "PLAN008 bearer", "PLAN008 conect"),
            *("PLAN008 http://", "PLAN008 done", "PLAN008 jsn.a == 1"),
        ],
    ),
    "addresses, statuses, times and numbers of tries as they may be": (
        """
  - {id: a, uses: http.get, with: {url: "HTTPS://a:1?b", retries: 3, expect_status: 2xx, timeout: 5}}
  - {id: b, uses: http.get, with: {url: "{{ run.id }}", expect_status: [200, 3XX, 400-404], timeout: {total: 1m}}}
  - {id: c, uses: http.get, with: {url: "http://[::1]/", retries: {times: "{{ run.id }}", delay: 0.5}}}
  - {id: d, uses: http.poll, with: {url: "http://a", until: 'status in [200, 404] and json.a == "ok"', fail: null}}
""",
        [],
    ),
    "a shell without a script": (
        """
  - {id: a, uses: shell}
""",
        ["PLAN008 uses"],
    ),
    "a script that is a number, once": (
        """
  - {id: a, run: 5}
  - {id: b, run: true}
""",
        ["PLAN005 5", "PLAN005 true"],
    ),
    "a question that reads what nothing defines, or the outcome of the gate itself": (
        """
  - {id: g, gate: approval, ask: "Release {{ params.reff }} with {{ exit_code }}?"}
  - {id: h, gate: approval, ask: "Release {{ run.id | }}?"}
  - {id: i, gate: approval, ask: "Release {{ tasks.a.stdout }}?"}
  - {id: a, run: x}
""",
        ["PLAN201 reff", "PLAN201 exit_code", "PLAN210 |", "PLAN203 tasks.a.stdout"],
    ),
    "an edge back to an earlier task": (
        """
  - {id: a, run: x}
  - {id: b, run: x, needs: [a], on_failure: a}
""",
        ["PLAN109 a"],
    ),
    "a task that depends on a task without a way in": (
        """
  - {id: a, uses: fail, on_success: b}
  - {id: b, run: x}
  - {id: c, run: x, needs: [b]}
""",
        ["PLAN106 b", "PLAN105 b"],
    ),
}


@pytest.mark.parametrize(("tasks", "expected"), FOUND.values(), ids=FOUND.keys())
def test_lint_finds(tasks: str, expected: list[str]) -> None:
    head = "params: {n: 1, t: {default: x, type: string}, l: []}\n" if "params.l " in tasks else ""
    assert lint(tasks, head) == expected


@rows(
    ("said", "way_out"),
    [
        ("one_faild", "did you mean `one_failed`?"),
        ("majority", "a join is one of all, any, always, all_done, all_done_any, all_failed, one_failed, none_failed"),
        ("a.okk", "did you mean `ok`?"),
    ],
)
def test_a_misspelt_join_is_told_the_kinds_that_there_are(said: str, way_out: str) -> None:
    (found,) = findings(
        f"plan: p\ndefaults: {{timeout: 1m}}\ntasks:\n  - {{id: a, run: x}}\n  - {{id: b, run: y, needs: [a], join: {said}}}\n"
    )
    assert found.help == way_out


def test_the_second_of_equal_texts_is_pointed_at_in_its_own_line() -> None:
    text = (
        "plan: p\ntasks:\n  - id: a\n    timeout: 1m\n    run: |\n      echo {{ run.id }}\n\n      echo {{ run.idd }}\n"
    )
    [finding] = findings(text)
    assert Source(text).place(finding.span.start) == (8, 19)


def test_a_name_behind_escapes_is_pointed_at_in_its_template() -> None:
    text = 'plan: p\ntasks: [{id: a, uses: noop, with: {value: "\\x41 run.idd {{ run.idd }}"}, timeout: 1m}]\n'
    (finding,) = findings(text)
    assert finding.span.start == text.rindex("idd")


def test_a_need_of_a_task_that_runs_last_can_never_be_met() -> None:
    text = "plan: p\ntasks:\n  - {id: a, uses: noop, needs: [z]}\nfinally:\n  - {id: w, uses: noop}\n  - {id: z, uses: noop}\n"
    assert [finding.code for finding in findings(text) if finding.code not in QUIET] == ["PLAN108"]
    assert not findings(text.replace("needs: [z]", "needs: []"))


def test_artifacts_of_the_plan_come_from_tasks_that_exist() -> None:
    text = "plan: p\nartifacts:\n  - {name: out, from: biuld}\n  - {name: b, from: build}\ntasks:\n  - {id: build, uses: noop, artifacts: [{name: b, path: b}]}\n"
    [finding] = findings(text)
    assert finding.code == "PLAN101"
    assert text[finding.span.start : finding.span.end] == "biuld"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("  - id: b\n    run: RUN\n", "  - id: b\n    needs: [a]\n    run: RUN\n"),
        ("  - id: b\n    needs: [c]\n    run: RUN\n", "  - id: b\n    needs: [c, a]\n    run: RUN\n"),
        ("  - id: b\n    needs: []\n    run: RUN\n", "  - id: b\n    needs: [a]\n    run: RUN\n"),
        ("  - id: b\n    needs: c  # why\n    run: RUN\n", "  - id: b\n    needs: [c, a]  # why\n    run: RUN\n"),
        ("  - {id: b, run: 'RUN'}\n", "  - {id: b, needs: [a], run: 'RUN'}\n"),
    ],
)
def test_the_fix_of_a_read_out_of_order_adds_the_need(before: str, after: str) -> None:
    head = "plan: p\ndefaults: {timeout: 1m}\ntasks:\n  - {id: a, run: x}\n  - {id: c, run: x}\n"
    text = head + before.replace("RUN", "echo {{ tasks.a.stdout }}")
    source = Source(text)
    found = load(source, Registry()).findings
    assert [finding.code for finding in found] == ["PLAN203"]
    assert apply_fixes(source, found) == text
    mended = apply_fixes(source, found, unsafe=True)
    assert mended == head + after.replace("RUN", "echo {{ tasks.a.stdout }}")
    assert findings(mended) == []


def test_the_fix_works_in_the_text_notation() -> None:
    text = "plan p\n\ntask a\n  run: x\n  timeout: 1m\n\ntask b\n  run: echo {{ tasks.a.stdout }}\n  timeout: 1m\n"
    source = Source(text, "p.plan", "text")
    mended = apply_fixes(source, load(source, Registry()).findings, unsafe=True)
    assert "task b\n  needs: a\n" in mended
    assert findings(mended, "p.plan") == []


def test_no_fix_makes_a_circle() -> None:
    [finding] = [
        finding
        for finding in findings(
            "plan: p\ndefaults: {timeout: 1m}\ntasks:\n"
            "  - {id: a, run: 'echo {{ tasks.b.stdout }}'}\n  - {id: b, run: x, needs: [a]}\n"
        )
        if finding.code == "PLAN203"
    ]
    assert finding.fix is None
    assert "runs after it" in finding.message


@rows(
    ("param", "expected"),
    [
        ("{type: int, default: x}", "PLAN005 x"),
        ("{type: int, default: 1.5}", "PLAN005 1.5"),
        ("{type: duration, default: two}", "PLAN005 two"),
        ("{type: size, default: 5m}", "PLAN005 5m"),
        ('{type: bool, default: "maybe"}', 'PLAN005 "maybe"'),
        ("{type: list, default: 5}", "PLAN005 5"),
        ("{type: map, default: [a]}", "PLAN005 [a]"),
        ("{type: string, default: [a]}", "PLAN005 [a]"),
        ("{default: qa, choices: [dev, prod]}", "PLAN006 qa"),
        ("{type: duration, default: 3m, choices: [60s, 2m]}", "PLAN006 3m"),
    ],
)
def test_a_default_that_a_run_could_not_use_is_an_error_where_it_stands(param: str, expected: str) -> None:
    text = (
        f"plan: p\nparams: {{x: {param}}}\ntasks:\n  - {{id: a, uses: noop, with: {{value: '{{{{ params.x }}}}'}}}}\n"
    )
    [finding] = findings(text)
    assert f"{finding.code} {text[finding.span.start : finding.span.end]}" == expected
    assert (finding.severity, "parameter `x` takes" in finding.message) == ("error", True)


@rows(
    "param",
    [
        '{type: bool, default: "no"}',
        "{type: int, default: 2k}",
        "{type: int, default: null}",
        "{type: int, required: true}",
        '{type: list, default: "a,b"}',
        "{type: duration, default: 90}",
        "{type: duration, default: 120s, choices: [60s, 2m]}",
        "{default: dev, choices: [dev, prod]}",
        "{type: string, default: 5}",
        "text",
        "[1, 2]",
    ],
)
def test_a_default_that_a_run_takes_is_no_finding_and_binds(param: str) -> None:
    text = (
        f"plan: p\nparams: {{x: {param}}}\ntasks:\n  - {{id: a, uses: noop, with: {{value: '{{{{ params.x }}}}'}}}}\n"
    )
    loaded = load(Source(text, "p.yaml"), Registry())
    assert loaded.plan is not None, loaded.findings
    assert bind_params(loaded.plan, {"x": "1"} if "required" in param else {}).problems == ()


@rows(
    "keys",
    [
        "approval",
        "checks, checks: [a.ok]",
        "schema, evidence: [{schema: s.json, file: d.json}]",
        "invariants, checks: [a.ok]",
        "tests, evidence: [r.xml]",
        "diff",
        "decision, options: [now, later]",
    ],
)
def test_a_gate_of_any_kind_is_sound(keys: str) -> None:
    text = f"plan: p\ntasks:\n  - {{id: a, uses: noop}}\n  - {{id: g, needs: [a], gate: {keys}}}\n"
    loaded = load(Source(text, "p.yaml"), Registry())
    assert loaded.plan is not None
    gate = loaded.plan.tasks[1].gate
    assert loaded.findings == () and gate is not None and gate.kind == keys.partition(",")[0]


LIMITED = "plan: p\n# limits: {dbb: 1}\nlimits: {dbb: 1, net: 2}\ntasks:\n  - {id: a, uses: noop, labels: [db, net]}\n"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (LIMITED, "p.yaml"),
        ('{"plan": "p", "limits": {"dbb": 1}, "tasks": [{"id": "a", "uses": "noop", "labels": ["db"]}]}', "p.json"),
        ("plan p\nlimits:\n  dbb: 1\ntask a uses:noop labels:[db]\n", "p.plan"),
    ],
)
def test_a_limit_for_a_label_of_no_task_names_the_nearest_label(text: str, name: str) -> None:
    [finding] = findings(text, name)
    assert (finding.code, finding.severity, finding.span.start) == ("PLAN213", "warning", text.rindex("dbb"))
    assert "did you mean `db`?" in finding.message
    assert findings(apply_fixes(Source(text, name, notation_of(name)), [finding], unsafe=True), name) == []


def test_a_limit_with_nothing_near_lists_the_labels() -> None:
    [finding] = findings(LIMITED.replace("dbb", "machines"))
    assert finding.help == "the labels are `db`, `net`"


@pytest.mark.parametrize(
    "tasks",
    [
        "defaults: {labels: [db]}\ntasks:\n  - {id: a, uses: noop}\n",
        "tasks:\n  - {id: a, uses: noop}\nfinally:\n  - {id: z, uses: noop, labels: db}\n",
        "tasks:\n  - {id: l, loop: {max: 2, tasks: [{id: i, uses: noop, labels: [db]}]}}\n",
        "tasks:\n  - {id: s, subplan: [{id: i, uses: noop, labels: [db]}]}\n",
        "tasks:\n  - {id: s, subplan: other.yaml}\n",
    ],
)
def test_a_limit_for_a_label_that_some_task_has_or_may_have_is_no_finding(tasks: str) -> None:
    assert "PLAN213" not in {finding.code for finding in findings(f"plan: p\nlimits: {{db: 1}}\n{tasks}")}


GATED = "plan: p\npolicy:\n  gates:\n    prd: {ask: Go}\ntasks:\n  - {id: a, uses: noop, labels: [prod]}\n"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (GATED, "p.yaml"),
        ("plan: p\npolicy: {labels: {prd: diff}}\ntasks:\n  - {id: a, uses: noop, labels: [prod]}\n", "p.yaml"),
        (
            (
                '{"plan": "p", "policy": {"gates": {"prd": {"ask": "Go"}}}, '
                '"tasks": [{"id": "a", "uses": "noop", "labels": ["prod"]}]}'
            ),
            "p.json",
        ),
        ("plan p\npolicy:\n  gates:\n    prd:\n      ask: Go\ntask a uses:noop labels:[prod]\n", "p.plan"),
    ],
)
def test_a_gate_for_a_label_of_no_task_names_the_nearest_label(text: str, name: str) -> None:
    [finding] = findings(text, name)
    assert (finding.code, finding.severity, finding.span.start) == ("PLAN606", "warning", text.index("prd"))
    assert "did you mean `prod`?" in finding.message
    assert findings(apply_fixes(Source(text, name, notation_of(name)), [finding], unsafe=True), name) == []


@pytest.mark.parametrize(
    "rest",
    [
        "policy: {gates: {prod: {ask: Go}}}\ntasks:\n  - {id: s, subplan: [{id: a, uses: noop, labels: [prod]}]}\n",
        "policy: {gates: {prod: {ask: Go}}}\ntasks:\n  - {id: s, subplan: other.yaml}\n",
        "policy: {requireGateForProd: true}\ntasks:\n  - {id: a, uses: noop}\n",
        "policy: {labels: {prod: diff}}\ntasks:\n  - {id: a, uses: noop, labels: [prod]}\n",
        (
            "policy: {gates: {prod: {checks: [params.go], gate: checks}}}\nparams: {go: {type: bool}}\n"
            "tasks:\n  - {id: a, uses: noop, labels: [prod]}\n"
        ),
    ],
)
def test_a_gate_of_a_label_that_asks_something_of_some_task_is_no_finding(rest: str) -> None:
    codes = {finding.code for finding in findings(f"plan: p\n{rest}")}
    assert not codes & {"PLAN605", "PLAN606", "PLAN607"}


@pytest.mark.slow
def test_a_matrix_of_millions_is_found_at_once() -> None:
    axis = json.dumps(list(range(1000)))
    began = time.process_time()
    text = f"plan: p\ntasks:\n  - {{id: a, uses: noop, matrix: {{a: {axis}, b: {axis}, c: {axis}, exclude: [{{a: 1}}]}}}}\n"
    [finding] = [each for each in findings(text) if each.code.startswith("PLAN50")]
    assert (finding.code, "1000 × 1000 × 1000 = 1000000000 items" in finding.message) == ("PLAN508", True)
    assert time.process_time() - began < 5


def test_json_plans_are_linted_with_exact_places() -> None:
    text = '{"plan": "p", "tasks": [{"id": "a", "uses": "nop"}, {"id": "b", "uses": "noop", "needs": ["aa"]}]}'
    found = {finding.code: text[finding.span.start : finding.span.end] for finding in findings(text, "p.json")}
    assert found == {"PLAN007": "nop", "PLAN101": "aa"}


@pytest.mark.slow
def test_ten_thousand_tasks_are_checked_in_about_a_second() -> None:
    tasks = "".join(
        f"  - id: t{here}\n"
        f"    needs: [{', '.join(sorted({f't{max(0, here - 1)}', f't{max(0, here - 9)}'}))}]\n"
        f"    run: echo {{{{ params.ref }}}} {{{{ tasks.t{max(0, here - 50)}.stdout }}}}\n"
        "    expect: [exit_code == 0, duration < 5m]\n"
        for here in range(1, 10_000)
    )
    text = f"plan: p\nparams: {{ref: x}}\ndefaults: {{timeout: 1m}}\ntasks:\n  - {{id: t0, run: x}}\n{tasks}"
    start = time.process_time()
    assert findings(text) == []
    assert time.process_time() - start < 30


WORDS = st.sampled_from(
    "plan tasks id a b c-d needs run uses noop shell with value expect join any when next on_failure to on success loop max "
    "until gate approval on_reject rework params timeout 30 outputs {{ }} {{tasks.a.stdout}} {{params.}} {% if %} [ ] { } : - | "
    "> && or and not == tasks.a.outputs.x duration 5m $2 \" ' # \n \t * & role MERGE finally foreach subplan true null".split(
        " "
    )
)


@settings(max_examples=150)
@given(st.lists(WORDS, max_size=60), st.sampled_from(["p.yaml", "p.plan", "p.json"]))
def test_lint_ends_with_a_verdict_for_any_words(words: list[str], name: str) -> None:
    text = "plan: p\ntasks:\n  - id: a\n    run: x\n" + " ".join(words)
    for finding in findings(text, name):
        assert 0 <= finding.span.start <= finding.span.end


@settings(max_examples=150)
@given(st.data())
def test_lint_ends_with_a_verdict_for_any_shape_of_tasks(data: st.DataObject) -> None:
    import json

    ids = st.sampled_from(["a", "b", "c", "d-*"])
    texts = st.sampled_from(
        [
            "x",
            "{{ tasks.a.stdout }}",
            "{{ tasks.b.outputs.n | default(1) }}",
            "tasks.c.ok",
            "a.ok and b.failed",
            "1 > 2",
        ]
    )
    shapes = st.fixed_dictionaries(
        {"id": ids},
        optional={
            "needs": st.lists(ids, max_size=3) | ids | texts,
            "run": texts | st.lists(texts, max_size=2),
            "uses": st.sampled_from(["noop", "nope", "shell", "fail"]),
            "with": st.dictionaries(st.sampled_from(["value", "x"]), texts | st.lists(texts, max_size=2), max_size=2),
            "when": texts,
            "join": st.sampled_from(["any", "all_done", "all_failed"]) | st.just({"at_least": 2}),
            "expect": st.lists(texts, max_size=2),
            "on_failure": ids | st.fixed_dictionaries({"to": ids}, optional={"recovers": st.booleans(), "when": texts}),
            "next": st.lists(st.fixed_dictionaries({"to": ids}, optional={"on": texts, "when": texts}), max_size=2),
            "role": st.sampled_from(["START", "MERGE", "odd"]),
            "outputs": st.just({"n": "int"}),
            "allow_failure": st.booleans(),
            "loop": st.just({"max": 2, "until": "tasks.q.ok", "tasks": [{"id": "q", "run": "x", "needs": ["q"]}]}),
        },
    )
    plan = {"plan": "p", "tasks": data.draw(st.lists(shapes, min_size=1, max_size=5))}
    text = json.dumps(plan, indent=data.draw(st.sampled_from([None, 1])))
    for finding in findings(text, "p.json"):
        assert 0 <= finding.span.start <= finding.span.end <= len(text)


@pytest.mark.parametrize(
    ("paths", "told"),
    [
        ("../up", "it lies outside the directory of the run"),
        ("/etc/passwd", "it lies outside the directory of the run"),
        ("a/../..", "it lies outside the directory of the run"),
        (".", "that is the whole directory, which is `checkpoint: true`"),
        ("{{ params.x }}", "its paths are literal and cannot hold templates"),
    ],
)
def test_a_checkpoint_keeps_only_what_lies_below_the_directory_of_the_run(paths: str, told: str) -> None:
    text = f"plan: p\ndefaults: {{timeout: 5m}}\ntasks:\n  - {{id: a, run: x, checkpoint: {{paths: ['out/**', '{paths}']}}}}\n"
    found = [finding for finding in findings(text) if finding.code == "PLAN006"]
    assert [finding.message for finding in found] == [f"a checkpoint cannot keep `{paths}`: {told}"]
    assert text[found[0].span.start : found[0].span.end] == f"'{paths}'"


def test_checkpoints_of_tasks_and_loops_are_nothing_to_remark_on() -> None:
    text = (
        "plan: p\ndefaults: {timeout: 5m}\ntasks:\n"
        "  - {id: a, checkpoint: true, loop: {max: 2, checkpoint: 1, tasks: [{id: b, run: x, checkpoint: false}]}}\n"
    )
    assert findings(text) == []


@rows(
    ("action", "expected"),
    [
        ("{uses: files.delete, with: {path: a, recursive: maybe}}", ["PLAN008 maybe"]),
        ("{uses: files.delete, with: {path: a, recursive: true}}", []),
        ("{uses: files.delete, with: {path: 3}}", []),
        ("{uses: files.delete, with: {path: a, nope: 1}}", ["PLAN008 nope"]),
        ("{uses: files.delete, with: {pth: a}}", ["PLAN008 pth"]),
        ("{uses: files.delete}", ["PLAN008 files.delete"]),
        ("{uses: sleep, with: {duration: soon}, timeout: 1m}", ["PLAN008 soon"]),
        ('{uses: sleep, with: {duration: "{{ env.T }}"}}', []),
        ('{timeout: 5s, uses: http.get, with: {url: "http://u", timeout: [soon]}}', ["PLAN008 [soon]"]),
        ("{uses: files.edit, with: {blocks: [{path: a, serch: b}]}}", ["PLAN008 serch"]),
        ("{run: rm x}", []),
        ("{uses: shell, run: rm x}", []),
        ("{uses: noop}", []),
    ],
)
def test_inputs_of_what_undoes_a_task_are_checked_as_those_of_tasks(action: str, expected: list[str]) -> None:
    assert lint(f"  - id: a\n    run: x maybe soon nope pth\n    rollback: {action}\n") == expected


def test_the_finding_about_an_input_says_whose_it_is_and_mends_it() -> None:
    text = "plan: p\ntasks:\n  - {id: a, run: x, timeout: 1m, rollback: {uses: files.delete, with: {pth: a}}}\n"
    (finding,) = findings(text)
    assert finding.message == "`files.delete` takes no input `pth`, did you mean `path`?"
    assert finding.fix is not None
    assert findings(text.replace("pth", "path")) == []
    (finding,) = findings(text.replace(", with: {pth: a}", ""))
    assert finding.message == "`files.delete` needs the input `path` under `with:` of `rollback`"


def test_a_misspelt_key_of_a_citation_is_told_with_the_right_one() -> None:
    text = "plan: p\ntasks:\n  - {id: a, uses: kb.claim, timeout: 1m, with: {statement: x, citations: [%s]}}\n"
    sound = findings(text % "{file: a.txt, quote: q}, {url: 'https://a.b', start: 0, end: 1}, '{{ now }}'")
    assert [finding for finding in sound if finding.severity == "error"] == []
    told = findings(text % "{file: a.txt}, {flie: a.txt}, {file: a.txt, qoute: q}")
    assert [finding.message for finding in told if finding.severity == "error"] == [
        "input `citations[1]` of `kb.claim` has no key `flie`, did you mean `file`?",
        "input `citations[2]` of `kb.claim` has no key `qoute`, did you mean `quote`?",
    ]


@pytest.mark.parametrize(("confidence", "codes"), [("0", []), ("0.5", []), ("'{{ 0.5 }}'", []), ("7", ["PLAN008"])])
def test_a_confidence_is_from_0_to_1(confidence: str, codes: list[str]) -> None:
    text = f"plan: p\ntasks:\n  - {{id: a, uses: kb.claim, timeout: 1m, with: {{statement: x, confidence: {confidence}}}}}\n"
    assert [finding.code for finding in findings(text) if finding.severity == "error"] == codes


def test_an_input_whose_value_does_not_fit_the_nearest_one_is_not_renamed() -> None:
    head = "plan: p\ntasks:\n  - {id: a, uses: git.push, timeout: 1m, with: "
    meant = "`git.push` takes no input `refs`, did you mean `ref`?"
    for inputs, mends in (("{refs: [a, b]}", False), ("{refs: a, ref: b}", False), ("{refs: a}", True)):
        found = [each for each in findings(head + inputs + "}\n") if each.message == meant]
        assert [each.fix is not None for each in found] == [mends], inputs


def test_a_rollback_in_words_names_its_step_and_both_ways_out() -> None:
    (finding,) = findings("plan: p\ntasks:\n  - {id: tag-it, run: x, timeout: 1m, rollback: by hand}\n")
    assert finding.code == "PLAN608"
    assert "`tag-it`" in finding.message
    for way in ("`rollback: {run: …}`", "`rollback: {uses: …}`", "`irreversible: true`"):
        assert way in (finding.help or "")
    said = "plan: p\ntasks:\n  - {id: tag-it, run: x, timeout: 1m, irreversible: true, description: by hand}\n"
    assert findings(said) == []


CONTROL = "a name of an artifact has no control characters: no line breaks, no tabs, no marks of direction"


@rows("name", ["a\\tb", "a\\nb", "a\\n", "\\e[2J", "a\\u202eb", "a\\x7f"])
@rows("form", ['{{name: "{0}", path: a}}', '"{0}"'])
def test_a_name_of_an_artifact_has_no_control_characters(name: str, form: str) -> None:
    text = f"plan: p\ntasks:\n  - {{id: a, run: x, timeout: 1m, artifacts: [{form.format(name)}]}}\n"
    (finding,) = findings(text)
    assert (finding.severity, finding.help) == ("error", CONTROL)


@pytest.mark.parametrize("name", ["my report", "Übersicht 2.pdf", "a/b c.txt", "été", "報告"])
def test_a_name_of_an_artifact_may_have_spaces_and_letters_of_any_script(name: str) -> None:
    text = "plan: p\ntasks:\n  - {id: a, run: x, timeout: 1m, artifacts: ['%s', {name: '%s', path: a}]}\n"
    assert findings(text % (name, name)) == []


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ("plan: part.yaml", ["a task has no key `plan`, did you mean `subplan`?"]),
        ("tasks: [{id: b, run: x}]", ["a task has no key `tasks`, did you mean `subplan`?"]),
        (
            "matrix: {os: [a]}, run: 'echo {{ item.os }}'",
            ["`item` is not defined here (did you mean `matrix`?)"],
        ),
        (
            "run: x, retry: {attempts: 2, backoff: 2s}",
            ["`backoff` must be `fixed`, `linear` or `exponential`, not `2s` (wait between attempts: `delay: 200ms`)"],
        ),
    ],
)
def test_the_usual_slips_of_a_first_plan_are_told_with_the_right_word_and_nothing_beside(
    keys: str, told: list[str]
) -> None:
    text = f"plan: p\ndefaults: {{timeout: 5m}}\ntasks:\n  - {{id: a, {keys}}}\n"
    assert [each.message + (f" ({each.help})" if each.help else "") for each in findings(text)] == told


@pytest.mark.parametrize(
    ("task", "read", "help_"),
    [
        ("run: x, stdout: text", "stdout", "`stdout: text` gives the output `value`"),
        ("run: x", "stdout", "its result is `tasks.a.stdout`"),
        ("run: [x]", "exit_code", "its result is `tasks.a.exit_code`"),
    ],
)
def test_the_result_of_a_script_is_not_among_its_outputs(task: str, read: str, help_: str) -> None:
    text = f"plan: p\ndefaults: {{timeout: 5m}}\ntasks:\n  - {{id: a, {task}}}\n"
    text += f"  - {{id: b, needs: [a], run: 'echo {{{{ tasks.a.outputs.{read} }}}}'}}\n"
    told = [(each.code, each.message, each.help) for each in findings(text)]
    assert told == [("PLAN202", f"task `a` has no output `{read}`", help_)]


def test_spending_without_limits_is_one_finding_for_the_plan() -> None:
    step = "uses: llm.complete, with: {prompt: x}"
    tasks = f"  - {{id: a, {step}}}\n  - {{id: c, subplan: [{{id: d, {step}}}]}}\n  - {{id: e, {step}, budgets: {{cost: $1}}}}\n"
    text = f"plan: p\ndefaults: {{timeout: 5m}}\nbudgets: {{cost: $3}}\ntasks:\n{tasks}"
    found = [finding for finding in findings(text) if finding.code == "PLAN506"]
    assert [finding.message for finding in found] == [
        "2 tasks spend cost, which a budget limits, without a limit of their own: `a`, `d`"
    ]
    assert [text[label.span.start : label.span.end] for label in found[0].labels] == ["uses"]


@pytest.mark.parametrize("key", ["foreach: 5", "when: 5", "needs: 5", "join: 5", "matrix: {a: 5}"])
def test_a_number_where_an_expression_stands_is_not_put_in_quotes(key: str) -> None:
    found = [
        finding for finding in findings(f"plan: p\ntasks:\n  - {{id: a, {key}, run: x}}\n") if finding.code == "PLAN005"
    ]
    assert [finding.fix for finding in found] == [None]


def test_a_number_of_items_is_offered_as_a_range() -> None:
    (found,) = [
        each for each in findings("plan: p\ntasks:\n  - {id: a, foreach: 5, run: x}\n") if each.code == "PLAN005"
    ]
    assert "`range(5)`" in found.help
    assert findings("plan: p\ntasks:\n  - {id: a, foreach: range(5), run: x, timeout: 1m}\n") == []


def test_the_kind_of_what_a_script_prints_is_known() -> None:
    text = "plan: p\ndefaults: {timeout: 5m}\ntasks:\n  - {id: a, run: x, stdout: text}\n"
    text += "  - {id: b, needs: [a], run: x, when: tasks.a.outputs.value == 4}\n"
    assert [(each.code, each.message) for each in findings(text)] == [
        ("PLAN205", "`tasks.a.outputs.value == 4`: text is compared with a number")
    ]


GATE = """plan: p
defaults: {timeout: 1m}
hypotheses: {disk: It is full}
tasks:
  - {id: set, run: x, evidence: [{hypothesis: disk, supports: exit_code == 0}]}
  - {id: pick, needs: [set], gate: decision, ask: Which, options: [disk, set, not-yet], choose: %s}
"""


@rows(
    ("choose", "message", "help_", "fix"),
    [
        (
            "disk",
            "`disk` is read as an expression, not as the name of an option",
            "an option is text: `%s'disk'\"`",
            "",
        ),
        ("set", "`set` is read as an expression, not as the name of an option", "an option is text: `%s'set'\"`", ""),
        (
            "not-yet",
            "`not-yet` is read as an expression, not as the name of an option",
            "an option is text: `%s'not-yet'\"`",
            "",
        ),
        ("dsik", "`dsik` is not defined here", "an option is text: `%s'disk'\"`", ""),
        ("pikc", "`pikc` is not defined here", "", ""),
        ("\"'disk' if tasks.set.ok else dsik\"", "`dsik` is not defined here", "", ""),
        ("\"'disk' if tasks.set.ok else disk\"", "`disk` is not defined here", "an option is text: `'disk'`", ""),
        ("\"'dsik'\"", "`'dsik'` is not the name of an option", "did you mean `'disk'`?", "write `'disk'`"),
        (
            "\"'other' if tasks.set.ok else 'disk'\"",
            "`'other'` is not the name of an option",
            "its options are `disk`, `set`, `not-yet`",
            "",
        ),
    ],
)
def test_a_choice_that_is_no_option_is_told_with_the_option_that_was_meant(
    choose: str, message: str, help_: str, fix: str
) -> None:
    [found] = findings(GATE % choose)
    wanted = help_ % 'choose: "' if "%s" in help_ else help_
    assert (found.message, found.help, found.fix.title if found.fix else "") == (message, wanted, fix)


@pytest.mark.parametrize(
    "choose", ["hypotheses.best", "tasks.set.stdout", "\"'disk'\"", "\"hypotheses.best if 1 > 2 else ''\""]
)
def test_a_choice_that_may_be_an_option_is_no_finding(choose: str) -> None:
    assert [finding.code for finding in findings(GATE % choose) if finding.severity == "error"] == []


AGENT = 'tasks:\n  - {id: a, agent: {model: m}, budgets: {cost: $1}, %s}\n  - {id: b, needs: [a], run: "echo {{ tasks.a.outputs.n }}"}\n'
GUESS = "hypotheses: {disk: It is full}\ntasks:\n  - {id: a, run: x, evidence: [{hypothesis: %s: exit_code == 0}]}\n"


@rows(
    ("tasks", "told"),
    [
        (AGENT % "promt: x, schema: {n: int}", ["a task has no key `promt`, did you mean `prompt`?"]),
        (AGENT % "prompt: x, schema: n int", ["`schema` must be a mapping, not the text `n int`"]),
        (
            "tasks:\n  - {id: a, agent: {model: m, tool: [files.read]}, budgets: {cost: $1}, prompt: x, denied: [files.read]}\n",
            ["an agent has no key `tool`, did you mean `tools`?"],
        ),
        (
            "tasks:\n  - {id: a, agent: {model: m}, budgets: {cost: $1}, prompt: x, until: {rum: x, timeout: 1m}}\n",
            ["the task of `until` has no key `rum`, did you mean `run`?"],
        ),
        (GUESS % "disk, suports", ["evidence for a hypothesis has no key `suports`"]),
        (GUESS % "dsik, supports", ["evidence is about `dsik`, which is not a hypothesis of the plan"]),
        (
            (
                "tasks:\n  - {id: a, rum: x, stdout: json, outputs: {n: int}}\n"
                '  - {id: b, need: [a], run: "echo {{ tasks.a.outputs.n }}"}\n'
            ),
            ["a task has no key `rum`, did you mean `run`?", "a task has no key `need`, did you mean `needs`?"],
        ),
        ("taks:\n  - {id: a, run: x}\n", ["the plan has no key `taks`, did you mean `tasks`?"]),
        ("tasks:\n  - {idd: a, run: x}\n", ["a task has no key `idd`, did you mean `id`?"]),
    ],
)
def test_a_slip_is_told_once_and_not_as_what_follows_from_it(tasks: str, told: list[str]) -> None:
    text = f"plan: p\ndefaults: {{timeout: 5m}}\nbudgets: {{cost: $1}}\n{tasks}"
    assert [finding.message for finding in findings(text)] == told


@pytest.mark.parametrize(
    ("task", "message", "help_"),
    [
        (
            "uses: shell, with: {run: [echo, x]}",
            "`shell` has nothing to run",
            "`run` stands beside `id`, not under `with`",
        ),
        ("uses: shell", "`shell` has nothing to run", "give it `run: …`, a script or a list of arguments"),
        (
            'run: x, when: "params.x ? true : false"',
            "`?` is not expected here",
            "one of two values is written `b if a else c`",
        ),
        (
            "run: \"echo {{ params.x ? 'a' : 'b' }}\"",
            "the template does not parse: `?` is not expected here",
            "one of two values is written `b if a else c`",
        ),
    ],
)
def test_what_is_written_elsewhere_is_told_as_it_is_written_here(task: str, message: str, help_: str) -> None:
    text = f"plan: p\ndefaults: {{timeout: 5m}}\nparams: {{x: bool}}\ntasks:\n  - {{id: a, {task}}}\n"
    told = [finding for finding in findings(text) if finding.severity == "error"]
    assert [(finding.message, finding.help) for finding in told] == [(message, help_)]


@rows(
    ("name", "meant"),
    [
        ("docker_build", "docker.build"),
        ("docker_remove", "docker.image_remove"),
        ("container.run", "docker.run"),
        ("kubectl_apply", "kubectl.apply"),
        ("web.search", "research.search"),
        ("web.fetch", "research.fetch"),
        ("search", "research.search"),
        ("db.query", "sql.query"),
        ("file.edit", "files.edit"),
        ("pytest", "validate.pytest"),
        ("gti.comit", "git.commit"),
    ],
)
def test_a_capability_by_another_name_is_told_by_its_own(name: str, meant: str) -> None:
    text = f"plan: p\ndefaults: {{timeout: 5m}}\ntasks:\n  - {{id: a, uses: {name}}}\n"
    told = [finding.message for finding in findings(text) if finding.code == "PLAN007"]
    assert told == [f"unknown capability `{name}`, did you mean `{meant}`?"]


def test_a_family_by_another_name_is_told_with_its_capabilities() -> None:
    (told,) = [each for each in findings("plan: p\ntasks:\n  - {id: a, uses: db}\n") if each.code == "PLAN007"]
    assert told.help == "the family `sql` has `sql.execute`, `sql.query`, `sql.script`"


@pytest.mark.parametrize(
    ("task", "key", "help_"),
    [
        ("run: x, backoff: fixed", "backoff", "it belongs under `retry`: `retry: {backoff: …}`"),
        ("run: x, cost: $2", "cost", "it belongs under `budgets`: `budgets: {cost: …}`"),
        ("run: x, attempts: 3", "attempts", ""),
    ],
)
def test_a_key_of_a_section_is_told_with_the_section(task: str, key: str, help_: str) -> None:
    text = f"plan: p\ndefaults: {{timeout: 5m}}\ntasks:\n  - {{id: a, {task}}}\n"
    told = [(each.message, each.help) for each in findings(text) if each.code == "PLAN003"]
    assert told == [(f"a task has no key `{key}`", help_)]


def test_an_output_without_its_task_is_told_with_it() -> None:
    text = (
        "plan: p\ndefaults: {timeout: 5m}\ntasks:\n  - {id: m, run: x, outputs: {total: int}}\n"
        "  - {id: b, needs: m, when: total > 3, run: 'echo {{ total }} {{ other }}'}\n"
    )
    told = [(each.message, each.help) for each in findings(text) if each.code == "PLAN201"]
    meant = "did you mean `tasks.m.outputs.total`?"
    assert told[:2] == [("`total` is not defined here", meant)] * 2
    assert "outputs" not in told[2][1]


@rows(
    ("task", "help_"),
    [
        ("run: x, expect: [disk.free >= 1GB]", "`disk` is read before a task starts: in `when`, `preconditions` and `fresh`; or mark plain words: `- judge: …`"),
        ("run: x, expect: ['output contains \"hi\"']", "did you mean `stdout`? or mark plain words: `- judge: …`"),
        ("run: 'echo {{ stdout }}'", "`stdout` is known once the task has ended: in `expect` and `next`; of another task it is `tasks.ID.stdout`"),
        ("run: x, when: exit_code == 0", "`exit_code` is known once the task has ended: in `expect` and `next`; of another task it is `tasks.ID.exit_code`"),
        ("run: 'echo {{ item }}'", "`item` is there in tasks with `foreach` and in those inside them"),
        ("loop: {max: 2, until: 'item == 1', tasks: [{id: b, run: x}]}", "`item` is there in tasks with `foreach` and in those inside them"),
        ("foreach: [1], run: 'echo {{ carry.n }}'", "`carry` is there in the tasks of a `loop` and in its `until`"),
        ("run: 'echo {{ nothing }}'", ""),
    ],
)  # fmt: skip
def test_a_name_in_the_wrong_place_is_told_where_it_is_known(task: str, help_: str) -> None:
    told = findings(f"plan: p\ndefaults: {{timeout: 5m}}\ntasks:\n  - {{id: a, {task}}}\n")
    told = [each for each in told if each.code == "PLAN201"]
    assert [each.help if help_ else "is there" in each.help for each in told] == [help_ or False]


@pytest.mark.parametrize(
    ("default", "condition", "kind"),
    [
        ("200ms", "duration < params.limit", "duration"),
        ("10MB", "params.limit > 1KB", "size"),
        ("$2", "params.limit >= $1", "money"),
    ],
)
def test_a_parameter_that_is_text_by_its_default_is_no_amount(default: str, condition: str, kind: str) -> None:
    plan = "plan: p\nparams: {limit: %s}\ntasks:\n  - {id: a, run: x, timeout: 1m, expect: ['%s']}\n"
    [found] = findings(plan % (default, condition))
    assert (found.code, found.message) == ("PLAN205", f"`{condition}`: `params.limit` is text")
    assert found.help == f"declare it: `limit: {{type: {kind}, default: …}}`"
    assert findings(plan % (f"{{type: {kind}, default: {default}}}", condition)) == []
    assert findings(plan % ("x", "params.limit == stdout")) == []


def test_what_a_task_reads_of_itself_is_told_how_it_is_read() -> None:
    text = "plan: p\ndefaults: {timeout: 5m}\ntasks:\n  - {id: m, run: x, outputs: {f: string}, artifacts: ['{{ tasks.m.outputs.f }}']}\n"
    assert "may be a pattern" in findings(text)[0].help
    text = "plan: p\ndefaults: {timeout: 5m}\ntasks:\n  - {id: m, run: 'echo {{ tasks.m.outputs.f }}', outputs: {f: string}}\n"
    assert "its outputs are `outputs.NAME`" in findings(text)[0].help


def test_a_time_budget_of_the_plan_bounds_its_subplans_too() -> None:
    subplans = "subplans: {check: {tasks: [{id: look, run: x}]}}\ntasks: [{id: c, subplan: check}]\n"
    assert "PLAN501" in {each.code for each in findings(f"plan: p\n{subplans}")}
    assert "PLAN501" not in {each.code for each in findings(f"plan: p\nbudgets: {{time: 10m}}\n{subplans}")}


@pytest.mark.parametrize(("key", "help_"), [("tools: {deny: [x]}", "capabilities"), ("data: internal", "description")])
def test_a_key_of_a_policy_that_no_plan_has_is_told_with_what_it_says_instead(key: str, help_: str) -> None:
    text = f"plan: p\npolicy: {{{key}}}\ntasks: [{{id: a, run: x, timeout: 1m}}]\n"
    (told,) = [finding for finding in findings(text) if finding.code == "PLAN020"]
    assert help_ in told.help


@rows(
    ("task", "told"),
    [
        ("{id: a, with: {topic: x}, run: 'echo \"$topic\"'}", ["topic"]),
        ("{id: a, with: {path: x}, run: 'cat ${path}; cat $path'}", ["path"]),
        ("{id: a, env: {REF: x}, run: echo look for $ref}", ["ref"]),
        ("{id: a, with: {topic: x}, run: read -r topic; echo $topic}", []),
        ("{id: a, with: {topic: x}, run: echo $TOPIC $other}", []),
        ("{id: a, with: {topic: x}, run: \"echo '$topic' # $topic\"}", []),
        ("{id: a, with: {topic: x}, run: topic=y; echo $topic}", []),
        ("{id: a, with: {topic: x}, run: 'for topic in 1 2; do echo $topic; done'}", []),
        ("{id: a, env: {REF: x, ref: y}, run: echo $ref}", []),
    ],
)
def test_a_variable_by_another_spelling_is_told_where_it_is_read(task: str, told: list[str]) -> None:
    text = f"plan: p\ndefaults: {{timeout: 5m}}\ntasks:\n  - {task}\n"
    found = [finding for finding in findings(text) if finding.code == "PLAN234"]
    assert [text[finding.span.start : finding.span.end] for finding in found] == told


@pytest.mark.parametrize(
    ("memory", "told"),
    [
        ("{keys: [terms, claims]}", []),
        ("[terms]", []),
        (
            "{keys: [terms, clams]}",
            [
                "the memory key `clams` of the plan has no effect in this version: no task has it, did you mean `claims`?"
            ],
        ),
        (
            "{keys: [terms], layer: global}",
            ["`layer` in the `memory` of a plan has no effect in this version: each task has its own"],
        ),
    ],
)
def test_memory_keys_of_a_plan_are_those_of_its_tasks(memory: str, told: list[str]) -> None:
    text = (
        f"plan: p\ndefaults: {{timeout: 5m}}\nmemory: {memory}\ntasks:\n"
        "  - {id: a, uses: memory.put, with: {key: terms, value: 1}}\n"
        "  - {id: l, loop: {max: 2, tasks: [{id: b, uses: memory.get, with: {key: claims}}]}}\n"
    )
    assert [finding.message for finding in findings(text) if finding.code == "PLAN021"] == told
    if "clams" in memory:
        text = text.replace("key: claims", "key: '{{ params.key }}'")
        assert "PLAN021" not in {finding.code for finding in findings(text)}


@pytest.mark.parametrize(
    "way",
    [
        "on_failure: {to: mirror, recovers: true}",
        "failure_modes: [{name: x, detect: exit_code == 75, recover: mirror}]",
    ],
)
@pytest.mark.parametrize(
    "read", ['run: "echo {{ tasks.fetch.outputs.n }}"', 'run: work, when: "tasks.fetch.outputs.n > 1"']
)
def test_an_output_that_a_task_which_stands_in_does_not_give_may_be_missing(way: str, read: str) -> None:
    tasks = f"""
    - {{id: fetch, run: work, timeout: 1m, outputs: {{n: int, from: string}}, {way}}}
    - {{id: mirror, run: work, timeout: 1m, outputs: {{from: string}}}}
    - {{id: use, needs: [fetch], timeout: 1m, {read}}}
    """

    def missing(text: str) -> bool:
        return any(said.startswith("PLAN204") for said in lint(text))

    assert missing(tasks)
    assert not missing(tasks.replace("outputs.n", "outputs.from").replace("> 1", "== 'a'"))
    assert not missing(tasks.replace("tasks.fetch.outputs.n", "default(tasks.fetch.outputs.n, 1)"))


def test_a_unit_in_another_word_is_named_where_it_fits() -> None:
    text = "plan: p\ndeadline: 50min\ntasks: [{id: a, run: ls, timeout: 5 minutes, retry: {delay: 10 MB}}]\n"
    assert [each.message for each in findings(text) if each.code == "PLAN006"] == [
        "`50min` looks like a duration but is not one, did you mean `50m`?",
        "`timeout` cannot be `5 minutes`, did you mean `5m`?",
        "`delay` cannot be `10 MB`",
    ]


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (
            "git.commit, with: {message: m, paths: [v]}",
            ["`git.commit` takes no input `message`, did you mean `subject`, which is missing?"],
        ),
        (
            "files.write, with: {path: p, text: t}",
            ["`files.write` takes no input `text`, did you mean `content`, which is missing?"],
        ),
        (
            "files.write, with: {path: p, lines: [t]}",
            ["`files.write` needs the input `content`", "`files.write` takes no input `lines`"],
        ),
    ],
)
def test_an_input_by_another_name_is_taken_for_the_one_that_is_missing(call: str, told: list[str]) -> None:
    text = f"plan: p\ntasks: [{{id: a, uses: {call}, timeout: 1m}}]\n"
    assert sorted(each.message for each in findings(text) if each.code == "PLAN008") == told


def test_a_unit_in_another_word_is_named_in_inputs_too() -> None:
    text = "plan: p\ntasks: [{id: a, uses: sleep, with: {duration: 5 seconds}}, {id: b, uses: sleep, with: {duration: 1mb}}]"
    assert [each.message for each in findings(text) if each.code == "PLAN008"] == [
        "input `duration` of `sleep` is `5 seconds`, did you mean `5s`?",
        "input `duration` of `sleep` is `1mb`, expected a duration such as `30s` or `5m`",
    ]


def test_a_number_is_not_put_in_quotes_where_text_is_a_template() -> None:
    text = "plan: p\ntasks: [{id: a, uses: files.write, with: {path: a, content: b, parents: 5}, timeout: 1m}]"
    [finding] = [each for each in findings(text) if each.code == "PLAN005"]
    assert finding.message == "`parents` must be true or false or text, not the number 5" and finding.fix is None
