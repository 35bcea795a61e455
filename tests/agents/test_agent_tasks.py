"""Tasks that an agent carries out: tools, answers, repeated work, conversations, people, limits."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from bench import Bench

from planrunner.testing.scripted_model import Heard

Json = Any
Make = Callable[..., Bench]


PLAN = """
plan: mend
tasks:
  - id: fix
    agent: coder
    prompt: Mend it.
"""


@pytest.mark.parametrize("provider", ["openai", "openai-compatible", "anthropic", "google", "ollama"])
def test_it_calls_tools_and_answers_with_data(make: Make, provider: str) -> None:
    bench = make(
        [
            [("files_read", {"path": "note.txt"}), ("files_glob", {"patterns": ["*.txt"]})],
            [("shell", {"command": "echo '{{ 7 * 7 }}' | tee out.txt"})],
            [("answer", {"cause": "a word", "files": ["note.txt"], "sure": True})],
        ],
        provider,
    )
    (bench.folder / "note.txt").write_text("some words")
    told = bench.run(PLAN + "    schema: {cause: string, files: [string], sure: bool}\n")
    assert told["status"] == "completed", told
    outputs = bench.outputs(told, "fix")
    assert (outputs["cause"], outputs["files"], outputs["sure"], outputs["rounds"]) == ("a word", ["note.txt"], True, 3)
    assert (bench.folder / "out.txt").read_text() == "{{ 7 * 7 }}\n"
    assert "some words" in bench.model.heard[1].said() and "note.txt" in bench.model.heard[1].said()
    assert bench.model.heard[0].turns[0][1].startswith("You mend.")
    bench.model.__exit__()
    assert bench.call("replay", "last").returncode == 0


def test_without_a_schema_its_text_is_the_result(make: Make) -> None:
    bench = make(["Done."])
    assert bench.outputs(bench.run(PLAN), "fix")["text"] == "Done."


def test_an_answer_that_does_not_fit_is_asked_for_again(make: Make) -> None:
    bench = make(["no json", [("answer", {"ok": "yes"})], [("answer", {"ok": True})]])
    told = bench.run(PLAN + "    schema: {ok: bool}\n")
    assert bench.outputs(told, "fix")["ok"] is True
    assert bench.outputs(told, "fix")["rounds"] == 1
    assert "does not fit" in bench.model.heard[2].said()


def test_a_call_of_what_is_not_there_is_told_and_costs_nothing(make: Make) -> None:
    bench = make([[("files_raed", {}), ("files_read", {"pfad": "x"})], "Done."])
    told = bench.run(PLAN)
    assert told["status"] == "completed"
    assert "did you mean `files_read`?" in bench.model.heard[1].said()
    assert "pfad" in bench.model.heard[1].said()
    assert "fix#2/calls[0]" not in told["tasks"]
    assert bench.model.heard[1].turns[-1][0] == "tool", "the answers of its calls are all that it is told"


def test_a_call_that_is_not_made_is_told_everywhere_with_its_reason(make: Make) -> None:
    bench = make([[("files_raed", {}), ("files_glob", {"patterns": ["*"]}), ("files_read", {"pfad": "x"})], "Done."])
    assert bench.run(PLAN)["status"] == "completed"
    for words in (("why", "last", "fix"), ("why", "last", "fix#1"), ("why", "last", "fix#1/model"), ("logs", "last")):
        said = bench.call(*words).stdout
        assert "the call of `files_raed` was not made: There is no tool `files_raed`" in said, words
        assert "the call of `files_read` was not made: The call was not made: its arguments do not fit" in said, words
        assert "`files_glob` was not made" not in said
    assert "the call of `files_raed` was not made" in bench.call("show", "last", "--all").stdout
    events = bench.call("events", "last", "--json").stdout
    assert '"refused"' in events and "files_raed" in events


def test_a_call_that_fails_is_an_observation(make: Make) -> None:
    bench = make([[("files_read", {"path": "missing"}), ("shell", {"command": "echo oh; exit 3"})], "Done."])
    told = bench.run(PLAN)
    assert told["status"] == "completed"
    assert "missing" in bench.model.heard[1].said() and "exit code 3" in bench.model.heard[1].said()


def test_a_file_is_edited_by_a_diff_alone(make: Make) -> None:
    diff = "--- a/note.txt\n+++ b/note.txt\n@@ -1 +1 @@\n-some words\n+other words\n"
    bench = make([[("files_edit", {"diff": diff})], "Done."])
    (bench.folder / "note.txt").write_text("some words\n")
    assert bench.run(PLAN)["status"] == "completed"
    assert (bench.folder / "note.txt").read_text() == "other words\n", bench.model.heard[1].said()


def test_work_goes_on_until_an_expression_holds(make: Make) -> None:
    bench = make([[("answer", {"ok": False})], [("answer", {"ok": False})], [("answer", {"ok": True})]])
    told = bench.run(PLAN + "    schema: {ok: bool}\n    until: outputs.ok\n")
    assert told["status"] == "completed", told
    assert bench.outputs(told, "fix")["rounds"] == 3
    assert "not the end yet: outputs.ok" in bench.model.heard[1].said()


def test_work_goes_on_until_a_check_goes_well(make: Make) -> None:
    bench = make(["Done.", [("files_write", {"path": "flag", "content": "x"})], "Now it is."])
    told = bench.run(PLAN + "    until: {run: 'echo looking; test -f flag'}\n")
    assert told["status"] == "completed", told
    assert "looking" in bench.model.heard[1].said()
    assert bench.outputs(told, "fix")["rounds"] == 3


def test_the_last_round_takes_no_more_calls(make: Make) -> None:
    def script(heard: Heard) -> Json:
        return [("shell", {"command": f"echo {len(heard.turns)}"})] if heard.tools else "I give up."

    bench = make(script)
    told = bench.run(PLAN + "    rounds: 3\n")
    assert told["status"] == "completed"
    assert bench.outputs(told, "fix")["text"] == "I give up."
    assert "last round" in bench.model.heard[2].said()


def test_the_same_call_again_and_again_ends_it(make: Make) -> None:
    bench = make([[("shell", {"command": "echo same"})]])
    told = bench.run(PLAN)
    assert told["tasks"]["fix"]["status"] == "failed"
    assert "5 times" in told["tasks"]["fix"]["detail"]
    assert "You have made this call 3 times" in bench.model.heard[3].last()


def test_the_same_call_once_for_each_prompt_of_a_conversation_is_no_row(make: Make) -> None:
    def script(heard: Heard) -> Json:
        return "Done." if heard.turns[-1][0] == "tool" else [("files_glob", {"patterns": ["*.txt"]})]

    bench = make(script)
    tasks = ["{id: t0, agent: coder, session: main, prompt: say 0}"]
    tasks += [f"{{id: t{at}, needs: [t{at - 1}], agent: coder, session: main, prompt: say {at}}}" for at in range(1, 6)]
    inner = "{id: each, needs: [t5], loop: {max: 6, tasks: [{id: a, agent: coder, session: main, prompt: again}]}}"
    told = bench.run("plan: talk\ntasks:\n" + "".join(f"  - {each}\n" for each in (*tasks, inner)))
    assert told["status"] == "completed", told
    assert not any("You have made this call" in heard.said() for heard in bench.model.heard)


def test_a_conversation_goes_on_across_tasks_and_rounds(make: Make) -> None:
    bench = make(["first", "second", "third", "alone"])
    told = bench.run("""
plan: talk
tasks:
  - {id: a, agent: coder, session: work, prompt: One.}
  - id: again
    needs: [a]
    loop:
      max: 2
      tasks: [{id: b, agent: coder, session: work, prompt: "Round {{ loop.round }}."}]
  - {id: c, needs: [again], agent: coder, prompt: Alone.}
""")
    assert told["status"] == "completed", told
    assert [text for role, text in bench.model.heard[2].turns if role != "system"] == [
        *("One.", "first", "Round 1.", "second", "Round 2."),
    ]
    assert [text for role, text in bench.model.heard[3].turns if role != "system"] == ["Alone."]


def test_a_person_is_asked_in_the_middle(make: Make) -> None:
    bench = make([[("ask", {"question": "Which colour?"})], "Blue it is."])
    bench.write(PLAN)
    waits = bench.call("exec", "plan.yaml")
    assert waits.returncode == 8, waits.stdout + waits.stderr
    gates = json.loads(bench.call("gates", "--json").stdout)
    assert "Which colour?" in json.dumps(gates)
    name = gates["gates"][0]["gate"] if "gates" in gates else gates[0]["gate"]
    answered = bench.call("answer", "last", name, "-f", "answer=blue")
    assert answered.returncode == 0, answered.stderr
    assert bench.call("resume", "last").returncode == 0
    assert "blue" in bench.model.heard[1].last()


@pytest.mark.parametrize(
    ("more", "offered"),
    [
        ("    tools: [files.read, files.g*]\n", ["files_glob", "files_read"]),
        ("    denied: ['files.*', ask]\n", ["shell"]),
        ("    tools: [shell]\n    denied: shell\n", []),
    ],
)
def test_a_task_narrows_the_tools_of_its_agent(make: Make, more: str, offered: list[str]) -> None:
    bench = make(["Done."])
    bench.run(PLAN + more)
    assert sorted(bench.model.heard[0].tools) == offered


def test_a_task_cannot_have_more_tools_than_its_agent(make: Make) -> None:
    bench = make(["Done."])
    bench.write(PLAN + "    tools: [http.get]\n")
    found = bench.call("lint", "plan.yaml")
    assert found.returncode == 1
    assert "the agent `coder` has no tool `http.get`" in found.stdout + found.stderr


@pytest.mark.parametrize(
    ("task", "said"),
    [
        ("agent: {model: scriptd}", "there is no model `scriptd`, did you mean `scripted`?"),
        ("agent: {fallback: [scriptd]}", "there is no model `scriptd`, did you mean `scripted`?"),
        ("agent: {effort: hgih}", "`effort` of an agent is one of none, low, medium, high, not"),
        ("agent: {tools: [files.raed]}", "there is no tool `files.raed`, did you mean `files.read`?"),
        ("agent: {tools: [notes.kepe]}", "there is no tool `notes.kepe`, did you mean `notes.keep`?"),
        ("agent: coder, tools: [files.raed]", "the agent `coder` has no tool `files.raed`, did you mean `files.read`?"),
        ("agent: coder, denied: [files.wirte]", "no tool `files.wirte`, did you mean `files.write`?"),
        ("agent: codr, tools: [files.raed]", "there is no agent `codr`, did you mean `coder`?"),
        ("agent: codr, calls: [{tool: files.read, say: x}]", "there is no agent `codr`, did you mean `coder`?"),
        ("agent: coder, until: {rnu: 'true'}", "the task of `until` has no key `rnu`, did you mean `run`?"),
        ("agent: coder, branches: 2, score: {judg: x}", "the task of `score` has no key `judg`, did you mean `judge`?"),
        ("agent: coder, branches: 2, score: {timeout: 1m}", "`score` is a task that does nothing"),
        ("agent: coder, reflect: {rubrik: x}", "`reflect` has no key `rubrik`, did you mean `rubric`?"),
    ],
)
def test_lint_names_what_is_mistyped_once(make: Make, task: str, said: str) -> None:
    bench = make(["Done."])
    notes = {"mcp": ["cat"], "tools": ["keep"]}
    bench.write(f"plan: p\ntasks:\n  - {{id: a, prompt: x, {task}}}\n", tools={"notes": notes})
    found = bench.call("lint", "plan.yaml", "--format", "concise")
    lines = found.stdout.splitlines()
    assert said in lines[0] and lines[1:] == [], found.stdout


@pytest.mark.parametrize(
    ("task", "said"),
    [
        ("uses: llm.complete, with: {model: scriptd, prompt: x}", "no model `scriptd`, did you mean `scripted`?"),
        ("uses: llm.vote, with: {models: [scripted, scriptd], prompt: x}", "no model `scriptd`"),
        ("uses: llm.embed, with: {model: hash, texts: [x]}", ""),
        ("uses: llm.complete, with: {model: '{{ params.m }}', prompt: x}", ""),
    ],
)
@pytest.mark.parametrize("around", ["{id: a, TASK}", "{id: b, subplan: [{id: a, TASK}]}"])
def test_lint_knows_the_models_that_capabilities_are_given(make: Make, task: str, said: str, around: str) -> None:
    bench = make(["Done."])
    more = f"timeout: 1m, effect: read, budgets: {{calls: 1, tokens: 9k, cost: $1}}, {task}"
    head = "plan: p\nparams: {m: {default: scripted}}\ntasks:\n  - "
    bench.write(head + around.replace("TASK", more) + "\n")
    found = bench.call("lint", "plan.yaml", "--format", "concise").stdout
    assert ("PLAN841" in found, said in found) == (bool(said), True), found


INLINE = """
plan: mend
on_failure: rollback
tasks:
  - id: fix
    agent: {tools: [files.glob]}
    prompt: Mend it.
    until: {run: 'false'}
    rounds: 2
"""


def test_what_is_said_of_an_agent_uses_no_name_that_its_author_did_not_write(make: Make) -> None:
    bench = make([[("files_glob", {"patterns": ["*.txt"]})], "Done."])
    bench.write(INLINE)
    found = bench.call("lint", "plan.yaml", "--format", "concise").stdout
    assert "the check under `until` of `fix` changes something that a rollback does not revert" in found
    assert "`check`" not in found
    assert (
        bench.call("graph", "plan.yaml", "--format", "text").stdout.split()
        == "fix start, agent, at most 2 rounds".split()
    )
    ran = bench.call("exec", "plan.yaml")
    said = ran.stdout + ran.stderr
    assert "fix#1/check skipped: the agent has not answered yet" in said
    assert "the agent of `fix` has not given an answer that passes the check after 2 rounds" in said
    assert "outputs.done" not in said + bench.call("why", "last", "fix#1/check").stdout
    assert bench.call("replay", "last").returncode == 0


def test_what_another_agent_has_may_be_denied(make: Make) -> None:
    bench = make(["Done."])
    bench.write(PLAN + "    denied: [http.get, 'git.*']\n")
    assert bench.call("lint", "plan.yaml").returncode == 0


@pytest.mark.parametrize("models", [{}, {"fast": {"provider": "openai", "model": "m", "key_env": "NOT_SET"}}])
def test_a_run_does_not_start_without_the_model_of_an_agent(make: Make, models: Json) -> None:
    bench = make(["Done."])
    bench.write("plan: p\ntasks:\n  - {id: a, agent: {tools: [shell]}, prompt: x}\n", models=models, agents={})
    refused = bench.call("exec", "plan.yaml")
    assert refused.returncode == 5
    assert "cannot start: one thing that it needs is missing here" in refused.stderr


def test_a_plan_is_read_again_when_a_tool_of_the_project_changes(make: Make) -> None:
    bench = make(["Done."] * 2)
    plan = "plan: p\ntasks:\n  - {id: a, agent: {tools: [page]}, prompt: x}\n"
    page = {"uses": "files.write", "with": {"path": "one.md"}}
    assert bench.run(plan, agents={}, tools={"page": page})["status"] == "completed"
    bench.write(plan, tools={"sheet": page})
    refused = bench.call("exec", "plan.yaml")
    assert refused.returncode == 5 and "there is no tool `page`" in refused.stderr


def test_a_plan_is_a_tool(make: Make) -> None:
    bench = make([[("greet", {"name": "Ada"})], "Done."])
    bench.write(
        "plan: greet\ntitle: Greets somebody.\nparams: {name: {type: string}}\ntasks:\n"
        "  - {id: say, run: \"printf 'hello %s' {{ params.name }}\", stdout: text, timeout: 1m}\n"
        "outputs: {said: '{{ tasks.say.outputs.value }}'}\n",
        "greet.yaml",
    )
    told = bench.run(PLAN, agents={"coder": {"tools": ["greet.yaml"]}})
    assert told["status"] == "completed", told
    assert "hello Ada" in bench.model.heard[1].last()


def test_the_policy_of_an_agent_holds_for_its_calls(make: Make) -> None:
    bench = make([[("shell", {"command": "touch a"}), ("files_write", {"path": "b.txt", "content": "x"})], "Done."])
    policy = {"capabilities": {"deny": ["shell"]}, "files": {"write": ["out/**"]}}
    bench.run(PLAN, agents={"coder": {"tools": ["files.write", "shell"], "policy": policy}})
    assert [text.partition(":")[0] for role, text in bench.model.heard[1].turns if role == "tool"] == [
        "It failed (policy)",
        "It failed (policy)",
    ]
    assert sorted(path.name for path in bench.folder.iterdir() if path.suffix != ".yaml") == [".planrunner"]


OUTSIDE = """
set +e
echo x >> planrunner.yaml; echo x > ../out; echo x > .git/hooks/pre-commit; echo x > .planrunner/evil
setsid -f sh -c 'sleep 1; echo x > late'; echo "key: $MODEL_KEY"; echo fine > inside; cat inside; true
"""


def test_what_a_model_has_the_shell_do_stays_in_the_project(make: Make) -> None:
    bench = make([[("shell", {"command": OUTSIDE})], "Done."])
    (bench.folder / ".git" / "hooks").mkdir(parents=True)
    told = bench.run(PLAN)
    assert told["status"] == "completed", told
    assert "fine" in bench.model.heard[1].said() and (bench.folder / "inside").read_text() == "fine\n"
    assert "Read-only file system" in bench.model.heard[1].said()
    assert "x" not in (bench.folder / "planrunner.yaml").read_text().splitlines()
    assert not (bench.folder.parent / "out").exists() and not (bench.folder / "late").exists()
    assert not list((bench.folder / ".git" / "hooks").iterdir())
    assert not (bench.folder / ".planrunner" / "evil").exists()


@pytest.mark.parametrize("level", ["agent", "task"])
def test_a_policy_lets_the_shell_of_an_agent_out_in_words(make: Make, level: str) -> None:
    bench = make([[("shell", {"command": "echo x > ../out"})], "Done."])
    policy = {"sandbox": "none"}
    agent = {"tools": ["shell"], **({"policy": policy} if level == "agent" else {})}
    told = bench.run(PLAN + ("    policy: {sandbox: none}\n" if level == "task" else ""), agents={"coder": agent})
    assert told["status"] == "completed", told
    assert (bench.folder.parent / "out").exists()


def test_a_command_that_the_sandbox_stops_says_how_it_is_let_out(make: Make) -> None:
    bench = make([[("shell", {"command": "echo x > planrunner.yaml"}), ("shell", {"command": "false"})], "Done."])
    bench.run(PLAN)
    stopped, failed = [text for role, text in bench.model.heard[1].turns if role == "tool"]
    assert "it is confined because a model chose it" in stopped and "sandbox: {network: true}" in stopped
    assert "confined" not in failed


def test_a_policy_reads_the_commands_that_a_model_chooses(make: Make) -> None:
    commands = ["echo a; rm -rf junk", "git push origin main", "echo '{{ 7 * 7 }}'"]
    bench = make([[("shell", {"command": command}) for command in commands], "Done."])
    deny = {"deny": [{"uses": "shell", "run": "rm *"}], "ask": [{"uses": "shell", "run": "git push *"}]}
    bench.write(PLAN, policy={"capabilities": deny})
    assert bench.call("exec", "plan.yaml").returncode == 8
    assert "git push origin main" in bench.call("gates").stdout
    assert bench.call("reject", "last", "fix#2/calls[1]", "--reason", "not today", "--resume").returncode == 0
    told = [text for role, text in bench.model.heard[1].turns if role == "tool"]
    assert "rm *" in told[0] and "not today" in told[1] and "{{ 7 * 7 }}" in told[2]


def test_the_long_form_says_the_same(make: Make) -> None:
    bench = make([[("answer", {"ok": True})]])
    told = bench.run("""
plan: mend
tasks:
  - {id: fix, uses: agent.react, with: {agent: coder, prompt: Mend it., schema: {ok: bool}}}
""")
    assert bench.outputs(told, "fix")["ok"] is True


def test_two_agents_that_share_a_conversation_side_by_side_are_found(make: Make) -> None:
    bench = make(["Done."])
    bench.write("""
plan: talk
tasks:
  - {id: a, agent: coder, session: s, prompt: One.}
  - {id: b, agent: coder, session: s, prompt: Two.}
  - {id: c, agent: coder, session: s, prompt: Three., needs: [a, b]}
""")
    lines = bench.call("lint", "plan.yaml", "--format", "concise").stdout.splitlines()
    assert [line for line in lines if "PLAN851" in line] == [lines[0]]
    assert "`a` and `b` continue the session `s`" in lines[0]


@pytest.mark.parametrize("name", ["usage", "transcript", "rounds"])
def test_an_answer_has_no_part_named_as_an_output_of_every_agent(make: Make, name: str) -> None:
    bench = make(["Done."])
    bench.write(PLAN + f"    schema: {{ok: bool, {name}: string}}\n")
    found = bench.call("lint", "plan.yaml")
    assert found.returncode == 1
    assert f"has an output `{name}` already" in found.stdout


def test_what_all_rounds_used_is_told_together(make: Make) -> None:
    bench = make([[("files_glob", {"patterns": ["*.none"]})], "Done."])
    used = bench.outputs(bench.run(PLAN), "fix")["usage"]
    assert used == {"input": 200, "output": 40, "cost": pytest.approx(280e-6)}


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("{type: object, properties: 5}", "`properties` of a schema is a mapping"),
        ("{type: object, properties: [a]}", "`properties` of a schema is a mapping"),
        ("{type: object, properties: {a: 5}}", "`properties` of a schema is a mapping"),
        ("{type: object, required: 5}", "`required` of a schema is a list of names"),
    ],
)
def test_a_schema_that_is_none_is_found(make: Make, schema: str, message: str) -> None:
    bench = make(["Done."])
    bench.write(PLAN + f"    schema: {schema}\n")
    found = bench.call("lint", "plan.yaml")
    assert found.returncode == 1 and message in found.stdout


def test_no_model_is_asked_for_what_fits_no_valid_schema(make: Make) -> None:
    bench = make(["Done."])
    told = bench.run(PLAN + "    schema: {type: object, properties: {a: {type: strange}}}\n")
    assert "not a valid JSON Schema" in told["tasks"]["fix#1/model"]["detail"]
    assert not bench.model.heard


def test_a_model_that_is_down_is_told_with_the_way_to_try_again(make: Make) -> None:
    bench = make([])
    bench.model.__exit__()
    bench.write(PLAN)
    failed = bench.call("exec", "plan.yaml")
    assert failed.returncode == 1
    said = failed.stdout + failed.stderr
    assert "carry." not in said and "gave " not in said
    assert "  go on    planrunner retry " in said and "plan.yaml or planrunner.yaml, then:" in said


def test_a_prompt_that_reads_why_it_was_sent_back_is_told_even_where_the_agent_has_not_worked_yet(make: Make) -> None:
    bench = make(["made", "changed"])
    bench.write("""
plan: talk
tasks:
  - {id: look, run: ls made || true, effect: read, stdout: text, timeout: 1m}
  - {id: create, needs: [look], when: tasks.look.stdout is empty, agent: coder, prompt: Make it.}
  - {id: mark, needs: [create], run: touch made, timeout: 1m}
  - {id: edit, needs: [look], when: tasks.look.stdout is not empty, agent: coder, prompt: "Change it: {{ rework.comment }}"}
  - {id: ok, needs: [mark, edit], join: any, gate: approval, ask: "Good?", on_reject: {rework: look, max: 2}}
""")
    assert bench.call("exec", "plan.yaml").returncode == 8
    assert bench.call("reject", "last", "ok", "--reason", "Too short.", "--resume").returncode == 8
    assert [heard.last() for heard in bench.model.heard] == ["Make it.", "Change it: Too short."]


def test_what_speaks_against_the_work_is_told_to_those_who_did_it(make: Make) -> None:
    bench = make(["first", "second", "after"])
    bench.write("""
plan: talk
tasks:
  - {id: fix, agent: coder, prompt: Mend it.}
  - {id: ok, needs: [fix], gate: approval, ask: Look., on_reject: {rework: fix, max: 2}}
  - {id: tell, needs: [ok], agent: coder, prompt: Tell of it.}
""")
    assert bench.call("exec", "plan.yaml").returncode == 8
    assert bench.call("reject", "last", "ok", "--reason", "Too short.", "--resume").returncode == 8
    assert bench.call("approve", "last", "ok", "--resume").returncode == 0
    assert [heard.last() for heard in bench.model.heard] == [
        "Mend it.",
        "Mend it.\n\nThe last attempt was not accepted: Too short.",
        "Tell of it.",
    ]


def test_an_agent_inside_a_task_that_is_sent_back_is_told_why(make: Make) -> None:
    bench = make(["first", "second"])
    bench.write("""
plan: talk
tasks:
  - {id: each, foreach: [a], subplan: [{id: fix, agent: coder, prompt: Mend it.}]}
  - {id: ok, needs: [each], gate: approval, ask: Look., on_reject: {rework: each, max: 2}}
""")
    assert bench.call("exec", "plan.yaml").returncode == 8
    assert bench.call("reject", "last", "ok", "--reason", "Too short.", "--resume").returncode == 8
    assert [heard.last() for heard in bench.model.heard] == [
        "Mend it.",
        "Mend it.\n\nThe last attempt was not accepted: Too short.",
    ]


def test_a_check_that_misses_an_expectation_says_which(make: Make) -> None:
    bench = make(["Done.", [("files_write", {"path": "flag", "content": "x"})], "Now it is."])
    check = "{run: 'ls | wc -l', stdout: text, expect: ['int(outputs.value) > 2']}"
    told = bench.run(PLAN + f"    until: {check}\n")
    assert told["status"] == "completed", told
    assert "not the end yet: `int(outputs.value) > 2` is false" in bench.model.heard[1].last()


def test_a_type_that_is_mistyped_is_named_alone(make: Make) -> None:
    bench = make(["Done."])
    bench.write(
        PLAN
        + "    schema: {days: [strng]}\n  - {id: say, needs: [fix], run: 'echo {{ tasks.fix.outputs.days }}', timeout: 1m}\n"
    )
    said = bench.call("lint", "plan.yaml", "--format", "concise").stdout
    assert "`strng` of `days[]` is not a type, did you mean `string`?" in said and said.count("error[") == 1, said


@pytest.mark.parametrize("provider", ["openai-compatible", "ollama"])
def test_arguments_that_are_no_json_are_told_as_that(make: Make, provider: str) -> None:
    bench = make([[("files_read", '{"path": "a')], [("answer", "[1")], [("answer", {"ok": True})]], provider)
    told = bench.run(PLAN + "    schema: {ok: bool}\n")
    assert told["status"] == "completed", told
    assert bench.model.heard[1].turns[-1] == (
        "tool",
        "The call was not made: its arguments are not JSON. Give them as one JSON object.",
    ), "nor is it told to go on: why is said"
    assert "it is not JSON" in bench.model.heard[2].said()
    assert "INVALID_JSON" not in bench.model.heard[2].said()
    assert "its arguments are not JSON" in bench.call("why", "last", "fix").stdout
