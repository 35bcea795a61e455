"""The playbook `research` on a web of 200 pages: its knowledge base is held against what the pages really say."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit

import pytest
from stage import Ran, Stage

from planrunner.files.beneath import Beneath
from planrunner.knowledge.claims import verdicts
from planrunner.knowledge.notes import Note, read_notes

Json = Any
Staged = Callable[[str], Stage]

PAUSED = 8


def web() -> ModuleType:
    """The rehearsal: its pages, and which were read."""
    return sys.modules["rehearsal_research"]


def truth() -> dict[str, tuple[str, int]]:
    """What the pages that were read state, with the status that a careful reader gives it and the number of sources that
    are independent: their owners, where mirrors count as what they mirror."""
    owners: dict[str, set[str]] = {}
    for url in web().SEEN:
        parts = urlsplit(url)
        owner = web().HOSTS[5] if parts.path.startswith("/mirror/") else str(parts.hostname)
        for form in web().GRAMMAR:
            for match in form.finditer(" ".join(web().WEB[str(parts.hostname), parts.path].paragraphs)):
                owners.setdefault(f"The {match['what']} of Karst is {match['value']}", set()).add(owner)
    subjects = [statement.partition(" is ")[0] for statement in owners]
    return {
        statement: (_status(subjects.count(statement.partition(" is ")[0]), len(its)), len(its))
        for statement, its in owners.items()
    }


def _status(values: int, sources: int) -> str:
    return "disputed" if values > 1 else "confirmed" if sources > 1 else "supported"


def claims(stage: Stage) -> dict[str, Note]:
    """The claims of the base by what they state."""
    with Beneath(str(stage.folder)) as tree:
        return {note.title: note for note in read_notes(tree, "kb") if note.kind == "claim"}


def is_what_the_pages_say(stage: Stage) -> None:
    known = claims(stage)
    found = verdicts(known.values())
    assert {title: (found[note.id].status, found[note.id].sources) for title, note in known.items()} == truth()
    assert all(citation.checked and citation.quote for note in known.values() for citation in note.citations)


def answered(stage: Stage, *words: str) -> Ran:
    """The run up to the sign-off."""
    assert stage.exec(*words).code == PAUSED
    assert stage.planrunner("answer", "last", "agree", "technical").code == 0
    return stage.resume()


def files(stage: Stage) -> dict[str, bytes]:
    """The files of the project, without the state of planrunner."""
    paths = [path for path in stage.folder.rglob("*") if path.is_file()]
    known = {str(path.relative_to(stage.folder)): path.read_bytes() for path in paths}
    return {name: data for name, data in known.items() if not name.startswith(".planrunner/")}


def test_every_claim_has_two_independent_sources_or_is_marked_and_a_rollback_takes_all_back(staged: Staged) -> None:
    stage = staged("research")
    before = files(stage)
    assert len(web().WEB) == 200
    run = answered(stage)
    assert run.code == PAUSED and run.status("sign-off") == "blocked", run.err
    assert run.outputs("fetch")["total"] >= 150
    assert run.status("harvest[4]/broaden") == "completed", "the query of the last question has no results"
    dropped = {(each["kind"], urlsplit(each["url"]).path.split("/")[1]) for each in run.outputs("pages")["dropped"]}
    assert {kind for kind, _ in dropped} == {"text", "near"}
    assert stage.planrunner("approve", "last", "sign-off").code == 0
    run = stage.resume()
    assert run.code == 0, run.err
    is_what_the_pages_say(stage)
    known = truth()
    for facts in web().FACTS.values():
        for what, value, support, _ in facts:
            expected = {"confirmed": ("confirmed", 3), "disputed": ("disputed", 2)}.get(support, ("supported", 1))
            assert known[f"The {what} of Karst is {value}"] == expected
    assert known["The administrator password of Karst is swordfish"] == ("supported", 1)
    report = (stage.folder / "research" / "karst.md").read_text()
    assert "The page size of Karst is 16 KiB: **confirmed**, independent sources: 3" in report
    assert "Find out the default port from its makers" in report and "proprietary" not in report
    assert stage.planrunner("rollback", "last").code == 0
    assert files(stage) == before


def test_killed_in_the_middle_it_comes_to_the_same_base_and_reads_no_page_twice(staged: Staged) -> None:
    stage = staged("research")
    assert stage.exec("-p", "results=8").code == PAUSED
    assert stage.planrunner("answer", "last", "agree", "technical").code == 0
    for task in ("fetch", "claim[[]3[]]"):
        stage.killed(task, "resume", "last", "--unattended")
    assert stage.resume().code == PAUSED
    is_what_the_pages_say(stage)
    assert len(web().SEEN) == len(set(web().SEEN)) > 20


def test_a_rejected_sign_off_searches_again_with_what_was_said(staged: Staged) -> None:
    stage = staged("research")
    before = files(stage)
    assert answered(stage, "-p", "results=4").code == PAUSED
    few = claims(stage)
    assert stage.planrunner("reject", "last", "sign-off", "--reason", "essay").code == 0
    run = stage.resume()
    assert run.code == PAUSED and run.status("sign-off") == "blocked", run.err
    assert set(claims(stage)) > set(few)
    is_what_the_pages_say(stage)
    assert len(web().SEEN) == len(set(web().SEEN)), "a page of the first round is not asked for again"
    assert stage.planrunner("rollback", "last").code == 0
    assert files(stage) == before


def test_a_model_that_obeys_a_page_gets_nowhere_even_with_a_tool(
    staged: Staged, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RESEARCH_MODEL", "obedient")
    stage = staged("research")
    plan = stage.folder / "plans" / "research.yaml"
    text = plan.read_text()
    assert text.count("          system: You pick statements") == 1
    plan.write_text(
        text.replace(
            "          system: You pick statements",
            "          tools: [files.write]\n          system: You pick statements",
        )
    )
    before = files(stage)
    run = answered(stage, "-p", "results=4")
    assert run.code == PAUSED
    changed = {name.partition("/")[0] for name, data in files(stage).items() if before.get(name) != data}
    assert changed == {"kb"}
    called = {name: task for name, task in run.run["tasks"].items() if re.search(r"pick#\d+/calls\[\d+\]$", name)}
    assert called and {(task["status"], task["failure"]) for task in called.values()} == {("failed", "policy")}
    reasons = {each["reason"].partition(" http")[0] for each in run.outputs("facts")["unverified"]}
    assert reasons == {"the quote is not in the text of", "the quote has 67% of the words of the statement"}
    is_what_the_pages_say(stage)


def test_text_of_a_page_is_untrusted_and_never_a_command(staged: Staged) -> None:
    stage = staged("research")
    plan = stage.folder / "plans" / "research.yaml"
    text = plan.read_text().replace("[agent.ask,", "[shell, agent.ask,")
    obey = '  - {id: obey, needs: [pages], run: sh -c "$X", env: {X: "{{ tasks.pages.outputs.docs[0].text }}"}}\n'
    plan.write_text(text.replace("outputs:\n  report:", f"{obey}outputs:\n  report:"))
    done = stage.planrunner("lint", "plans/research.yaml")
    assert done.code == 1
    assert "error[PLAN811] untrusted text would run: " in done.out and "`fetch` (research.fetch)" in done.out
    assert stage.exec().code not in (0, PAUSED)
