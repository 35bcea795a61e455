"""Names in one section stand in another; what this version does not use is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from planrunner.plan.validation import read_schema
from planrunner.safety import consistency
from planrunner.safety.content import SECTIONS
from planrunner.safety.project import check_files

SOUND = """\
models:
  default: fast
  judge: careful
  fast: {provider: openai, model: m, credential: key, fallback: [careful]}
  careful: {provider: ollama, model: small}
agents:
  editor: {model: fast, fallback: [careful], tools: [read], memory: [project], policy: {network: {allow: []}}, context: {tokens: 4000}}
tools:
  read: {uses: files.read, with: {path: README.md}}
memory:
  project_store: {backend: sqlite}
profile: strict
profiles:
  strict: {policy: {network: {allow: []}}}
workflow: {plan: plans/edit.yaml}
forge: {kind: github, credential: key}
provider_credentials: [{id: key, auth: {source: env, env_var: OUR_KEY}}]
"""


@pytest.fixture
def helped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "of-the-user"))

    def check(text: str) -> list[str]:
        (tmp_path / "planrunner.yaml").write_text(text)
        [file] = check_files(str(tmp_path))
        return [each.help for each in file.findings]

    return check


@pytest.fixture
def found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "of-the-user"))
    (tmp_path / "plans").mkdir()
    (tmp_path / "plans/edit.yaml").write_text("plan: edit\ntasks: []\n")

    def check(text: str) -> list[tuple[str, str, str]]:
        (tmp_path / "planrunner.yaml").write_text(text)
        [file] = check_files(str(tmp_path))
        return [(each.code, file.source.text[slice(*each.span)], each.message) for each in file.findings]

    return check


def test_settings_whose_names_are_all_there_have_only_notes(found) -> None:
    assert {code for code, *_ in found(SOUND)} == {"PLAN845"}


@pytest.mark.parametrize(
    ("old", "new", "word", "said"),
    [
        ("default: fast", "default: fsat", "fsat", "`default` of `models` names the model `fsat`, which does not exist, did you mean `fast`?"),
        ("judge: careful", "judge: nobody", "nobody", "names the model `nobody`"),
        ("fallback: [careful]}\n  careful", "fallback: [gone]}\n  careful", "gone", "the model `fast` names the model `gone`"),
        ("{model: fast,", "{model: fats,", "fats", "the agent `editor` names the model `fats`"),
        ("tools: [read]", "tools: [read, raed]", "raed", "names the tool `raed`, which does not exist, did you mean `read`?"),
        ("memory: [project]", "memory: [projekt]", "projekt", "the layer of memory `projekt`, which does not exist, did you mean `project`?"),
        ("credential: key,", "credential: kye,", "kye", "the model `fast` names the credential `kye`"),
        ("credential: key}", "credential: keys}", "keys", "`forge` names the credential `keys`"),
        ("profile: strict", "profile: prod", "prod", "`profile` names the profile `prod`"),
        ("plans/edit.yaml", "plans/edti.yaml", "plans/edti.yaml", "the plan `plans/edti.yaml`"),
    ],
)  # fmt: skip
def test_a_name_that_is_not_there_is_found_where_it_stands(found, old: str, new: str, word: str, said: str) -> None:
    assert old in SOUND
    [(code, text, message)] = [each for each in found(SOUND.replace(old, new)) if each[0] != "PLAN845"]
    assert (code, text) == ("PLAN841", word)
    assert said in message


def test_agents_and_tools_may_be_lists_of_entries_with_an_id(found) -> None:
    text = "agents: [{id: editor, tools: [read, wirte]}]\ntools: [{id: read, uses: files.read}]\n"
    assert [each[1] for each in found(text) if each[0] == "PLAN841"] == ["wirte"]


def test_a_profile_may_bring_what_an_agent_names_and_is_held_to_names_too(found) -> None:
    text = "agents: {editor: {model: fast}}\nprofiles:\n  ci: {models: {fast: {provider: ollama, model: m}}}\n"
    assert not found(text)
    wrong = text + "  dev: {agents: {editor: {model: slow}}}\n"
    assert [each[1] for each in found(wrong) if each[0] == "PLAN841"] == ["slow"]


TRIGGER = """
triggers:
  nightly: {plan: plans/edit.yaml, cron: 30 2 * * 1-5, timezone: Europe/Berlin, missed: all, overlap: queue}
  push: {plan: plans/edit.yaml, webhook: {secret: key, window: 1m, params: {ref: head.ref}}}
  docs: {plan: plans/edit.yaml, watch: [docs/**/*.md], settle: 2s}
provider_credentials: [{id: key, auth: {source: env, env_var: OUR_KEY}}]
"""


@pytest.mark.parametrize(
    ("old", "new", "code", "word", "said"),
    [
        ("edit.yaml, cron", "edti.yaml, cron", "PLAN841", "plans/edti.yaml", "the trigger `nightly` names the plan"),
        ("30 2 * * 1-5", "30 25 * * 1-5", "PLAN006", "30 25 * * 1-5", "`25` is not an hour"),
        ("30 2 * * 1-5", "30 2 * *", "PLAN006", "30 2 * *", "five fields"),
        ("30 2 * * 1-5", "30 2 * * 5-1", "PLAN006", "30 2 * * 5-1", "write `5-7,1`"),
        ("Europe/Berlin", "Europe/Berln", "PLAN006", "Europe/Berln", "is not a time zone"),
        ("secret: key", "secret: kye", "PLAN841", "kye", "the trigger `push` names the credential `kye`"),
        (
            "1m, params: {ref: head.ref}}}",
            "1m}, params: {ref: head.ref, v: v1.2}}",
            "PLAN616",
            "head.ref",
            "gives each run the text `head.ref` as `ref`",
        ),
        ("settle: 2s}", "settle: 2s, missed: all}", "PLAN009", "missed", "the trigger `docs` has no `cron`"),
        ("missed: all,", "missed: all, settle: 2s,", "PLAN009", "settle", "the trigger `nightly` has no `watch`"),
        ("missed: all,", "missed: all, watch: x,", "PLAN009", "watch", "the trigger `nightly` has `cron` already"),
        ("overlap: queue", "overlap: wait", "PLAN006", "wait", "overlap"),
        ("watch: [docs/**/*.md], settle: 2s", "", "PLAN004", "plan", "cron"),
        ("window: 1m", "window: soon", "PLAN006", "soon", "`window`"),
        ("{ref: head.ref}", "{ref: 3}", "PLAN005", "3", "text"),
        ("push:", "pu sh:", "PLAN006", "pu sh", "cannot name a trigger"),
    ],
)
def test_what_is_wrong_with_a_trigger_is_told_where_it_stands(
    found, old: str, new: str, code: str, word: str, said: str
) -> None:
    assert not found(TRIGGER)
    (row,) = found(TRIGGER.replace(old, new, 1))
    assert row[:2] == (code, word) and said in row[2]


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("agents: {editor: {modle: x}}\n", "PLAN003", "an agent has no key `modle`, did you mean `model`?"),
        ("agents: 5\n", "PLAN005", "`agents` must be a mapping or a list"),
        ("agents: [{model: x}]\n", "PLAN004", "an agent needs the key `id`"),
        ("agents: {a: {instructions: x, system_prompt: y}}\n", "PLAN009", "exclude each other"),
        ("tools: {read: {}}\n", "PLAN004", "a tool needs the key `uses`"),
        ("memory: {task_store: {backend: redis}}\n", "PLAN006", "`backend` must be `file`, `sqlite` or `postgresql`"),
        ("memory: {team_store: {}}\n", "PLAN003", "no key `team_store`"),
        ("memory: {task_store: {retention: {max_age: ever}}}\n", "PLAN006", "`max_age` cannot be `ever`"),
        ("memory: {threshold: 2}\n", "PLAN006", "`threshold` must be"),
        ("scheduler: {max_parallel: 0}\n", "PLAN006", "`max_parallel` must be"),
        ("scheduler: {queue_policy: lifo}\n", "PLAN006", "`queue_policy` must be `fifo`"),
        ("workflow: {}\n", "PLAN004", "needs the key `plan`"),
        ("include: {a: b}\n", "PLAN005", "`include` must be"),
        ("profiles: [ci]\n", "PLAN005", "`profiles` must be a mapping"),
    ],
)
def test_each_section_is_held_to_its_schema(found, text: str, code: str, said: str) -> None:
    assert [(each[0], said in each[2]) for each in found(text) if each[0] != "PLAN845" and said in each[2]] == [
        (code, True)
    ]


def test_a_setting_that_nothing_goes_by_yet_says_so(found) -> None:
    [(_, where, message)] = [each for each in found("workflow: {plan: p.yaml}\n") if each[0] == "PLAN845"]
    assert where == "workflow"
    assert "does nothing yet" in message


def test_a_profile_of_the_shell_names_a_profile_that_there_is(found) -> None:
    assert not found(
        "profiles: {ci: {}}\ncli_profiles: {editor: {profile: ci, aliases: {go: exec p}, start: [runs]}}\n"
    )
    [(code, where, message)] = found("profiles: {ci: {}}\ncli_profiles: [{id: editor, profile: ic}]\n")
    assert (code, where) == ("PLAN841", "ic")
    assert "did you mean `ci`?" in message


@pytest.mark.parametrize("said", ["false", "true", "{revisions: 2}"])
def test_planning_on_its_own_is_switched_in_the_settings(found, said: str) -> None:
    assert found(f"policy: {{autonomous: {said}}}\n") == []


@pytest.mark.parametrize(
    ("text", "help_"),
    [
        ("autonomous: true\n", "it belongs under `policy`: `policy: {autonomous: …}`"),
        (
            "models: {a: {provider: openai, model: m, temperature: 0.2}}\n",
            "it belongs under `parameters`: `parameters: {temperature: …}`",
        ),
        ("models: {a: gpt}\n", "a model is a mapping: `{provider: openai, model: NAME}`"),
        ("agents: {a: {model: fast}}\n", "there is no section `models`"),
        (
            "agents: {a: {tools: [read_file]}}\n",
            "there is no section `tools`; a tool may also be a capability such as `files.read`, or `ask`",
        ),
        ("include: ['config/*.yaml']\n", ""),
    ],
)
def test_the_way_out_is_told(helped, text: str, help_: str) -> None:
    assert helped(text) == [help_]


def test_a_pattern_among_the_files_to_include_is_told_as_one(found) -> None:
    [(_, _, message)] = found("include: ['config/*.yaml']\n")
    assert message.endswith("there is no such file; `include` takes the names of files, not patterns")


@pytest.mark.parametrize("said", ["true", "{rubric: Be strict}"])
def test_a_project_that_has_runs_reviewed_needs_a_model(found, said: str) -> None:
    message = "`reflect` needs a model, and there is none"
    assert found(f"reflect: {said}\n") == [("PLAN227", said, message)]
    assert found(f"profiles:\n  p: {{reflect: {said}}}\n") == [("PLAN227", said, message)]
    assert found(f"reflect: {said}\nmodels: {{m: {{provider: ollama, model: x}}}}\n") == []
    assert found("reflect: false\n") == []


def test_the_model_of_a_reflection_is_one_of_the_project(found) -> None:
    models = "models: {slow: {provider: ollama, model: x}}\n"
    (finding,) = found(f"reflect: {{model: slwo}}\n{models}")
    assert finding[:2] == ("PLAN841", "slwo")


def test_the_sections_are_those_of_the_published_schema() -> None:
    assert {*SECTIONS} == {*read_schema("project.schema.json")["properties"]}
    assert {*consistency.SECTIONS} < {*SECTIONS}
