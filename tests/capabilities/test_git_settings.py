"""The sections ``git`` and ``forge`` of planrunner.yaml: what they take, and what is said of mistakes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from git_workbench import Bench, git, repository

from planrunner.capabilities.contract import Failure
from planrunner.capabilities.git.commit import commit
from planrunner.capabilities.git.forge import pull_request
from planrunner.capabilities.git.remote import fetch
from planrunner.capabilities.git.transport import must_not_be_overheard, parsed
from planrunner.capabilities.git.worktree import status
from planrunner.safety.project import check_project

GOOD = """\
git:
  name: Build
  email: build@example.org
  protocols: [https, file]
  credentials:
    github.com: {username: x-access-token, password: GITHUB_TOKEN}
    "127.0.0.1:8080": {password: LOCAL_TOKEN}
  allow_config: [filter.lfs.*]
forge: {kind: gitlab, url: "https://gitlab.example.org/api/v4", repository: group/project, token: FORGE_TOKEN}
"""


def findings(folder: Path, text: str) -> list[tuple[str, str]]:
    (folder / "planrunner.yaml").write_text(text)
    checked = check_project(str(folder))
    assert checked is not None
    return [(checked.source.text[each.span.start : each.span.end], each.message) for each in checked.findings]


def test_everything_that_the_page_tells_is_taken(tmp_path: Path) -> None:
    assert findings(tmp_path, GOOD) == []


@pytest.mark.parametrize(
    ("text", "place", "said"),
    [
        ("git: {protocols: [ext]}", "ext", "https"),
        ("git: {protocol: [https]}", "protocol", "protocols"),
        ("git: {credentials: {github.com: {username: x}}}", "username", "password"),
        ("git: {credentials: {github.com: {password: ghp-not-a-name}}}", "ghp-not-a-name", ""),
        ("forge: {kind: github, token: 5}", "5", ""),
        ("forge: {kind: sourcehut}", "sourcehut", "github"),
        ("forge: {kind: github, key: X}", "key", ""),
    ],
)
def test_a_mistake_is_told_at_its_place(text: str, place: str, said: str, tmp_path: Path) -> None:
    found = findings(tmp_path, text + "\n")
    assert found and found[0][0] == place
    assert said in found[0][1]


def test_settings_that_the_operator_lets_be_do_what_they_say(tmp_path: Path) -> None:
    work = repository(tmp_path / "work")
    git(work, "config", "filter.upper.clean", "tr a-z A-Z")
    (work / ".gitattributes").write_text("a.txt filter=upper\n")
    desk = Bench(work, tmp_path / "state")
    with pytest.raises(Failure, match="allow_config"):
        desk.do(status)
    desk.settings["git"] = {"allow_config": ["filter.upper.*"]}
    (work / "a.txt").write_text("two\n")
    assert [entry["path"] for entry in desk.do(status).entries] == ["a.txt", ".gitattributes"]


def test_secrets_are_not_sent_where_all_can_read_them(tmp_path: Path) -> None:
    with pytest.raises(Failure, match="not encrypted") as caught:
        must_not_be_overheard(["140.82.112.3"], "http://github.com")
    assert caught.value.failure == "policy"
    must_not_be_overheard(["127.0.0.1", "10.1.2.3", "fd00::1"], "http://here")
    work = repository(tmp_path / "work")
    login = {"8.8.8.8": {"username": "x", "password": "TOKEN"}}
    desk = Bench(work, tmp_path / "state", {"git": {"credentials": login}, "forge": {
        "kind": "github", "url": "http://8.8.8.8/api", "repository": "a/b", "token": "TOKEN"}})  # fmt: skip
    desk.env["TOKEN"] = "s3cr3t"
    calls: list[tuple[Any, dict[str, Any]]] = [(fetch, {"url": "http://8.8.8.8/r.git"}), (pull_request, {"title": "x"})]
    for function, inputs in calls:
        with pytest.raises(Failure, match="not encrypted"):
            desk.do(function, **inputs)


def test_the_protocol_git_takes_addresses_in_numbers(tmp_path: Path) -> None:
    desk = Bench(repository(tmp_path / "work"), tmp_path / "state")
    desk.settings |= {"git": {"protocols": ["git"]}, "network": {"private": ["127.0.0.1", "localhost", "::1"]}}
    with pytest.raises(Failure, match="in numbers"):
        desk.do(fetch, url="git://localhost:1/r.git")
    with pytest.raises(Failure) as caught:
        desk.do(fetch, url="git://127.0.0.1:1/r.git")
    assert caught.value.failure == "transient"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to somebody else")
def test_a_repository_of_somebody_else_is_used_where_the_user_trusts_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = repository(tmp_path / "work")
    for path in (work, work / ".git"):
        os.chown(path, 12345, 12345)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("GIT_CONFIG_GLOBAL", raising=False)
    desk = Bench(work, tmp_path / "state")
    with pytest.raises(Failure, match="dubious ownership"):
        desk.do(status)
    (tmp_path / ".gitconfig").write_text(f"[safe]\n\tdirectory = {work}\n")
    assert desk.do(status).branch == "main"


def test_a_submodule_is_a_repository_of_its_own(tmp_path: Path) -> None:
    inner, outer = repository(tmp_path / "inner"), repository(tmp_path / "outer")
    git(outer, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(inner), "part")
    desk = Bench(outer / "part", tmp_path / "state")
    (outer / "part" / "a.txt").write_text("two\n")
    assert desk.do(commit, subject="inside", all=True).branch == "main"
    assert [entry["path"] for entry in Bench(outer, tmp_path / "state").do(status).entries] == [".gitmodules"]


@pytest.mark.parametrize(
    ("text", "scheme", "host", "port"),
    [
        ("https://host.example/a/b.git", "https", "host.example", 443),
        ("ssh://git@host.example:2222/a.git", "ssh", "host.example", 2222),
        ("git@host.example:a/b.git", "ssh", "host.example", 22),
        ("http://[::1]:8080/a.git", "http", "[::1]", 8080),
        ("/srv/a.git", "file", "", 0),
        ("../a.git", "file", "", 0),
        ("file:///srv/a.git", "file", "", 0),
    ],
)
def test_addresses_are_read_as_git_reads_them(text: str, scheme: str, host: str, port: int) -> None:
    found = parsed(text)
    assert (found.scheme, found.host, found.port) == (scheme, host, port)
