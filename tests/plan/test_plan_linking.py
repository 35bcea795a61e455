"""Subplans by file and by name: what is linked, what is refused and how much it may cost."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from planrunner.plan import compiled
from planrunner.plan.agents import Roster
from planrunner.plan.identity import digest
from planrunner.plan.load import Loaded, load, load_stored, read_plan
from planrunner.plan.rules.view import Project
from planrunner.plugins.registry import Registry
from planrunner.source import Source

INNER = """plan: inner
params: {who: {type: string, required: true}, times: {type: int, default: 1}}
outputs: {said: {type: string, value: "{{ tasks.say.stdout }}"}}
tasks:
  - {id: say, run: "echo {{ params.who }} {{ params.times }}", timeout: 1m}
"""


def outer(key: str, more: str = "") -> str:
    return f"plan: outer\ntasks:\n  - id: one\n    subplan: {key}\n    timeout: 1m\n{more}"


def loaded(folder: Path, **files: str) -> Loaded:
    """The plan ``main.yaml`` of a folder with these files (without their ending)."""
    for name, text in files.items():
        path = folder / f"{name.replace('__', '/')}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return load(read_plan(str(folder / "main.yaml")).source, Registry())


def said(result: Loaded) -> list[str]:
    return [f"{found.code} {found.message}" for found in result.findings]


def test_a_file_is_linked_with_its_parameters_and_outputs(tmp_path: Path) -> None:
    result = loaded(tmp_path, main=outer("inner.yaml", "    params: {who: ann}\n"), inner=INNER)
    assert result.plan is not None, said(result)
    task = result.plan.tasks[0]
    assert task.sub is not None and (task.sub.id, task.sub.file) == ("inner", "inner.yaml")
    assert (task.params, [param.name for param in task.sub.params]) == ({"who": "ann"}, ["who", "times"])
    assert [path for path, _ in result.files] == ["inner.yaml"]


@pytest.mark.parametrize("more", ["", "no_such_key: 1\n"])
def test_a_run_is_looked_back_on_once_however_its_plan_is_read(tmp_path: Path, more: str) -> None:
    (tmp_path / "main.yaml").write_text(outer("inner.yaml", "    params: {who: ann}\n") + more)
    (tmp_path / "inner.yaml").write_text(INNER)
    source = read_plan(str(tmp_path / "main.yaml")).source
    plan = load_stored(source, Registry(), Project(roster=Roster(reflect=True)))
    assert [task.id for task in plan.tasks] == ["one", "reflection"]
    assert plan.tasks[0].sub is not None and [task.id for task in plan.tasks[0].sub.tasks] == ["say"]


def test_a_stored_plan_is_read_though_an_agent_that_it_names_has_gone() -> None:
    source = Source("plan: p\ntasks:\n  - {id: a, agent: gone, prompt: Go}\n", "p.yaml", "yaml")
    project = Project(roster=Roster())
    assert [found.code for found in load(source, Registry(), project).findings if found.severity == "error"] == [
        "PLAN841"
    ]
    assert [task.id for task in load_stored(source, Registry(), project).tasks] == ["a"]


def test_the_digest_of_the_outer_plan_covers_the_inner_one_and_not_its_layout(tmp_path: Path) -> None:
    main = outer("inner.yaml", "    params: {who: ann}\n")
    first = loaded(tmp_path, main=main, inner=INNER)
    laid_out = loaded(tmp_path, main=main, inner="# a comment\n" + INNER)
    changed = loaded(tmp_path, main=main, inner=INNER.replace("echo", "printf"))
    assert first.plan is not None and laid_out.plan is not None and changed.plan is not None
    assert digest(first.plan) == digest(laid_out.plan) != digest(changed.plan)
    assert first.files != laid_out.files


def test_a_linked_plan_survives_compiling(tmp_path: Path) -> None:
    plan = loaded(tmp_path, main=outer("inner.yaml", "    params: {who: ann}\n"), inner=INNER).plan
    assert plan is not None
    again = compiled.load(compiled.dump(plan))
    assert again == plan and digest(again) == digest(plan)


def test_paths_count_from_the_file_that_names_them(tmp_path: Path) -> None:
    result = loaded(
        tmp_path,
        main=outer("parts/a.yaml"),
        parts__a=outer("b.yaml"),
        parts__b=outer("../c.yaml"),
        c="plan: c\ntasks: [{id: x, uses: noop}]\n",
    )
    assert result.plan is not None, said(result)
    assert {path for path, _ in result.files} == {"parts/a.yaml", "parts/b.yaml", "c.yaml"}
    found = result.plan
    for name in ("parts/a.yaml", "parts/b.yaml", "c.yaml"):
        sub = found.tasks[0].sub
        assert sub is not None and sub.file == name
        found = sub


def test_the_faults_of_a_linked_file_are_told_at_the_key_with_their_lines(tmp_path: Path) -> None:
    broken = "plan: b\ntasks:\n  - {id: x, uses: noop, needs: [y]}\n  - {id: z, uses: nop}\n"
    result = loaded(tmp_path, main=outer("broken.yaml"), broken=broken)
    [finding] = result.findings
    assert result.plan is None and finding.code == "PLAN112"
    assert finding.message.startswith("`broken.yaml` has 2 errors: line 3 PLAN101 needs `y`")
    assert "; 4 PLAN007 unknown capability `nop`" in finding.message
    assert finding.help == f"`planrunner lint {tmp_path / 'broken.yaml'}` shows all of it"
    assert outer("broken.yaml")[finding.span.start : finding.span.end] == "broken.yaml"


def test_what_a_linked_file_cannot_run_holds_back_the_outer_plan(tmp_path: Path) -> None:
    idle = "plan: b\npolicy: {data: internal}\ntasks:\n  - {id: x, uses: noop}\n"
    assert [found.code for found in loaded(tmp_path, main=outer("idle.yaml"), idle=idle).findings] == ["PLAN112"]


def test_a_missing_file_is_told_with_one_of_a_similar_name(tmp_path: Path) -> None:
    [finding] = loaded(tmp_path, main=outer("iner.yaml"), inner=INNER).findings
    assert finding.code == "PLAN111"
    assert finding.message == "there is no file `iner.yaml`, did you mean `inner.yaml`?"


def test_the_file_that_was_meant_is_named_as_the_plan_has_to_write_it(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "one.yaml").write_text(INNER)
    [finding] = loaded(tmp_path, main=outer("parts/onee.yaml")).findings
    assert finding.message == "there is no file `parts/onee.yaml`, did you mean `parts/one.yaml`?"
    (tmp_path / "parts" / "two.yaml").write_text(outer("../inne.yaml"))
    [finding] = loaded(tmp_path, main=outer("parts/two.yaml"), inner=INNER).findings
    assert "there is no file `../inne.yaml`, did you mean `../inner.yaml`?" in finding.message


@pytest.mark.slow
@pytest.mark.parametrize("word", [".", "/dev/zero", "/dev/stdin", '"a\\0b.yaml"', "/"])
def test_what_is_no_regular_file_is_not_read(tmp_path: Path, word: str) -> None:
    begun = time.process_time()
    assert [found.code for found in loaded(tmp_path, main=outer(word)).findings] == ["PLAN111"]
    assert time.process_time() - begun < 5


def test_a_plan_that_holds_itself_is_refused_with_the_way_round(tmp_path: Path) -> None:
    [itself] = loaded(tmp_path, main=outer("main.yaml")).findings
    assert (itself.code, itself.message) == ("PLAN113", "a subplan contains itself: `main.yaml` -> `main.yaml`")
    [finding] = loaded(tmp_path, main=outer("a.yaml"), a=outer("b.yaml"), b=outer("a.yaml")).findings
    assert "a subplan contains itself: `a.yaml` -> `b.yaml` -> `a.yaml`" in finding.message


@pytest.mark.parametrize(("levels", "codes"), [(8, []), (9, ["PLAN112"])])
def test_subplans_are_nested_at_most_eight_deep(tmp_path: Path, levels: int, codes: list[str]) -> None:
    files = {f"f{level}": outer(f"f{level + 1}.yaml") for level in range(1, levels)}
    last = {f"f{levels}": "plan: last\ntasks: [{id: x, uses: noop}]\n"}
    result = loaded(tmp_path, main=outer("f1.yaml"), **files, **last)
    assert [found.code for found in result.findings] == codes
    assert not codes or "nested deeper than 8 levels" in result.findings[0].message


@pytest.mark.parametrize(("levels", "codes"), [(8, []), (9, ["PLAN113"])])
def test_named_subplans_are_nested_at_most_eight_deep(tmp_path: Path, levels: int, codes: list[str]) -> None:
    rows = [f"  s{level}: {{tasks: [{{id: x, subplan: s{level + 1}, timeout: 1m}}]}}\n" for level in range(1, levels)]
    text = f"{outer('s1')}subplans:\n{''.join(rows)}  s{levels}: {{tasks: [{{id: x, uses: noop}}]}}\n"
    assert [found.code for found in loaded(tmp_path, main=text).findings] == codes


@pytest.mark.slow
def test_what_each_level_doubles_is_refused_soon(tmp_path: Path) -> None:
    def doubled(inner: str) -> str:
        rows = "".join(f"  - {{id: t{number}, subplan: {inner}, timeout: 1m}}\n" for number in range(10))
        return f"plan: p\ntasks:\n{rows}"

    files = {f"f{level}": doubled(f"f{level + 1}.yaml") for level in range(1, 7)}
    begun = time.process_time()
    result = loaded(tmp_path, main=doubled("f1.yaml"), **files, f7="plan: last\ntasks: [{id: x, uses: noop}]\n")
    assert result.plan is None and "more than 100,000 tasks" in said(result)[0]
    assert time.process_time() - begun < 30


def test_the_tasks_of_all_subplans_together_are_bounded(tmp_path: Path) -> None:
    half = "".join(f"  - {{id: t{number}, uses: noop}}\n" for number in range(2_000))
    links = "".join(f"  - {{id: t{number}, subplan: half.yaml, timeout: 1m}}\n" for number in range(50))
    result = loaded(tmp_path, main=f"plan: p\ntasks:\n{links}", half=f"plan: half\ntasks:\n{half}")
    assert result.plan is None
    assert said(result) == ["PLAN011 the plan has more than 100,000 tasks with those of its subplans"]


def test_the_bytes_of_all_linked_files_are_bounded(tmp_path: Path) -> None:
    long = "plan: long\ntasks:\n  - {id: x, uses: noop}\n" + "# a comment of a hundred characters\n" * 200_000
    links = "".join(f"  - {{id: t{number}, subplan: f{number}.yaml, timeout: 1m}}\n" for number in range(3))
    result = loaded(tmp_path, main=f"plan: p\ntasks:\n{links}", f0=long, f1=long, f2=long)
    assert said(result) == ["PLAN011 the linked files have more than 16,777,216 bytes together"]


def test_a_file_is_read_once_however_often_it_is_linked(tmp_path: Path) -> None:
    rows = "".join(
        f"  - {{id: t{number}, subplan: inner.yaml, params: {{who: x}}, timeout: 1m}}\n" for number in range(50)
    )
    plan = loaded(tmp_path, main=f"plan: p\ntasks:\n{rows}", inner=INNER).plan
    assert plan is not None and len({id(task.sub) for task in plan.tasks}) == 1


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ("{}", "the subplan `inner.yaml` needs the parameter `who`"),
        ("{who: a, wo: b}", "the subplan `inner.yaml` has no parameter `wo`, did you mean `who`?"),
        ("{who: a, times: often}", "parameter `times` takes a whole number, not `often`"),
    ],
)
def test_parameters_that_do_not_fit_are_told(tmp_path: Path, params: str, message: str) -> None:
    result = loaded(tmp_path, main=outer("inner.yaml", f"    params: {params}\n"), inner=INNER)
    assert said(result) == [f"PLAN114 {message}"]


def test_templates_for_parameters_are_left_to_the_run(tmp_path: Path) -> None:
    text = outer("inner.yaml", '    params: {who: a, times: "{{ run.seed }}"}\n')
    assert said(loaded(tmp_path, main=text, inner=INNER)) == []


def test_outputs_of_a_linked_plan_are_known(tmp_path: Path) -> None:
    more = (
        "    params: {who: a}\n  - {id: two, needs: [one], uses: noop, with: {value: '{{ tasks.one.outputs.sad }}'}}\n"
    )
    assert said(loaded(tmp_path, main=outer("inner.yaml", more), inner=INNER)) == [
        "PLAN202 task `one` has no output `sad`"
    ]


def test_a_name_may_stand_for_a_file(tmp_path: Path) -> None:
    text = outer("greet", "    params: {who: a}\nsubplans: {greet: inner.yaml}\n")
    plan = loaded(tmp_path, main=text, inner=INNER).plan
    assert plan is not None and plan.tasks[0].sub is not None and plan.tasks[0].sub.file == "inner.yaml"


def test_a_name_says_nothing_of_the_plan_around_it(tmp_path: Path) -> None:
    text = outer(
        "inside", "subplans:\n  inside: {tasks: [{id: x, uses: noop, with: {value: '{{ tasks.one.status }}'}}]}\n"
    )
    assert said(loaded(tmp_path, main=text)) == ["PLAN201 the plan has no task `one`"]


def test_a_text_file_is_linked_as_well(tmp_path: Path) -> None:
    (tmp_path / "inner.plan").write_text("task say\n  run: echo hi\n  timeout: 1m\n", encoding="utf-8")
    plan = loaded(tmp_path, main=outer("inner.plan")).plan
    assert plan is not None and plan.tasks[0].sub is not None and plan.tasks[0].sub.id == "inner"


def test_breakers_of_a_linked_plan_do_not_count_and_lint_says_so(tmp_path: Path) -> None:
    inner = f"{INNER}breakers: [{{uses: shell, failures: 2}}]\n"
    found = said(loaded(tmp_path, main=outer("./inner.yaml", "    params: {who: Ada}\n"), inner=inner))
    assert [each for each in found if each.startswith("PLAN021 `breakers` of the subplan `./inner.yaml`")]
