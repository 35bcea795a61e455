"""The command language: what is a command, what its names stand for, and which tasks it becomes."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rows import rows

from planrunner.app.plans.lint import convert_text
from planrunner.plan.commands.calls import CommandError
from planrunner.plan.commands.parse import parse
from planrunner.plan.commands.statements import looks_like_calls
from planrunner.plan.files import File
from planrunner.plan.identity import digest
from planrunner.plan.load import Loaded, load
from planrunner.plan.model import Capability, Field
from planrunner.plugins.registry import Registry
from planrunner.source import Source, notation_of

SEARCH = Capability(
    "research.search",
    inputs=(Field("query", "string", True), Field("limit", "int")),
    outputs=(Field("query", "string"), Field("results", "list"), Field("tried", "list")),
)
FETCH = Capability(
    "research.fetch",
    inputs=(Field("sources", "list", True), Field("within", "duration")),
    outputs=(Field("documents", "list"),),
)
RANK = Capability("research.rank", inputs=(Field("documents", "any"),), outputs=(Field("ranked", "list"),))
NOOP = Capability("noop", inputs=(Field("value"),), outputs=(Field("value"),), instant=True)
SHELL = Capability("shell", takes_run=True, open_outputs=True)
COMPLETE = Capability("llm.complete", inputs=(Field("prompt", "string", True),), outputs=(Field("text", "string"),))
GLOB = Capability("files.glob", inputs=(Field("pattern", "string", True),), outputs=(Field("files", "list"),))
OTHER = Capability("tree.glob", inputs=(Field("pattern", "string", True),), outputs=(Field("files", "list"),))


class Installed:
    def __init__(self, *more: Capability) -> None:
        self._known = {each.name: each for each in (SEARCH, FETCH, RANK, NOOP, SHELL, COMPLETE, *more)}

    def find(self, name: str) -> Capability | None:
        return self._known.get(name)

    def names(self) -> tuple[str, ...]:
        return tuple(self._known)


def loaded(text: str, *more: Capability, name: str = "x.yaml") -> Loaded:
    return load(Source(text, name, notation_of(name)), Installed(*more))


def errors(text: str, *more: Capability) -> list[str]:
    return [f"{found.code} {found.message}" for found in loaded(text, *more).findings if found.severity == "error"]


def plan(command: str, keys: str = "", head: str = "params: {topic: http}\n") -> str:
    lines = "".join(f"      {line}\n" for line in command.split("\n"))
    rest = "".join(f"    {line}\n" for line in keys.split("\n") if line)
    return f"plan: p\n{head}defaults: {{timeout: 1m}}\ntasks:\n  - id: a\n{rest}    command: |\n{lines}"


def calls(
    command: str, keys: str = "", head: str = "params: {topic: http}\n", more: tuple[Capability, ...] = ()
) -> Any:
    result = loaded(plan(command, keys, head), *more)
    assert result.plan is not None, [found.message for found in result.findings]
    return result.plan.tasks[-1].subplan


def test_the_command_of_s3_becomes_three_calls_in_order() -> None:
    top10, docs, sources = calls("search(topic) -> top10; fetch(top10) -> docs; rank(docs) -> sources")
    assert [(each.id, each.uses, each.needs) for each in (top10, docs, sources)] == [
        ("top10", "research.search", ()),
        ("docs", "research.fetch", ("top10",)),
        ("sources", "research.rank", ("docs",)),
    ]
    assert top10.inputs == {"query": "{{ params.topic }}"}
    assert docs.command == "fetch(top10) -> docs"


def test_a_result_is_the_map_of_outputs_where_a_map_fits_and_else_its_first_output_of_the_type() -> None:
    _, docs, ranked = calls("search('x') -> top10; fetch(top10) -> docs; rank(top10) -> r")
    assert docs.inputs == {"sources": "{{ tasks.top10.outputs.results }}"}
    assert ranked.inputs == {"documents": "{{ tasks.top10.outputs }}"}


def test_members_and_items_of_results_are_read_by_paths() -> None:
    _, said = calls(
        "search('x') -> top10; noop([top10.results[0].url, top10.results[1]['a b'], {q: top10.query}]) -> v"
    )
    assert said.inputs["value"] == [
        "{{ tasks.top10.outputs.results[0].url }}",
        '{{ tasks.top10.outputs.results[1]["a b"] }}',
        {"q": "{{ tasks.top10.outputs.query }}"},
    ]


@pytest.mark.parametrize("given", ["{attempts: 4}", "{attempts: '{{ params.n }}'}"])
def test_retries_by_default_are_for_the_calls_and_not_for_the_sequence(given: str) -> None:
    head = f"plan: p\nparams: {{n: 4}}\ndefaults: {{timeout: 1m, retry: {given}}}\ntasks:\n  - id: a\n"
    whole = loaded(f"{head}    command: noop(1) -> x; noop(x) -> y\n").plan
    own = loaded(f"{head}    retry: 2\n    command: noop(1) -> x; noop(x) -> y\n").plan
    assert whole is not None and own is not None
    assert (whole.tasks[0].retry.attempts, whole.tasks[0].computed) == (1, ())
    assert own.tasks[0].retry.attempts == 2
    for call in (*whole.tasks[0].subplan, *own.tasks[0].subplan):
        assert call.retry.attempts == 4 or [each.name for each in call.computed] == ["retry.attempts"]


def test_literals_keep_their_types_and_quantities_their_units() -> None:
    (said,) = calls('noop([1, -2, 1.5, true, null, "a\\n;b", \'c\', 10m, 50MB, $2, 80%, {"k-1": [], x: {}}])')
    assert said.inputs["value"] == [
        1,
        -2,
        1.5,
        True,
        None,
        "a\n;b",
        "c",
        "10m",
        "50MB",
        "$2",
        "80%",
        {"k-1": [], "x": {}},
    ]
    assert said.id == "call-1"


def test_a_call_may_run_over_lines_and_hold_comments() -> None:
    found = calls(
        "# first\nsearch(\n  query='a # b',  # not a comment in quotes\n  limit=3,\n)\n  -> top10\n\n"
        "fetch(top10,\n within=10s) -> docs ; noop(docs)"
    )
    assert [(each.id, each.uses) for each in found] == [
        ("top10", "research.search"),
        ("docs", "research.fetch"),
        ("call-3", "noop"),
    ]
    assert found[0].inputs == {"query": "a # b", "limit": 3}
    assert found[1].inputs["within"] == "10s"


def test_arguments_by_position_fill_the_inputs_that_are_not_named() -> None:
    (found,) = calls("search(5, query='x')")
    assert found.inputs == {"query": "x", "limit": 5}


def test_names_are_found_in_results_then_inputs_then_parameters_then_needed_tasks() -> None:
    head = "params: {topic: http, word: param}\n"
    text = plan(
        "noop([topic, word, left, params.word, tasks.b.outputs.left, plan.id]) -> left\nnoop(left) -> z",
        "needs: [b]\nwith: {word: own}",
        head,
    )
    result = loaded(text + "  - id: b\n    run: ls\n    outputs: {left: string}\n")
    assert result.plan is not None
    first, second = result.plan.tasks[0].subplan
    assert first.inputs["value"] == [
        "{{ params.topic }}",
        "own",
        "{{ tasks.b.outputs.left }}",
        "{{ params.word }}",
        "{{ tasks.b.outputs.left }}",
        "{{ plan.id }}",
    ]
    assert second.inputs["value"] == "{{ tasks.left.outputs }}"


def test_inputs_of_the_task_are_read_with_their_members() -> None:
    (found,) = calls(
        "noop([where.host, where.ports[1], who.name])",
        'with: {where: {host: h, ports: [1, 2]}, who: "{{ params.topic }}"}',
    )
    assert found.inputs["value"] == ["h", 2, "{{ params.topic.name }}"]


def test_results_of_a_needed_command_are_read_by_their_names() -> None:
    text = plan("noop(1) -> one") + "  - id: b\n    needs: [a]\n    command: noop(one.value) -> two\n"
    result = loaded(text)
    assert result.plan is not None
    assert result.plan.tasks[1].subplan[0].inputs == {"value": "{{ tasks.a.outputs.one.value }}"}


def test_the_results_are_outputs_of_the_task_and_a_declared_output_may_be_one() -> None:
    result = loaded(
        plan(
            "search('x') -> top10; rank(top10) -> sources",
            "outputs: {sources: artifacts.sources, n: '{{ tasks.top10.outputs.results }}'}",
        )
    )
    assert result.plan is not None
    assert [(output.name, output.value) for output in result.plan.tasks[0].outputs] == [
        ("sources", "{{ tasks.sources.outputs }}"),
        ("n", "{{ tasks.top10.outputs.results }}"),
        ("top10", "{{ tasks.top10.outputs }}"),
    ]


def test_what_is_set_for_attempts_goes_to_the_calls() -> None:
    result = loaded(plan("noop(1) -> x", "env: {A: b}\ncwd: sub\non_doubt: retry"))
    assert result.plan is not None
    task = result.plan.tasks[0]
    assert task.timeout is None
    assert [(call.timeout, call.env, call.cwd, call.on_doubt) for call in task.subplan] == [
        (60.0, (("A", "b"),), "sub", "retry")
    ]


def test_a_script_in_a_call_is_written_out_and_gets_values_as_data() -> None:
    script, arguments = calls("shell('echo {{ params.topic }}') -> out; shell(['ls', '-l'])")
    assert script.run == "echo {{ params.topic }}" and script.script is not None and script.script.values
    assert arguments.run == ("ls", "-l")
    assert errors(plan("noop('ls') -> c; shell(c.value)")) == [
        "PLAN214 what `shell` runs is written out, as text or as a list of arguments"
    ]


def test_what_a_script_printed_and_its_exit_code_are_read_from_its_result() -> None:
    _, found = calls("shell('echo 42') -> c; noop([c.stdout, c.exit_code, c.stderr, c.own]) -> n")
    assert found.inputs["value"] == [
        "{{ tasks.c.stdout }}",
        "{{ tasks.c.exit_code }}",
        "{{ tasks.c.stderr }}",
        "{{ tasks.c.outputs.own }}",
    ]


def test_a_verb_alone_finds_the_one_capability_that_has_it() -> None:
    assert calls("glob('*.md') -> files", more=(GLOB,))[0].uses == "files.glob"
    assert errors(plan("glob('*.md') -> files"), GLOB, OTHER) == ["PLAN215 `glob` may be `files.glob` or `tree.glob`"]


def test_a_summary_puts_its_words_before_what_it_is_given() -> None:
    _, notes = calls("search('x') -> docs; summarize(docs) -> notes")
    assert notes.uses == "llm.complete"
    assert notes.inputs["prompt"].startswith("Summarize ") and notes.inputs["prompt"].endswith(
        "{{ tasks.docs.outputs }}"
    )


def test_items_of_a_fan_out_and_steps_in_a_list_have_names_too() -> None:
    result = loaded(plan("noop([item, index]) -> x", "foreach: [1, 2]"))
    assert result.plan is not None
    assert result.plan.tasks[0].subplan[0].inputs == {"value": ["{{ item }}", "{{ index }}"]}
    steps = loaded("plan: p\ntasks:\n  - id: a\n    subplan: ['noop(1) -> one', 'noop(one.value) -> two']\n")
    assert steps.plan is not None and not [found for found in steps.findings if found.code == "PLAN601"]
    assert steps.plan.tasks[0].subplan[1].subplan[0].inputs == {"value": "{{ tasks.step-1.outputs.one.value }}"}


@rows(
    "text",
    [
        "derive strategies A/B/C from notes; compare tradeoffs -> table",
        "run load(gen: [light, heavy], payload: [small, large], burst: [on, off])",
        "modify client; add retry middleware; unit + integration tests",
        "Compare the three sources (all of them) and say where they differ.",
        "look -> think",
        "",
    ],
)
def test_plain_words_stay_an_instruction(text: str) -> None:
    assert not looks_like_calls(text)


@rows(
    ("text", "message", "marked"),
    [
        ("noop(1", "PLAN214 `(` is never closed", "("),
        ("noop(1 -> x", "PLAN214 `(` is never closed", "("),
        ("noop(1) ->", "PLAN214 a name is missing after `->`", "->"),
        ("noop(1) then stop", "PLAN214 `then` is not expected here, but `-> name` or `;` or a new line", "then"),
        ("noop(a: 1)", "PLAN214 `:` is not expected here, but `)` or `,`", ":"),
        ("noop('abc)", "PLAN214 text that begins with ' has no end", "'abc)"),
        (
            "x = noop(1)",
            "PLAN214 `x` is not expected here, but a call such as `search(query)` or `;` or a new line",
            "x",
        ),
        (
            "noop (1) -> x",
            "PLAN214 `noop` is not expected here, but a call such as `search(query)` or `;` or a new line",
            "noop",
        ),
        ("nop(1) -> x", "PLAN007 unknown capability `nop`, did you mean `noop`?", "nop"),
        ("serch(1) -> x", "PLAN007 unknown capability `serch`, did you mean `search`?", "serch"),
        ("cite(1) -> x", "PLAN007 `cite` stands for `research.cite`, which is not installed", "cite"),
        ("noop(topik) -> x", "PLAN201 `topik` is not defined here, did you mean `topic`?", "topik"),
        ("noop(x) -> x", "PLAN201 `x` is not defined here", "x"),
        (
            "search('q') -> s; noop(s.result)",
            "PLAN202 `research.search` gives no output `result`, did you mean `results`?",
            ".result",
        ),
        ("noop(1) -> s; search(s) -> x; search(x, limit=x)", "PLAN205 `x` gives no int for the input `limit`", "x"),
        ("noop(1, 2)", "PLAN008 `noop` takes 1 input, this is one more", "2"),
        ("noop(1) -> a; noop(2) -> a", "PLAN102 two results are called `a`", "a"),
        ("noop(1) -> run", "PLAN214 `run` means something in every plan already", "run"),
    ],
)
def test_a_mistake_is_told_once_at_its_place(text: str, message: str, marked: str) -> None:
    whole = plan(text)
    found = [each for each in loaded(whole).findings if each.severity == "error"]
    assert [f"{each.code} {each.message}" for each in found] == [message]
    assert whole[found[0].span.start : found[0].span.end] == marked


@rows(
    "line",
    [
        "command: noop(1) -> x; noop(wrong) -> y",
        'command: "noop(1) -> x; noop(wrong) -> y"',
        "command: 'noop(''1'') -> x; noop(wrong) -> y'",
        'command: "noop(\\"a\\") -> x;\\n  noop(wrong)"',
        "command: >\n      noop(1) -> x;\n      noop(wrong)",
        "command: |2\n      noop(1) -> x\n      noop(wrong)",
        "command: noop(1) -> x;\n      noop(wrong)",
    ],
)
def test_places_point_into_the_command_however_it_is_quoted(line: str) -> None:
    text = f"plan: p\ntasks:\n  - id: a\n    {line}\n"
    (found,) = [each for each in loaded(text).findings if each.severity == "error"]
    assert text[found.span.start : found.span.end] == "wrong"


def test_both_notations_keep_the_command_and_give_the_same_calls() -> None:
    text = plan("noop(topic) -> x  # why\nnoop(x.value,) -> y")
    yaml = load(Source(text, "x.yaml", "yaml"), Registry())
    there = convert_text(File(Source(text, "x.yaml", "yaml"), ()), "text")
    other = load(Source(there, "x.plan", "text"), Registry())
    assert "noop(topic) -> x  # why\n" in there
    assert yaml.plan is not None and other.plan is not None and digest(yaml.plan) == digest(other.plan)


def test_a_parameter_that_only_a_command_reads_is_read() -> None:
    assert "PLAN209" not in {found.code for found in loaded(plan("noop(topic)")).findings}
    assert "PLAN209" in {found.code for found in loaded(plan("noop(1)")).findings}


def test_reads_of_a_command_are_held_to_the_order_of_tasks() -> None:
    text = plan("noop(tasks.b.outputs.value) -> x") + "  - {id: b, uses: noop}\n"
    assert errors(text) == ["PLAN203 `x` in `a` reads `b`, which is not guaranteed to run before it"]


def test_a_name_is_no_code() -> None:
    text = plan("python.run(code=topic) -> x; noop('print(1)') -> y; sql.query(y.value)")
    found = load(Source(text, "x.yaml", "yaml"), Registry()).findings
    assert [each.code for each in found if each.severity == "error" and each.code != "PLAN008"] == ["PLAN216"] * 2


def test_paths_in_a_command_are_held_to_what_there_is() -> None:
    assert errors(plan("noop([params.topik, tasks.nothing.outputs.x])")) == [
        "PLAN201 the plan has no parameter `topik`",
        "PLAN201 the plan has no task `nothing`",
    ]


def test_size_and_depth_are_bounded() -> None:
    with pytest.raises(CommandError, match="65,536 are allowed"):
        parse("noop(1);" * 10_000)
    with pytest.raises(CommandError, match="1,000 are allowed"):
        parse("noop(1);" * 1_001)
    with pytest.raises(CommandError, match="nested more than 32 levels"):
        parse("noop(" + "[" * 40 + "]" * 40 + ")")


@pytest.mark.slow
@rows("piece", ["'\\'", "(", "a(", "->", "a.b ", ";", "#", '"', "a=", " (x"])
def test_telling_words_from_calls_takes_no_time_whatever_the_text(piece: str) -> None:
    started = time.process_time()
    looks_like_calls("(" + piece * 100_000 + "->")
    assert time.process_time() - started < 10


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet="noop(x)->;,. \n[]{}'\"#=:1a%$-\\", max_size=60))
def test_any_text_is_read_or_refused_with_a_place_inside_it(text: str) -> None:
    try:
        parse(text)
    except CommandError as error:
        assert 0 <= error.start <= error.end <= len(text) + 1
        assert error.message


def test_an_empty_result_is_one_whose_first_list_is_empty() -> None:
    from planrunner.plan import compiled

    text = plan(
        "search('x') -> top10; noop(top10) -> said",
        "expect: [top10 is not empty, len(top10.results) > 2, said is not empty]\n"
        "failure_modes: [{name: none, detect: top10 is empty}]\n"
        "on_failure: {to: b, when: outputs.top10 is empty}",
    )
    text += "  - id: b\n    command: fetch(['x']) -> top10\n    failure_modes: [{name: none, detect: top10 is empty}]\n"
    result = loaded(text)
    assert result.plan is not None, errors(text)
    a, b = compiled.load(compiled.dump(result.plan)).tasks
    assert (a, b) == result.plan.tasks
    assert [each.expression.paths for each in a.expect] == [
        (("top10", "results"),),
        (("top10", "results"),),
        (("said",),),
    ]
    assert a.failure_modes[0].detect.expression.paths == (("top10", "results"),)
    assert a.edges[0].condition.paths == (("outputs", "top10", "results"),)
    assert b.failure_modes[0].detect.expression.paths == (("top10", "documents"),)


def test_files_of_a_command_are_kept_with_its_last_call() -> None:
    found = calls("noop(1) -> x; noop(2) -> y", "artifacts: [out.txt, {name: page, retention: 7d}]")
    assert [[artifact.path for artifact in call.artifacts] for call in found] == [[], ["out.txt"]]


def test_a_call_stands_where_its_capability_is_named_and_not_at_its_result() -> None:
    text = plan("noop(1) -> x; sleep(1)")
    found = load(Source(text, "p.yaml"), Registry(plugins=False)).plan
    assert found is not None
    calls = found.tasks[0].subplan
    assert [text[call.span.start : call.span.end] for call in calls] == ["noop", "sleep"]


def test_calls_under_run_are_a_command() -> None:
    result = loaded(
        "plan: p\ntasks:\n  - id: a\n    run: noop(1) -> one; noop(one) -> two\n    expect: [two is not empty]\n"
    )
    assert result.plan is not None, result.findings
    assert [(call.id, call.uses) for call in result.plan.tasks[0].subplan] == [("one", "noop"), ("two", "noop")]


@pytest.mark.parametrize(
    ("keys", "uses"),
    [("run: say() -> x", ""), ("uses: shell\n    run: noop(1) -> x", "shell"), ("run: greet() { echo hi; }", "shell")],
)
def test_a_script_stays_a_script_unless_it_only_calls_capabilities(keys: str, uses: str) -> None:
    result = loaded(f"plan: p\ntasks:\n  - id: a\n    {keys}\n  - id: b\n    uses: noop\n")
    if uses:
        assert result.plan is not None and result.plan.tasks[0].uses == uses
    else:
        assert [found.code for found in result.findings if found.severity == "error"] == ["PLAN007"]


def test_the_operation_of_a_family_stands_under_run() -> None:
    text = "plan: p\ntasks:\n  - {id: a, using: research, run: search, input: {query: x}}\n"
    result = loaded(text + "  - id: b\n    using: llm\n    run: complete('y') -> text\n")
    assert result.plan is not None, result.findings
    first, second = result.plan.tasks
    assert (first.uses, first.run, first.inputs) == ("research.search", None, {"query": "x"})
    assert [call.uses for call in second.subplan] == ["llm.complete"]


def test_the_inputs_of_a_script_are_variables_that_shadow_none() -> None:
    text = "plan: p\ntasks:\n  - id: a\n    input: {topic: '{{ plan.id }}', path: x, many: [1, two]}\n    env: {TOPIC: own}\n    run: echo $TOPIC\n"
    result = loaded(text)
    assert result.plan is not None, result.findings
    assert dict(result.plan.tasks[0].env) == {"TOPIC": "own", "INPUT_PATH": "x", "MANY": '[1,"two"]'}
    assert result.plan.tasks[0].inputs is None
