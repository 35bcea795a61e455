"""Requests to merge: by the interfaces of three forges, spoken by a server over loopback."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from git_server import peer, served
from git_workbench import Bench, git, repository

from planrunner.capabilities.contract import Failure, declaration_of
from planrunner.capabilities.git.forge import Forge, pull_request


@pytest.fixture
def work(tmp_path: Path) -> Path:
    made = repository(tmp_path / "work")
    git(made, "switch", "-q", "-c", "topic")
    git(made, "remote", "add", "origin", "https://forge.example/ana/project.git")
    return made


def bench(work: Path, kind: str, url: str) -> Bench:
    forge = {"kind": kind, "url": url, "token": "FORGE_TOKEN"}
    made = Bench(work, work.parent / "state", {"network": {"private": ["127.0.0.1"]}, "forge": forge})
    made.env["FORGE_TOKEN"] = peer.LOGIN
    return made


@pytest.mark.parametrize("kind", ["github", "gitlab", "gitea"])
class TestInterfaces:
    def test_a_request_is_opened_once_brought_up_to_date_and_closed(
        self, kind: str, work: Path, tmp_path: Path
    ) -> None:
        with served(tmp_path) as server:
            desk = bench(work, kind, f"{server.url}/{kind}")
            preview = desk.preview(pull_request, title="Add a thing", body="Why.")
            assert preview.summary == "open a request to merge topic into main: Add a thing" and server.requests == []
            first = desk.act(pull_request, title="Add a thing", body="Why.")
            assert (first.outputs.number, first.outputs.created, first.outputs.base) == (1, True, "main")
            again = pull_request(first.context, title="Add a thing", body="Why.")
            assert again == first.outputs and len(server.requests) == 1
            second = desk.act(pull_request, title="Add a better thing", body="Because.")
            assert (second.outputs.number, second.outputs.created, second.outputs.changed) == (1, False, True)
            assert [(one["title"], one["body"]) for one in server.requests] == [("Add a better thing", "Because.")]
            second.undo(False)
            second.undo()
            assert [(one["title"], one["body"]) for one in server.requests] == [("Add a thing", "Why.")]
            first.undo(False)
            assert [one["open"] for one in server.requests] == [False]
            first.undo()
            assert desk.do(pull_request, title="Add a thing").number == 2

    def test_a_request_that_somebody_edited_is_not_closed(self, kind: str, work: Path, tmp_path: Path) -> None:
        with served(tmp_path) as server:
            done = bench(work, kind, f"{server.url}/{kind}").act(pull_request, title="Add a thing")
            server.requests[0]["title"] = "Add a thing (reviewed)"
            with pytest.raises(Failure, match="changed since") as caught:
                done.undo()
            assert caught.value.failure == "moved" and server.requests[0]["open"]

    def test_a_request_that_another_run_opened_meanwhile_gets_its_text_back(
        self, kind: str, work: Path, tmp_path: Path
    ) -> None:
        with served(tmp_path) as server:
            desk = bench(work, kind, f"{server.url}/{kind}")
            declaration: Any = declaration_of(pull_request)
            context = desk.context()
            before = declaration.capture(context, title="Ours")
            desk.do(pull_request, title="Theirs")
            server.trouble = 401
            with pytest.raises(Failure):
                pull_request(context, title="Ours")
            server.trouble = 0
            assert declaration.undo(context, before, None) == {"changed": False} and server.requests[0]["open"]
            assert pull_request(context, title="Ours").changed
            assert declaration.undo(context, before, None) == {"changed": True}
            assert [(one["title"], one["open"]) for one in server.requests] == [("Theirs", True)]

    def test_a_request_that_was_opened_since_the_one_before_was_closed_is_closed(
        self, kind: str, work: Path, tmp_path: Path
    ) -> None:
        with served(tmp_path) as server:
            desk = bench(work, kind, f"{server.url}/{kind}")
            declaration: Any = declaration_of(pull_request)
            desk.do(pull_request, title="Theirs")
            context = desk.context()
            before = declaration.capture(context, title="Ours")
            server.requests[0]["open"] = False
            assert pull_request(context, title="Ours").number == 2
            assert declaration.undo(context, before, None) == {"changed": True}
            assert [one["open"] for one in server.requests] == [False, False]

    @pytest.mark.parametrize(
        ("code", "failure"), [(401, "denied"), (429, "transient"), (502, "transient"), (404, "logic")]
    )
    def test_what_the_forge_refuses_has_a_class(
        self, kind: str, code: int, failure: str, work: Path, tmp_path: Path
    ) -> None:
        with served(tmp_path) as server:
            desk = bench(work, kind, f"{server.url}/{kind}")
            server.trouble = code
            with pytest.raises(Failure) as caught:
                desk.do(pull_request, title="x")
            assert caught.value.failure == failure
            assert peer.LOGIN not in str(caught.value) and server.requests == []

    def test_drafts_are_marked_as_the_forge_does(self, kind: str, work: Path, tmp_path: Path) -> None:
        with served(tmp_path) as server:
            desk = bench(work, kind, f"{server.url}/{kind}")
            done = desk.act(pull_request, title="x", draft=True)
            assert pull_request(done.context, title="x", draft=True).number == 1
            title = {"github": "x", "gitlab": "Draft: x", "gitea": "WIP: x"}[kind]
            assert [(one["title"], one["draft"]) for one in server.requests] == [(title, kind == "github")]
            done.undo()
            assert not server.requests[0]["open"]


class TestSettings:
    def test_without_a_forge_it_says_what_to_set(self, work: Path) -> None:
        for forge, said in (
            ({}, "names no forge"), ({"kind": "github"}, "names no token"),
            ({"kind": "github", "token": "GONE"}, "`GONE` holds no secret"), ({"kind": "gitea"}, "names no forge"),
            ({"repository": "../x", "kind": "github"}, "is not a repository on a forge"),
        ):  # fmt: skip
            desk = Bench(work, work.parent / "state", {"forge": forge})
            desk.env["FORGE_TOKEN"] = "x"
            with pytest.raises(Failure, match=said):
                desk.do(pull_request, title="x")

    def test_a_forge_at_a_private_address_has_to_be_listed(self, work: Path, tmp_path: Path) -> None:
        with served(tmp_path) as server:
            desk = bench(work, "gitea", f"{server.url}/gitea")
            desk.settings["network"] = {}
            with pytest.raises(Failure, match="network") as caught:
                desk.do(pull_request, title="x")
            assert caught.value.failure == "policy" and server.asked == []

    def test_titles_and_branches_are_checked(self, work: Path) -> None:
        desk = bench(work, "github", "https://127.0.0.1:1")
        for inputs in (
            {"title": "a\nb"},
            {"title": " "},
            {"title": "x", "head": "--x"},
            {"title": "x", "base": "a..b"},
        ):
            with pytest.raises(Failure):
                desk.do(pull_request, **inputs)


def test_a_gitea_that_gives_few_at_once_is_asked_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(self: Any, method: str, params: Any) -> Any:
        numbers = range(30 * params["page"] - 29, min(30 * params["page"], 70) + 1)
        rest = {"base": {"ref": "main"}, "html_url": "", "title": "", "body": ""}
        return [{"number": each, "head": {"ref": f"topic-{each}"}, **rest} for each in numbers]

    monkeypatch.setattr(Forge, "_call", answer)
    forge = Forge(None, "gitea", "", "", "")  # type: ignore[arg-type]
    found = forge.find("topic-70", "main")
    assert found is not None and found.number == 70
    assert forge.find("topic-71", "main") is None
