"""What a token cannot reach by a plan that it wrote itself, by leaving gates out, by names, or by no token at all."""

from __future__ import annotations

import base64
import hashlib
import hmac
import time
from collections.abc import Iterator
from urllib.parse import quote, urlencode

import commands
import pytest
from serving import Answer, Json, Served, awaited, make_project, serving

from planrunner.safety.sessions import form_of

SETTINGS = """\
people: {ana: [owner]}
policy: {files: {deny: ["secrets/**", "plans/hidden.yaml"]}}
triggers: {push: {plan: plans/takes.yaml, webhook: {secret: hook, params: {word: head.ref}}}}
provider_credentials: [{id: hook, provider: x, auth: {type: api_key, source: env, env_var: HOOK}}]
"""
UNSOUND = 'models: {default: m, m: {provider: openai, model: x, base_url: "http://user:hunter2@h", timeout: hunter2}}\n'
GATED = """\
plan: gated
defaults: {timeout: 1m}
tasks:
  - {id: work, run: echo done}
  - {id: ok, needs: [work], gate: approval, ask: "Publish?"}
  - {id: pack, needs: [ok], run: echo packed}
  - {id: pub, needs: [pack], run: echo published}
  - {id: aside, run: echo aside}
"""


def plan(name: str, task: str = "run: echo hi") -> str:
    return f"plan: {name}\ndefaults: {{timeout: 1m}}\ntasks: [{{id: a, {task}}}]\n"


FILES = {
    "planrunner.yaml": SETTINGS,
    "plans/gated.yaml": GATED,
    "plans/hidden.yaml": plan("hidden", "run: echo hunter2"),
    "plans/ops/release.yaml": plan("release"),
    "secrets/plan.yaml": plan("secret", "run: echo hunter2"),
    "uploads/loose.yaml": plan("loose", "run: touch RAN"),
}


class Desk:
    def __init__(self, served: Served) -> None:
        self.served, self.folder = served, served.folder
        self.tokens = {
            "read": served.make_token("the-read", "--scope", "read"),
            "run": served.make_token("the-run", "--scope", "run"),
            "both": served.make_token("the-both", "--scope", "run", "--scope", "decide"),
            "decide": served.make_token("the-decide", "--scope", "decide"),
            "admin": served.make_token("the-admin", "--scope", "admin"),
        }

    def ask(self, who: str, method: str, path: str, body: Json = None, **headers: str) -> Answer:
        return self.served.ask(
            method, self.served.api + path, body, authorization=f"Bearer {self.tokens[who]}", **headers
        )

    def write(self, who: str, path: str, text: str, digest: str = "") -> Answer:
        return self.ask(who, "PUT" if digest else "POST", "/plans", {"path": path, "text": text, "digest": digest})

    def start(self, who: str, path: str, **more: Json) -> Answer:
        return self.ask(who, "POST", "/runs", {"plan": path, **more})

    def do(self, *words: str) -> commands.Ran:
        return commands.run(*words, folder=self.folder, env=self.served.environment)


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    folder = make_project(tmp_path_factory.mktemp("work") / "shop")
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    with serving(folder, HOOK="the-key-of-the-hook") as running:
        yield Desk(running)


@pytest.fixture
def unsound(desk: Desk) -> Iterator[None]:
    path = desk.folder / "planrunner.yaml"
    path.write_text(SETTINGS + UNSOUND)
    yield
    path.write_text(SETTINGS)


def test_what_a_plan_that_waits_for_trust_links_to_is_no_plan_of_the_project(desk: Desk) -> None:
    assert desk.write("run", "plans/own.yaml", plan("own", "subplan: ../uploads/loose.yaml")).status == 201
    assert desk.start("run", "uploads/loose.yaml").status == 404
    assert desk.ask("read", "GET", f"/plans/{quote('uploads/loose.yaml', safe='')}").status == 404
    assert desk.do("trust", "plans/own.yaml", "--yes").code == 0
    assert desk.ask("read", "GET", f"/plans/{quote('uploads/loose.yaml', safe='')}").status == 200


@pytest.mark.parametrize("only", [["pub"], ["work", "pub"], ["pack", "aside"]])
def test_only_leaves_no_gate_out_without_the_right_to_decide(desk: Desk, only: list[str]) -> None:
    refused = desk.start("run", "plans/gated.yaml", only=only)
    assert (refused.status, "wait for `ok`" in refused.data["detail"]) == (403, True)
    assert desk.start("both", "plans/gated.yaml", only=only).status == 202


def test_a_task_by_itself_leaves_no_gate_out_either(desk: Desk) -> None:
    path = f"/plans/{quote('plans/gated.yaml', safe='')}/tasks"
    assert desk.ask("run", "POST", f"{path}/pub/run", {}).status == 403
    assert desk.ask("run", "POST", f"{path}/aside/run", {}).status == 202


def test_a_selection_with_its_gates_runs(desk: Desk) -> None:
    for only in (["ok", "pack", "pub"], ["work"], ["ok"]):
        assert desk.start("run", "plans/gated.yaml", only=only).status == 202
    assert desk.start("run", "plans/gated.yaml", until=["pub"]).status == 202


def test_a_person_at_the_command_line_may_leave_a_gate_out(desk: Desk) -> None:
    assert desk.do("exec", "plans/gated.yaml", "--only", "pub").code == 0


def signed(body: bytes, mark: str) -> dict[str, str]:
    at = str(int(time.time()))
    made = hmac.new(b"the-key-of-the-hook", f"{mark}.{at}.".encode() + body, hashlib.sha256).digest()
    return {"webhook_id": mark, "webhook_timestamp": at, "webhook_signature": f"v1,{base64.b64encode(made).decode()}"}


@pytest.mark.usefixtures("unsound")
def test_settings_that_are_not_sound_are_shown_to_no_webhook_and_to_admin_alone(desk: Desk) -> None:
    for hook in ("push", "nothing"):
        answer = desk.served.ask("POST", f"/hooks/shop/{hook}", b"{}")
        assert (answer.status, "hunter2" in answer.text, "findings" in answer.text) == (503, False, False)
    for who in ("read", "run"):
        answer = desk.ask(who, "GET", "/triggers")
        assert (answer.status, "hunter2" in answer.text) == (422, False)
    assert "hunter2" not in desk.start("run", "plans/quick.yaml").text
    assert "findings" in desk.ask("admin", "GET", "/triggers").data


@pytest.mark.usefixtures("unsound")
def test_settings_that_are_not_sound_set_no_denial_aside(desk: Desk) -> None:
    assert desk.ask("read", "GET", f"/plans/{quote('plans/hidden.yaml', safe='')}").status == 404
    assert desk.write("run", "plans/elsewhere.yaml", plan("elsewhere")).status == 400


def test_a_signed_delivery_whose_plan_waits_is_not_called_unsigned(desk: Desk) -> None:
    path = desk.folder / "plans/takes.yaml"
    before = path.read_text()
    try:
        assert desk.write("run", "plans/marked.yaml", plan("marked")).status == 201
        path.write_text(before.replace("tasks:\n", "tasks:\n  - {id: z, subplan: marked.yaml}\n"))
        body = b'{"head":{"ref":"v"}}'
        answer = desk.served.ask("POST", "/hooks/shop/push", body, **signed(body, "one"))
        assert (answer.status, str(desk.folder) in answer.text) == (503, False)
        assert (
            desk.served.ask("POST", "/hooks/shop/push", body, **{**signed(body, "2"), "webhook_id": "3"}).status == 401
        )
    finally:
        path.write_text(before)


@pytest.mark.parametrize(
    "path",
    ["plans/takes.json", "plans/release.yaml", "plans/deep/release.yaml", "plans/venv/x.yaml", "plans/a/node_modules/x.yaml",
     "plans/\u3164.yaml", "plans/a\u115fb.yaml"],
)  # fmt: skip
def test_no_new_plan_takes_the_name_of_another_or_one_that_is_not_seen(desk: Desk, path: str) -> None:
    answer = desk.write("admin", path, plan("x"))
    assert answer.status == 400, answer
    assert not (desk.folder / path).exists()
    assert desk.start("run", "takes").status == desk.start("run", "release").status == 202


def test_a_name_below_that_another_has_at_the_top_is_free(desk: Desk) -> None:
    assert desk.write("run", "plans/deep/quick.yaml", plan("quick")).status == 201
    assert desk.start("run", "quick").status == 202


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("plans/evil.plan", "#!/bin/sh\ntouch RAN\n"),
        ("plans/evil2.plan", '{"scripts": {}}'),
        ("plans/e3.yaml", "x: 1\ntasks: 3\n"),
        ("plans/e4.yaml", "tasks:\njobs: {}\n"),
        ("plans/e5.yaml", "---\nkind: Pod\n---\nplan: x\ntasks: []\n"),
        ("plans/npm.json", '{"plan": "x", "tasks": [], "scripts": {"test": "touch RAN"}}'),
    ],
)
def test_a_new_plan_is_one_that_loads(desk: Desk, path: str, text: str) -> None:
    assert desk.write("admin", path, text).status == 400
    assert not (desk.folder / path).exists()


@pytest.mark.parametrize("linked", ["../secrets/plan.yaml", "hidden.yaml"])
def test_what_a_policy_denies_is_shown_by_no_plan_that_links_to_it(desk: Desk, linked: str) -> None:
    text = plan("linking", f"subplan: {linked}")
    assert desk.write("run", "plans/linking.yaml", text).status == 403
    (desk.folder / "plans/linking.yaml").write_text(text)
    try:
        body = {"path": "plans/linking.yaml", "text": text}
        inner = quote("plans/linking.yaml", safe="")
        for method, path, sent in (
            ("POST", "/plans/validate", body),
            ("POST", "/plans/preview", {"path": body["path"]}),
            ("GET", f"/plans/{inner}/graph", None),
            ("POST", "/runs", {"plan": body["path"]}),
        ):
            answer = desk.ask("admin", method, path, sent)
            assert (answer.status, "hunter2" in answer.text) == (403, False), (path, answer)
        for page in (f"/shop/plans/{body['path']}", f"/shop/start?plan={inner}"):
            shown = desk.served.get(page, authorization=f"Bearer {desk.tokens['admin']}")
            assert "hunter2" not in shown.text
    finally:
        (desk.folder / "plans/linking.yaml").unlink()


def test_a_link_of_a_folder_sets_no_denial_aside(desk: Desk) -> None:
    (desk.folder / "plans/aside").symlink_to("../secrets")
    (desk.folder / "plans/more").symlink_to("../uploads")
    try:
        for path in ("plans/aside/plan.yaml", "plans/more/other.yaml"):
            answer = desk.ask("read", "GET", f"/plans/{quote(path, safe='')}")
            assert answer.status in (403, 404)
            assert desk.start("run", path).status in (403, 404)
    finally:
        (desk.folder / "plans/aside").unlink()
        (desk.folder / "plans/more").unlink()


def test_what_a_person_wrote_over_a_marked_text_runs_and_no_token_changes_it(desk: Desk) -> None:
    for name, by_hand in (("handed", True), ("saved", False)):
        path = f"plans/{name}.yaml"
        made = desk.write("run", path, plan(name, "run: echo theirs"))
        assert desk.start("run", path).status == 403
        if by_hand:
            (desk.folder / path).write_text(plan(name, "run: echo mine"))
        else:
            assert desk.write("admin", path, plan(name, "run: echo mine"), made.data["digest"]).status == 200
        assert desk.start("run", path).status == 202
        digest = hashlib.sha256((desk.folder / path).read_bytes()).hexdigest()
        assert desk.write("run", path, plan(name, "run: echo theirs again"), digest).status == 403
    (desk.folder / "plans/handed.yaml").write_text(plan("handed", "run: echo theirs"))
    assert desk.start("run", "plans/handed.yaml").status == 403, "the marked text waits wherever it comes from"


def test_what_a_trusted_plan_links_to_is_not_changed_without_trust(desk: Desk) -> None:
    kid = desk.write("run", "plans/kid.yaml", plan("kid"))
    assert desk.write("run", "plans/mom.yaml", plan("mom", "subplan: kid.yaml")).status == 201
    changed = desk.write("run", "plans/kid.yaml", plan("kid", "run: echo one"), kid.data["digest"])
    assert changed.status == 200, "nothing that runs links to it"
    assert desk.do("trust", "plans/mom.yaml", "--yes").code == 0
    assert desk.write("run", "plans/kid.yaml", plan("kid", "run: echo two"), changed.data["digest"]).status == 403
    assert desk.start("run", "plans/mom.yaml").status == 202


def waiting(desk: Desk) -> str:
    run = str(desk.start("run", "plans/gated.yaml", until=["ok"]).data["run_id"])
    desk.served.token = desk.tokens["admin"]
    assert desk.served.settled(run)["status"] == "blocked"
    return run


class Page:
    """The page as a browser has it that signed in with a token."""

    def __init__(self, desk: Desk, who: str) -> None:
        self.desk = desk
        form = urlencode({"token": desk.tokens[who]}).encode()
        came = desk.served.ask(
            "POST", "/sign-in", form, content_type="application/x-www-form-urlencoded", authorization=""
        )
        self.cookie = came.headers["set-cookie"].split(";")[0]

    def get(self, path: str) -> str:
        return self.desk.served.get(path, cookie=self.cookie, authorization="", accept="text/html").text

    def send(self, path: str, **fields: str) -> Answer:
        form = urlencode({**fields, "form": form_of(self.cookie.split("=", 1)[1])}).encode()
        kind = "application/x-www-form-urlencoded"
        return self.desk.served.ask("POST", path, form, content_type=kind, cookie=self.cookie, authorization="")


def test_a_gate_is_abandoned_on_the_page_by_those_who_may_steer(desk: Desk) -> None:
    run = waiting(desk)
    refused = Page(desk, "decide").send(f"/shop/inbox/{run}/ok", decision="cancel")
    assert refused.status == 403
    assert desk.served.run(run)["status"] == "blocked"
    assert Page(desk, "both").send(f"/shop/inbox/{run}/ok", decision="cancel").status == 303
    awaited(lambda: desk.served.run(run)["status"] != "blocked")


def test_a_run_goes_on_once_the_gate_that_it_waits_for_is_abandoned(desk: Desk) -> None:
    run = waiting(desk)
    refused = desk.ask("run", "POST", f"/runs/{run}/cancel/ok", {})
    assert (refused.status, "the scope `decide`" in refused.data["detail"]) == (409, True)
    assert desk.ask("both", "POST", f"/runs/{run}/cancel/ok", {}).status == 200
    awaited(lambda: desk.served.run(run)["exit_code"] not in (None, 8))


def test_a_role_of_a_token_that_the_project_does_not_list_says_where_it_stands(desk: Desk) -> None:
    (desk.folder / "plans/roles.yaml").write_text(
        plan("roles", "gate: approval, ask: 'Publish?', approvers: {roles: [owner]}")
    )
    run = desk.start("run", "plans/roles.yaml").data["run_id"]
    desk.tokens["owner"] = desk.served.make_token("an-owner", "--scope", "decide", "--role", "owner")
    desk.served.token = desk.tokens["admin"]
    desk.served.settled(run)
    shown = desk.ask("read", "GET", f"/runs/{run}/gates").data["gates"][0]["shown"]
    refused = desk.ask("owner", "POST", f"/runs/{run}/gates/a/approve", {"shown": shown})
    assert (refused.status, "gives it to `an-owner` under `people`" in refused.data["hint"]) == (403, True)


def test_what_settles_nothing_is_told_at_once_on_the_page(desk: Desk) -> None:
    run = waiting(desk)
    page = Page(desk, "run")
    for task, how in (("ok", "nonsense"), ("ok", "completed"), ("nothing", "retry")):
        assert page.send(f"/shop/runs/{run}/settle", task=task, how=how).status in (400, 404)


def test_the_start_page_says_that_a_plan_waits_and_no_revision_is_offered_that_would(desk: Desk) -> None:
    assert desk.write("run", "plans/later.yaml", plan("later")).status == 201
    page = Page(desk, "run")
    assert "It starts nothing until a person trusts it" in page.get("/shop/start?plan=plans/later.yaml")
    assert "It starts nothing until" not in page.get("/shop/start?plan=plans/quick.yaml")
    run = desk.start("run", "plans/quick.yaml").data["run_id"]
    desk.served.token = desk.tokens["admin"]
    desk.served.settled(run)
    assert "Save and revise the run" not in page.get(f"/shop/plans/plans/later.yaml?run={run}")


def test_a_key_of_a_start_holds_after_the_service_has_forgotten_it(desk: Desk) -> None:
    task = f"/plans/{quote('plans/quick.yaml', safe='')}/tasks/one/run"
    asked = [(task, {}), ("/triggers/push/fire", {"params": {"word": "x"}}), ("/runs", {"plan": "plans/quick.yaml"})]
    with serving(desk.folder, HOOK="the-key-of-the-hook") as other:
        for path, body in asked:
            first = desk.ask("run", "POST", path, body, idempotency_key="once")
            headers = {"authorization": f"Bearer {desk.tokens['run']}", "idempotency_key": "once"}
            again = other.ask("POST", other.api + path, body, **headers)
            assert (first.status, again.status) == (202, 202), again
            assert (first.data.get("run_id") or first.data["run"]) == (again.data.get("run_id") or again.data["run"])
        different = other.ask("POST", f"{other.api}/triggers/push/fire", {"params": {"word": "y"}}, **headers)
        assert different.status == 422


@pytest.mark.parametrize("half", [b'"\\ud800"', b'"a\\udfffb"'])
def test_half_a_character_in_a_list_is_refused_and_no_fault(desk: Desk, half: bytes) -> None:
    run = desk.start("run", "plans/quick.yaml").data["run_id"]
    kind = {"content_type": "application/json"}
    for path, body in (
        ("/runs", b'{"plan": "plans/quick.yaml", "only": [%s]}' % half),
        ("/runs", b'{"plan": "plans/quick.yaml", "until": [%s]}' % half),
        ("/plans/preview", b'{"path": "plans/quick.yaml", "only": [%s]}' % half),
        (f"/runs/{run}/rerun", b'{"tasks": [%s]}' % half),
        (f"/runs/{run}/rerun/preview", b'{"tasks": [%s]}' % half),
        (f"/runs/{run}/retry", b'{"tasks": [%s]}' % half),
        (f"/runs/{run}/rollback", b'{"only": [%s]}' % half),
        (f"/runs/{run}/rollback/preview", b'{"only": [%s]}' % half),
    ):
        answer = desk.ask("run", "POST", path, body, **kind)
        assert 400 <= answer.status < 500, (path, answer)
