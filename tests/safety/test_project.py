"""Profiles lie over the sections and narrow the policy; the user's file lies beneath those of every project."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from planrunner import caller
from planrunner.errors import PlanInvalid, UsageError
from planrunner.safety.project import check_files, read_data, read_project, read_settings

PROJECT = """\
policy: {network: {allow: [example.org]}}
models:
  default: fast
  fast: {provider: ollama, model: m, timeout: 10s, parameters: {temperature: 0.1, max_tokens: 50}}
sql: {databases: {shop: {url: "sqlite:///shop.db"}}}
tools: [{id: read, uses: files.read, description: reads}, {id: look, uses: files.list}]
profiles:
  dev: {}
  ci:
    description: what the pipeline goes by
    policy: {network: {allow: []}}
    models: {fast: {timeout: 1s, parameters: {max_tokens: 5}}, slow: {provider: ollama, model: big}}
    sql: {databases: {shop: {url: null, url_env: SHOP}}}
    tools: [{id: read, uses: files.read, description: reads slowly}, {id: write, uses: files.write}]
"""


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """What is chosen stays in the environment of the process, which these tests put back."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    yield
    os.environ.pop(caller.PROFILE_VARIABLE, None)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    (root / "planrunner.yaml").write_text(PROJECT)
    return root


def user(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "home/planrunner/config.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    return path


def codes(root: Path) -> list[tuple[str, str, str]]:
    return [
        (each.code, file.source.text[slice(*each.span)], each.message)
        for file in check_files(str(root))
        for each in file.findings
        if each.severity != "note"
    ]


def test_without_a_profile_the_sections_hold_as_they_are(project: Path) -> None:
    found = read_settings(str(project))
    assert found.profile == ""
    assert found.data["models"]["fast"]["timeout"] == "10s"
    assert [(each.name, each.file, each.data) for each in found.levels] == [
        ("planrunner.yaml", "planrunner.yaml", {"network": {"allow": ["example.org"]}})
    ]


def test_a_profile_goes_before_the_sections_at_any_depth_and_takes_away_what_it_leaves_empty(project: Path) -> None:
    os.environ[caller.PROFILE_VARIABLE] = "ci"
    data = read_data(str(project))
    fast = {"provider": "ollama", "model": "m", "timeout": "1s", "parameters": {"temperature": 0.1, "max_tokens": 5}}
    assert data["models"] == {"default": "fast", "fast": fast, "slow": {"provider": "ollama", "model": "big"}}
    assert data["sql"] == {"databases": {"shop": {"url_env": "SHOP"}}}
    assert [(each["id"], each.get("description")) for each in data["tools"]] == [
        ("read", "reads slowly"),
        ("look", None),
        ("write", None),
    ]


def test_the_policy_of_a_profile_is_one_more_level_and_replaces_none(project: Path) -> None:
    os.environ[caller.PROFILE_VARIABLE] = "ci"
    found = read_settings(str(project))
    assert found.data["policy"] == {"network": {"allow": ["example.org"]}}
    assert [(each.name, each.file, each.data) for each in found.levels] == [
        ("planrunner.yaml", "planrunner.yaml", {"network": {"allow": ["example.org"]}}),
        ("profile ci", "profile ci of planrunner.yaml", {"network": {"allow": []}}),
    ]


def test_the_file_may_name_the_profile_and_who_asks_for_another_or_none_gets_that(project: Path) -> None:
    path = project / "planrunner.yaml"
    path.write_text(f"profile: ci\n{PROJECT}")
    assert read_settings(str(project)).profile == "ci"
    os.environ[caller.PROFILE_VARIABLE] = "dev"
    assert read_settings(str(project)).profile == "dev"
    os.environ[caller.PROFILE_VARIABLE] = caller.NO_PROFILE
    assert read_settings(str(project)).profile == ""


@pytest.mark.parametrize(("name", "said"), [("cx", "did you mean `ci`?"), ("production", "it has ci, dev")])
def test_a_profile_that_is_not_there_is_refused_with_what_there_is(project: Path, name: str, said: str) -> None:
    os.environ[caller.PROFILE_VARIABLE] = name
    with pytest.raises(UsageError, match=f"`planrunner.yaml` has no profile `{name}`") as raised:
        read_data(str(project))
    assert raised.value.hint == said
    (project / "planrunner.yaml").unlink()
    with pytest.raises(UsageError, match=f"so there is no profile `{name}`"):
        check_files(str(project))


@pytest.mark.parametrize(
    ("profile", "code", "word", "said"),
    [
        ("people: {eve: release}", "PLAN844", "people", "`people` cannot stand in a profile"),
        ("profiles: {}", "PLAN844", "profiles", "cannot stand in a profile"),
        ("include: x.yaml", "PLAN844", "include", "cannot stand in a profile"),
        ("polcy: {}", "PLAN003", "polcy", "a profile has no key `polcy`, did you mean `policy`?"),
        ("models: {fast: {provider: opnai}}", "PLAN006", "opnai", "did you mean `openai`?"),
        ("models: {slow: {provider: ollama}}", "PLAN004", "provider", "with the profile `odd`: "),
        ("sql: {databases: {shop: {url_env: X}}}", "PLAN009", "url_env", "with the profile `odd`: "),
        ("models: {default: slow}", "PLAN841", "slow", "names the model `slow`"),
    ],
)
def test_each_profile_is_checked_whether_it_is_chosen_or_not(
    project: Path, profile: str, code: str, word: str, said: str
) -> None:
    text = PROJECT.replace(", slow: {provider: ollama, model: big}", "")
    (project / "planrunner.yaml").write_text(f"{text}  odd: {{{profile}}}\n")
    assert [(found, text, said in message) for found, text, message in codes(project)] == [(code, word, True)]


def test_no_profile_may_have_the_name_of_none(project: Path) -> None:
    (project / "planrunner.yaml").write_text("profiles: {none: {}}\n")
    assert [found[:2] for found in codes(project)] == [("PLAN844", "none")]


def test_an_approval_is_bound_to_the_profile(project: Path) -> None:
    found = {}
    for name in ("", "dev", "ci"):
        os.environ[caller.PROFILE_VARIABLE] = name
        found[name] = read_project(str(project)).digest
    assert len(set(found.values())) == 3
    (project / "planrunner.yaml").write_text(PROJECT.replace("allow: []", "allow: [a.example]"))
    assert read_project(str(project)).digest != found["ci"]
    os.environ[caller.PROFILE_VARIABLE] = "dev"
    assert read_project(str(project)).digest == found["dev"]  # what another profile says is nothing to this one


def test_the_users_file_lies_beneath_and_its_policy_is_a_level_of_its_own(project: Path, tmp_path: Path) -> None:
    path = user(
        tmp_path,
        "policy: {network: {deny: ['*.evil.example']}}\n"
        "network: {ca: /etc/ours.pem, private: [10.0.0.1]}\n"
        "models: {default: mine, fast: {provider: openai, model: x, key_env: KEY}, mine: {provider: ollama, model: y}}\n",
    )
    found = read_settings(str(project))
    assert found.data["network"] == {"ca": "/etc/ours.pem", "private": ["10.0.0.1"]}
    assert found.data["models"]["default"] == "fast"
    assert "key_env" not in found.data["models"]["fast"]  # entries are taken whole: no key meets a foreign address
    assert found.data["models"]["mine"] == {"provider": "ollama", "model": "y"}
    assert [each.name for each in found.levels] == [str(path), "planrunner.yaml"]
    assert "network" not in found.own
    digest = read_project(str(project)).digest
    path.write_text("policy: {network: {allow: []}}\n")
    assert read_project(str(project)).digest == digest  # people who decide together see the same


def test_the_users_file_holds_without_a_file_of_the_project(project: Path, tmp_path: Path) -> None:
    (project / "planrunner.yaml").unlink()
    user(tmp_path, "models: {mine: {provider: ollama, model: y}}\n")
    assert list(read_data(str(project))["models"]) == ["mine"]


@pytest.mark.parametrize(
    "text", ["people: {eve: release}\n", "profiles: {ci: {}}\n", "include: x\n", "models: [\n", "5\n"]
)
def test_a_fault_in_the_users_file_is_a_finding_there(project: Path, tmp_path: Path, text: str) -> None:
    path = user(tmp_path, text)
    with pytest.raises(PlanInvalid) as raised:
        read_data(str(project))
    assert raised.value.source.name == str(path)


def test_a_users_file_that_anybody_may_write_is_refused(project: Path, tmp_path: Path) -> None:
    path = user(tmp_path, "models: {}\n")
    path.chmod(0o646)
    with pytest.raises(UsageError, match="anybody may write"):
        read_data(str(project))


def test_a_wrong_profile_of_the_shell_is_called_by_what_it_is(project: Path) -> None:
    (project / "planrunner.yaml").write_text("cli_profiles: {ci: {aliass: {}}}\n")
    said = [message for _, _, message in codes(project)]
    assert said and all("an a profile" not in message for message in said)
    assert any(message.startswith("a profile of the shell has no key") for message in said)
