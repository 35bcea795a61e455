"""Context profiles: what the model is given beside the prompt, in which order, within which budget, and its record."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from bench import Bench

from planrunner.capabilities.agent.material import Ground, skills

Json = Any
Make = Callable[..., Bench]

PLAN = """
plan: release
title: The release of the tool
tasks:
  - {id: build, title: Build it, run: "echo built 42 files"}
  - id: write
    title: Write the notes
    description: Notes for users.
    needs: [build]
    agent: coder
    prompt: Write.
    expect: ["outputs.text != ''"]
  - {id: publish, needs: [write], run: "true"}
"""


def agent(**context: Json) -> dict[str, Json]:
    return {"coder": {"system": "You write.", "context": context}}


def given(bench: Bench) -> str:
    """What stands before the prompt of the first request."""
    return next((text for _, text in bench.model.heard[0].turns if text.startswith("This was put together")), "")


def rows(told: dict[str, Json], bench: Bench, task: str = "write") -> dict[str, tuple[str, str, str]]:
    """The record of what went in: by name, or part, how and why."""
    shown = json.loads(bench.call("show", "last", task, "--inputs", "--json").stdout)
    parts = next(call["context"] for call in shown["calls"] if call["context"])
    return {each["name"] or each["part"]: (each["part"], each["included"], each["why"]) for each in parts}


def fill(folder: Path, **texts: str) -> None:
    for name, text in texts.items():
        path = folder / name.replace("__", "/").replace("_md", ".md").replace("_py", ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_all_parts_stand_before_the_prompt_in_the_order_of_the_profile(make: Make) -> None:
    bench = make(["Done."])
    fill(
        bench.folder,
        skills__notes_md="---\nname: notes\ndescription: How notes are written\n---\nShort sentences.",
        README_md="A tool.",
    )
    told = bench.run(PLAN, agents=agent(skills=["skills/*.md"], files=["README.md"]))
    assert told["status"] == "completed", told
    turns = bench.model.heard[0].turns
    assert [role for role, _ in turns] == ["system", "user", "user"]
    assert turns[0][1] == "You write." and turns[2][1] == "Write."
    text = given(bench)
    places = [text.index(word) for word in ("# Skills", "# Plan", "# Task", "# Results", "# Files")]
    assert places == sorted(places)
    assert "notes: How notes are written\nShort sentences." in text and "---\nname" not in text
    assert "release: The release of the tool" in text
    assert "- build: Build it (completed)" in text and "- write: Write the notes (after build; this task)" in text
    assert "- publish (after write)" in text
    assert "Notes for users." in text and "- outputs.text != ''" in text
    assert "] build\ncompleted\nbuilt 42 files\n[" in text
    assert "] README.md\nA tool.\n[" in text


@pytest.mark.parametrize("name", ["notes.md", "notes", "release.notes.md"])
def test_a_skill_without_a_name_is_called_as_its_file(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("Short sentences.")
    [skill] = skills(Ground(str(tmp_path), str(tmp_path)), [name])
    assert skill.brief == f"{name.removesuffix('.md')} (in {name})"


def test_what_went_in_is_recorded_and_shown_and_the_run_replays(make: Make) -> None:
    bench = make(["Done."])
    fill(bench.folder, README_md="A tool.\n")
    bench.run(PLAN, agents=agent(include=["task", "results", "files"], files=["README.md", "gone.md"]))
    table = """
  part     name       tokens  included
  system              10      whole
  task     write      77      whole
  results  build      24      whole
  files    README.md  8       whole
  files    gone.md    0       left out: it cannot be read: No such file or directory
  prompt              6       whole
"""
    assert table in bench.call("show", "last", "write", "--inputs").stdout
    assert table in bench.call("show", "last", "write#1/model", "--inputs").stdout
    replayed = bench.call("replay", "last")
    assert replayed.returncode == 0 and "replays exactly" in replayed.stdout


def test_the_first_parts_are_kept_where_the_tokens_do_not_suffice(make: Make) -> None:
    bench = make(["Done."])
    long = "".join(f"line {at}\n" for at in range(200))
    fill(bench.folder, a_md=long, b_md=long, skills__x_md="---\nname: x\ndescription: about x\n---\n" + long)
    told = bench.run(
        PLAN, agents=agent(tokens="1k", include=["task", "files", "skills"], files=["*.md"], skills=["skills/*"])
    )
    assert len(given(bench).encode()) <= 1_000
    assert "[cut here: " in given(bench) and "line 199" not in given(bench)
    went = rows(told, bench)
    assert went["write"] == ("task", "whole", "")
    assert went["a.md"] == ("files", "cut", "no room for more")
    assert went["b.md"] == ("files", "left out", "no room in 1,000 tokens")
    assert went["skills/x.md"] == ("skills", "left out", "no room in 1,000 tokens")


def test_it_is_given_once_in_a_conversation(make: Make) -> None:
    bench = make([[("shell", {"command": "echo one"})], "Done."])
    bench.run(PLAN, agents={"coder": {"tools": ["shell"], "context": {"include": ["task"]}}})
    said = [text for role, text in bench.model.heard[1].turns if role == "user"]
    assert sum(text.startswith("This was put together") for text in said) == 1
    assert said[-1] == "Write."


NAMED = """
plan: several
tasks:
  - {id: a, title: First, agent: coder, prompt: One.}
  - {id: b, title: Second, needs: [a], agent: coder, prompt: Two., context: results}
  - {id: c, title: Third, needs: [b], agent: coder, prompt: Three., context: {include: [task]}}
"""


def test_a_task_takes_another_profile_by_name_or_lays_keys_over_that_of_its_agent(make: Make) -> None:
    bench = make(["Answer one.", "Answer two.", "Answer three."])
    told = bench.run(
        NAMED, agents={"coder": {"context": "all"}}, contexts={"all": {}, "results": {"include": ["results"]}}
    )
    assert told["status"] == "completed", told
    texts = [heard.turns[0][1] for heard in bench.model.heard]
    assert "# Plan" in texts[0] and "# Task\n\na: First" in texts[0]
    assert "# Plan" not in texts[1] and "] a\ncompleted\nAnswer one.\n[" in texts[1]
    assert texts[2].endswith("# Task\n\nc: Third")


def test_fresh_begins_the_conversation_again_and_the_session_goes_on_from_there(make: Make) -> None:
    bench = make(["first", "second", "third"])
    told = bench.run("""
plan: talk
tasks:
  - {id: a, agent: coder, session: work, prompt: One.}
  - {id: b, needs: [a], agent: coder, session: work, prompt: Two., context: fresh}
  - {id: c, needs: [b], agent: coder, session: work, prompt: Three.}
""")
    assert told["status"] == "completed", told
    heard = [[text for role, text in each.turns if role != "system"] for each in bench.model.heard]
    assert heard[1:] == [["Two."], ["Two.", "second", "Three."]]


def test_fresh_begins_again_each_time_that_until_does_not_hold(make: Make) -> None:
    bench = make(["Done.", [("shell", {"command": "touch flag"})], "Now it is."])
    told = bench.run("""
plan: again
tasks:
  - {id: a, agent: coder, prompt: Work., context: fresh, until: {run: "echo looked; test -f flag"}}
""")
    assert told["status"] == "completed", told
    heard = [[text for role, text in each.turns if role == "user"] for each in bench.model.heard]
    assert heard[0] == ["Work."]
    assert heard[1] == ["Work.\n\nThe last attempt was not accepted: exit code 1\nlooked\n\n"]
    assert heard[2] == heard[1]
    assert bench.call("replay", "last").returncode == 0


def test_files_that_are_not_text_or_not_let_are_left_out_and_ignored_ones_fit_no_star(make: Make) -> None:
    bench = make(["Done."])
    fill(bench.folder, src__a_py="print(1)\n", src__secret_py="KEY = 1\n", src__built_py="made\n")
    (bench.folder / "src" / "blob.py").write_bytes(b"\x00\x01")
    (bench.folder / ".gitignore").write_text("built.py\n")
    subprocess.run(["git", "init", "-q"], cwd=bench.folder, check=True)
    policy = {"files": {"read": ["**"], "deny": ["src/secret.py"]}}
    told = bench.run(PLAN, agents=agent(files=["src/*.py"]), policy=policy)
    went = {name: row[1:] for name, row in rows(told, bench).items() if row[0] == "files"}
    assert went["src/a.py"] == ("whole", "")
    assert went["src/blob.py"] == ("left out", "it is not text that can be read")
    assert went["src/secret.py"][0] == "left out" and "src/secret.py" in went["src/secret.py"][1]
    assert "src/built.py" not in went
    assert "KEY" not in bench.model.heard[0].said()


def test_memory_is_recalled_for_the_prompt(make: Make) -> None:
    bench = make(["Done."])
    plan = PLAN.replace("prompt: Write.", "prompt: Write about the deployment to production.")
    bench.write(plan, agents={"coder": {"memory": ["project"], "context": {"include": ["memory"]}}})
    put = bench.call("memory", "put", "deploy/where", "deployment to production runs on host seven")
    assert put.returncode == 0, put.stderr
    assert bench.call("exec", "plan.yaml").returncode == 0
    assert "# Memory (data)" in given(bench) and "deploy/where\ndeployment to production runs on host seven" in given(
        bench
    )


def test_lint_reports_unknown_profiles_and_parts_and_patterns_that_fit_nothing(make: Make) -> None:
    bench = make([])
    named = PLAN.replace("agent: coder", "agent: coder\n    context: workng")
    bench.write(named, contexts={"working": {"include": ["task"]}})
    said = bench.call("lint", "plan.yaml").stdout
    assert "there is no context profile `workng`, did you mean `working`?" in said
    bench.write(named, contexts={"working": {"include": ["task", "files"]}})
    said = bench.call("lint", "plan.yaml").stdout
    assert "`files` of `include` has no effect: add the key, such as `files: [README.md]`" in said
    bench.write(PLAN.replace("agent: coder", "agent: {memory: 5, context: {memory: 3, tokens: [1], skills: {a: b}}}"))
    assert bench.call("lint", "plan.yaml").returncode == 1
    own = "context: {include: [tsk], tokens: 200M, files: [src/*.py]}"
    bench.write(PLAN.replace("agent: coder", f"agent: coder\n    {own}"), contexts={})
    said = bench.call("lint", "plan.yaml").stdout
    assert "did you mean `task`?" in said
    assert "a context of 200,000,000 tokens is too large for any model: write 10,000,000 or fewer" in said
    assert "warning[PLAN846] `src/*.py` matches no file of the project" in said


def test_preview_shows_the_model_tools_context_and_limits_of_each_agent(make: Make) -> None:
    bench = make([])
    fill(bench.folder, README_md="A tool.\n")
    tools = {
        "coder": {
            "tools": ["files.read", "files.write", "shell", "ask"],
            "context": {"files": ["README.md", "gone.md"]},
        }
    }
    plan = PLAN.replace(
        "agent: coder", "agent: coder\n    denied: [files.write]\n    rounds: 4\n    budgets: {calls: 9}"
    )
    bench.write(plan, agents=tools)
    shown = bench.call("preview", "plan.yaml").stdout
    assert (
        """
write  agent coder · model scripted · at most 4 rounds · calls 9
  tool     files.read: reads
  tool     shell: changes; a rollback does not revert it
  tool     ask: asks a person
  context  plan, task, results, files; at most 32,000 tokens
    part   name       tokens  included
    files  README.md  8       whole
    files  gone.md    0       left out: it cannot be read: No such file or directory
"""
        in shown
    )


def test_a_secret_of_the_run_is_taken_out_of_a_file(make: Make) -> None:
    bench = make(["Done."])
    fill(bench.folder, notes_md="The key is hidden-0815-key.\n")
    credentials = [{"id": "token", "auth": {"source": "env", "env_var": "TOKEN"}}]
    plan = PLAN.replace('run: "echo built 42 files"', 'run: "true", secrets: [token]')
    bench.write(plan, agents=agent(files=["notes.md"]), provider_credentials=credentials)
    ran = bench.call("exec", "plan.yaml", TOKEN="hidden-0815-key")
    assert ran.returncode == 0, ran.stderr
    assert "The key is [secret:token]." in given(bench)
    assert "hidden-0815-key" not in json.dumps([heard.body for heard in bench.model.heard])


def test_a_task_inside_others_is_given_what_those_around_it_need(make: Make) -> None:
    bench = make(["Done."])
    told = bench.run(
        """
plan: nested
tasks:
  - {id: list, run: "echo three"}
  - id: each
    title: Each of them
    needs: [list]
    foreach: ["a"]
    subplan:
      - {id: first, run: "echo four"}
      - {id: work, needs: [first], agent: coder, prompt: "Work on {{ item }}."}
""",
        agents=agent(include=["plan", "results"]),
    )
    assert told["status"] == "completed", told
    assert "] first\ncompleted\nfour\n[" in given(bench) and "] list\ncompleted\nthree\n[" in given(bench)
    assert "- list (completed)\n- each: Each of them (after list; this task)" in given(bench)
    assert "tokens" in bench.call("show", "last", "each[0]/work", "--inputs").stdout
