"""What a token may read and write as a plan, and what then runs: plans where the project keeps them and nothing else,
and no text of a token that cannot trust runs by any way to a start."""

from __future__ import annotations

import json
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from urllib.parse import quote

import commands
import pytest
from serving import Answer, Json, Served, make_project, serving

CHILD = "plan: child\ndefaults: {timeout: 1m}\ntasks: [{id: a, run: echo fine}]\n"
EVIL = "plan: child\ndefaults: {timeout: 1m}\ntasks: [{id: a, run: touch PWNED}]\n"
SETTINGS = """\
include: config/policy.yaml
triggers:
  links: {plan: lib/named.yaml, watch: never/*}
"""


class Project:
    """A served project with the tokens of some clients."""

    def __init__(self, served: Served) -> None:
        self.served, self.folder = served, served.folder
        self.tokens = {scope: served.make_token(f"the-{scope}", "--scope", scope) for scope in ("read", "run", "admin")}

    def ask(self, who: str, method: str, path: str, body: Json = None) -> Answer:
        return self.served.ask(method, self.served.api + path, body, authorization=f"Bearer {self.tokens[who]}")

    def put(self, who: str, path: str, text: str) -> Answer:
        read = self.ask("admin", "GET", f"/plans/{quote(path, safe='')}")
        digest = read.data["digest"] if read.status == 200 else ""
        return self.ask(who, "PUT", "/plans", {"path": path, "text": text, "digest": digest})

    def start(self, who: str, plan: str) -> Answer:
        return self.ask(who, "POST", "/runs", {"plan": plan})


FILES = {
    "plans/parent.yaml": "plan: parent\ntasks: [{id: c, subplan: mid/link.yaml}]\n",
    "plans/mid/link.yaml": "plan: link\ntasks: [{id: c, subplan: ../../lib/child.yaml}]\n",
    "lib/child.yaml": CHILD,
    "lib/named.yaml": CHILD,
    "lib/loose.yaml": CHILD,
    "config/policy.yaml": "policy: {files: {deny: ['secrets/**', 'plans/hidden.yaml']}}\n",
    "plans/hidden.yaml": CHILD,
    "plans/data.yaml": "private_key: abc\n",
    "service-account.json": '{"private_key": "abc", "id": "x"}\n',
    "package.json": '{"scripts": {"test": "true"}, "id": "p"}\n',
    "secrets/db.yaml": "password: abc\n",
    ".github/workflows/ci.yaml": "plan: x\ntasks: [{id: a, run: echo}]\n",
    "plans/.hidden/x.yaml": CHILD,
    "node_modules/x/package.json": '{"id": "p"}\n',
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    folder = make_project(tmp_path_factory.mktemp("work") / "shop")
    (folder / "planrunner.yaml").write_text(SETTINGS)
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    with serving(folder) as running:
        yield Project(running)


NO_PLANS = (
    "service-account.json", "package.json", "secrets/db.yaml", "config/policy.yaml", "lib/loose.yaml", "plans/data.yaml",
    "plans/hidden.yaml", ".github/workflows/ci.yaml", "plans/.hidden/x.yaml", "node_modules/x/package.json",
)  # fmt: skip
KEPT = ("plans/parent.yaml", "plans/mid/link.yaml", "lib/child.yaml", "lib/named.yaml")


@pytest.mark.parametrize("path", NO_PLANS)
def test_what_is_not_a_plan_of_the_project_is_not_read_by_any_way(project: Project, path: str) -> None:
    inner = quote(path, safe="")
    body = {"path": path, "text": CHILD, "plan": path}
    asked = [
        ("GET", f"/plans/{inner}", None),
        ("GET", f"/plans/{inner}/graph", None),
        ("POST", "/plans/preview", {"path": path}),
        ("POST", "/plans/validate", {"path": path, "text": CHILD}),
        ("POST", "/plans/complete", {"path": path, "text": CHILD, "offset": 3}),
        ("POST", "/plans/format", {"path": path, "text": CHILD}),
        ("POST", "/plans/fix", {"path": path, "text": CHILD}),
        ("POST", "/runs", {"plan": body["plan"]}),
        ("POST", f"/plans/{inner}/tasks/a/run", {}),
    ]
    for method, where, sent in asked:
        answer = project.ask("admin", method, where, sent)
        assert answer.status in (403, 404), (where, answer)
        assert "abc" not in answer.text
    page = project.served.get(f"/shop/plans/{quote(path)}", authorization=f"Bearer {project.tokens['admin']}")
    assert page.status in (403, 404) and "abc" not in page.text


@pytest.mark.parametrize("path", NO_PLANS)
def test_what_is_not_a_plan_of_the_project_is_not_written(project: Project, path: str) -> None:
    before = (project.folder / path).read_text()
    for who in ("run", "admin"):
        for method in ("PUT", "POST"):
            body = {"path": path, "text": EVIL, "digest": sha256(before.encode()).hexdigest()}
            assert project.ask(who, method, "/plans", body).status in (403, 404)
        drafted = project.ask(who, "POST", "/plans/draft", {"goal": "x", "path": path, "save": True})
        assert drafted.status in (403, 404)
    assert (project.folder / path).read_text() == before


@pytest.mark.parametrize("path", KEPT)
def test_a_plan_that_is_listed_linked_to_or_named_by_the_settings_is_read(project: Project, path: str) -> None:
    assert project.ask("read", "GET", f"/plans/{quote(path, safe='')}").status == 200


NEW = (
    "new.yaml", "package-lock.json", ".vscode/tasks.json", "config/new.yaml", "planrunner.yml", "plans/planrunner.yml",
    "plans/a\n.yaml", "plans/a\u202eb.yaml", "plans/x.yaml/y.yaml", "plans/.x/a.yaml", "plans/-a.yaml", "plans/a.yaml.json",
    "plans/a.test.yaml", "plans/ /a.yaml", "plans/.yaml", "lib/new.yaml", "plans/a;b.yaml", "plans/\u200b.yaml",
)  # fmt: skip


@pytest.mark.parametrize("path", NEW)
def test_a_new_plan_is_written_below_plans_under_a_plain_name_alone(project: Project, path: str) -> None:
    answer = project.ask("admin", "POST", "/plans", {"path": path, "text": CHILD})
    assert answer.status in (400, 403, 404), answer
    assert not (project.folder / path).exists()


def test_a_new_plan_may_have_a_name_of_any_language(project: Project) -> None:
    for path in ("plans/übersicht.json", "plans/team a/plans/日本.json", "plans/v1.2_b-c.json"):
        made = project.ask(
            "run", "POST", "/plans", {"path": path, "plan": {"tasks": [{"id": "a", "run": "echo"}], "plan": "p"}}
        )
        assert made.status == 201, made
        assert project.ask("read", "GET", f"/plans/{quote(path, safe='')}").status == 200


def test_a_text_that_is_not_a_plan_is_not_written_as_one(project: Project) -> None:
    answer = project.ask("admin", "POST", "/plans", {"path": "plans/workflow.yaml", "text": "on: push\njobs: {}\n"})
    assert (answer.status, "is not a plan" in answer.data["detail"]) == (400, True)


def test_settings_that_are_included_but_not_there_yet_are_not_written_as_a_plan(project: Project) -> None:
    path = project.folder / "planrunner.yaml"
    path.write_text(SETTINGS.replace("config/policy.yaml", "[config/policy.yaml, plans/later.yaml]"))
    try:
        answer = project.ask("admin", "POST", "/plans", {"path": "plans/later.yaml", "text": CHILD})
        assert answer.status in (403, 404)
        assert not (project.folder / "plans/later.yaml").exists()
    finally:
        path.write_text(SETTINGS)


def test_a_token_that_cannot_trust_does_not_change_what_runs(project: Project) -> None:
    for path in ("plans/quick.yaml", "lib/child.yaml", "plans/mid/link.yaml"):
        before = (project.folder / path).read_text()
        answer = project.put("run", path, EVIL)
        assert (answer.status, "scope `admin`" in answer.data["detail"]) == (403, True)
        assert "another name" in answer.data["hint"]
        drafted = project.ask("run", "POST", "/plans/draft", {"goal": "x", "path": path, "save": True})
        assert drafted.status == 403
        assert (project.folder / path).read_text() == before
    own = {"path": "plans/own.yaml", "text": EVIL}
    made = project.ask("run", "POST", "/plans", own)
    assert made.status == 201
    again = project.ask("run", "PUT", "/plans", {**own, "text": EVIL + "# more\n", "digest": made.data["digest"]})
    assert again.status == 200, "what waits for trust may be changed by the one who wrote it"


def test_a_linked_plan_with_text_of_such_a_token_does_not_run(project: Project) -> None:
    made = project.ask("run", "POST", "/plans", {"path": "plans/sent/child.yaml", "text": EVIL})
    assert made.status == 201
    for name, text in {
        "outer": "plan: outer\ntasks: [{id: m, subplan: inner.yaml}]\n",
        "inner": "plan: inner\ntasks: [{id: s, subplan: sent/child.yaml}]\n",
        "looped": "plan: looped\ntasks: [{id: l, foreach: [1], subplan: sent/child.yaml}]\n",
    }.items():
        (project.folder / f"plans/{name}.yaml").write_text(text)
    for name in ("outer", "inner", "looped"):
        refused = project.start("run", f"plans/{name}.yaml")
        assert refused.status == 403, refused
        assert "plans/sent/child.yaml`, which it links to: it was written with the token `the-run`" in refused.text
        assert "planrunner trust plans/sent/child.yaml" in refused.data["hint"]
        env = project.served.environment
        ran = commands.run("exec", f"plans/{name}.yaml", folder=project.folder, env=env)
        assert (ran.code, "planrunner trust plans/sent/child.yaml" in ran.err) == (12, True)
    assert not (project.folder / "PWNED").exists()
    trusted = commands.run("trust", "plans/sent/child.yaml", "--yes", folder=project.folder, env=env)
    assert trusted.code == 0
    assert project.start("run", "plans/outer.yaml").status == 202


def test_no_way_to_go_on_links_a_run_to_such_a_text(project: Project) -> None:
    (project.folder / "plans/fails-first.yaml").write_text(
        "plan: f\ndefaults: {timeout: 1m}\ntasks: [{id: a, run: exit 3}]\n"
    )
    run = project.start("run", "plans/fails-first.yaml").data["run_id"]
    project.served.token = project.tokens["admin"]
    assert project.served.settled(run)["status"] == "failed"
    project.ask("run", "POST", "/plans", {"path": "plans/late.yaml", "text": EVIL.replace("PWNED", "LATE")})
    (project.folder / "plans/fails-first.yaml").write_text("plan: f\ntasks: [{id: a, subplan: late.yaml}]\n")
    revised = project.ask("run", "POST", f"/runs/{run}/revise", {"plan": "plans/fails-first.yaml"})
    assert (revised.status, "which it links to" in revised.text) == (403, True)
    env = project.served.environment
    for words in (("retry", run, "--plan"), ("resume", run, "--plan"), ("rerun", run, "a", "--plan"), ("revise", run)):
        ran = commands.run(*words, "plans/fails-first.yaml", folder=project.folder, env=env)
        assert ran.code == 12, (words, ran.err)
    assert not (project.folder / "LATE").exists()


def test_what_holds_again_what_it_held_before_runs_unasked(project: Project) -> None:
    before = (project.folder / "plans/takes.yaml").read_text()
    from planrunner.safety import trust

    env = dict(project.served.environment)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", env["XDG_DATA_HOME"])
        path = str(project.folder / "plans/takes.yaml")
        trust.mark(path, EVIL.encode(), "it came from outside")
        Path(path).write_text(EVIL)
        assert project.start("run", "plans/takes.yaml").status == 403
        Path(path).write_text(before)
        assert project.start("run", "plans/takes.yaml").status == 202


def test_the_page_offers_no_save_that_would_be_refused_and_trust_to_those_who_may(project: Project) -> None:
    def page(who: str, path: str) -> str:
        return project.served.get(f"/shop/plans/{path}", authorization=f"Bearer {project.tokens[who]}").text

    assert 'value="save"' not in page("run", "plans/quick.yaml")
    assert "changing it needs the scope admin" in page("run", "plans/quick.yaml")
    assert 'value="save"' in page("admin", "plans/quick.yaml")
    project.ask("run", "POST", "/plans", {"path": "plans/waiting.yaml", "text": EVIL})
    assert 'value="save"' in page("run", "plans/waiting.yaml")
    assert 'value="trust"' not in page("run", "plans/waiting.yaml")
    assert 'value="trust"' in page("admin", "plans/waiting.yaml")
    assert "the-run" in json.dumps(page("admin", "plans/waiting.yaml"))
