"""Who may do what: tokens, scopes, projects, sessions, and the account of the process on its own machine."""

from __future__ import annotations

import os
import re
import shutil
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import commands
import pytest
from serving import Answer, Served, make_project, serving, stopped

from planrunner.extras import installing
from planrunner.safety import tokens
from planrunner.service import peers
from planrunner.service.app import ROUTERS, addresses, scope_of


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A service of two projects for holders of tokens."""
    work = tmp_path_factory.mktemp("work")
    shop, site = make_project(work / "shop"), make_project(work / "site")
    with serving(shop, str(shop), str(site)) as running:
        running.make_token("first", "--scope", "admin")
        yield running


def _as(served: Served, token: str, method: str, path: str, body: object = None) -> Answer:
    return served.ask(method, path, body, authorization=f"Bearer {token}")


def test_without_a_token_nothing_is_shown(guarded: Served) -> None:
    for path in ("/", "/shop/runs", f"{guarded.api}/runs", "/api/v1/openapi.json", "/api/v1/projects", "/nothing"):
        answer = guarded.get(path)
        assert answer.status == 401, path
        assert answer.headers["www-authenticate"] == "Bearer"
    assert guarded.get("/livez").status == 200
    assert guarded.get("/readyz").status == 200
    assert guarded.get("/static/page.css").status == 200


@pytest.mark.parametrize(
    "path",
    ["/livez/", "/livez/../shop/runs", "/static/../shop/runs", "/static/%2e%2e/shop/runs", "/sign-in/x", "//shop/runs"],
)
def test_an_open_address_opens_no_other(guarded: Served, path: str) -> None:
    assert guarded.get(path).status in (401, 404, 405), path


def test_a_scope_allows_what_it_says(guarded: Served) -> None:
    read = guarded.make_token("reader", "--scope", "read")
    run = guarded.make_token("runner", "--scope", "run")
    decide = guarded.make_token("decider", "--scope", "decide")
    start, memory = f"{guarded.api}/runs", f"{guarded.api}/memory/a"
    assert _as(guarded, read, "GET", f"{guarded.api}/runs").status == 200
    refused = _as(guarded, read, "POST", start, {"plan": "plans/quick.yaml"})
    assert (refused.status, refused.data["detail"].startswith("this needs the scope `run`")) == (403, True)
    assert _as(guarded, decide, "POST", start, {"plan": "plans/quick.yaml"}).status == 403
    made = _as(guarded, run, "POST", start, {"plan": "plans/asks.yaml"})
    assert made.status == 202
    gate = f"{guarded.api}/runs/{made.data['run_id']}/gates/sign/approve"
    assert _as(guarded, run, "POST", gate, {"shown": "0" * 12}).status == 403
    assert _as(guarded, run, "PUT", memory, {"value": 1}).status == 403
    assert _as(guarded, run, "POST", start, {"plan": "plans/quick.yaml", "trust": "sha256:0"}).status == 403


@pytest.fixture
def ungated(guarded: Served) -> Iterator[str]:
    """The address of a run that waits at a gate which its plan file has no more."""
    token = guarded.make_token("starter", "--scope", "run")
    path = guarded.folder / "plans/asks.yaml"
    before = path.read_text()
    name = _as(guarded, token, "POST", f"{guarded.api}/runs", {"plan": "plans/asks.yaml"}).data["run_id"]
    address = f"{guarded.api}/runs/{name}"
    guarded.settled(name, authorization=f"Bearer {token}")
    path.write_text(before.replace("ask: 'Publish it?'", "run: echo unasked"))
    yield address
    path.write_text(before)


GONE = [{"gate": "sign", "change": "it is not a gate"}]


def test_a_revision_that_overrules_a_gate_takes_the_scope_to_decide(guarded: Served, ungated: str) -> None:
    run = guarded.make_token("mender", "--scope", "run")
    both = guarded.make_token("both", "--scope", "run", "--scope", "decide")
    body = {"plan": "plans/asks.yaml"}
    assert _as(guarded, run, "POST", f"{ungated}/revise/preview", body).data["overruled"] == GONE
    refused = _as(guarded, run, "POST", f"{ungated}/revise", body)
    assert (refused.status, "overrules the gate `sign`" in refused.data["detail"]) == (403, True)
    assert [gate["gate"] for gate in _as(guarded, run, "GET", f"{ungated}/gates").data["gates"]] == ["sign"]
    done = _as(guarded, both, "POST", f"{ungated}/revise", body)
    assert (done.status, done.data["overruled"]) == (200, GONE)


def test_the_editor_overrules_no_gate_without_the_scope_to_decide(guarded: Served, ungated: str) -> None:
    token = guarded.make_token("writer of plans", "--scope", "run")
    cookie = _form(guarded, "/sign-in", {"token": token, "to": "/"}).headers["set-cookie"].partition(";")[0]
    place = "/shop/plans/plans/asks.yaml"
    page = guarded.get(f"{place}?run={ungated.rpartition('/')[2]}", cookie=cookie, accept="text/html").text
    fields = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', page))
    text = (guarded.folder / "plans/asks.yaml").read_text()
    answer = _form(guarded, place, {**fields, "plan": text, "reason": "faster", "do": "revise"}, cookie=cookie)
    assert answer.status == 403
    assert [gate["gate"] for gate in _as(guarded, token, "GET", f"{ungated}/gates").data["gates"]] == ["sign"]


def test_a_token_for_one_project_finds_no_other(guarded: Served) -> None:
    token = guarded.make_token("guest", "--scope", "run", "--project", "site")
    assert [each["name"] for each in _as(guarded, token, "GET", "/api/v1/projects").data["projects"]] == ["site"]
    hidden, missing = (_as(guarded, token, "GET", f"/api/v1/projects/{name}/runs") for name in ("shop", "nowhere"))
    assert hidden.status == missing.status == 404
    assert hidden.data["detail"].replace("shop", "nowhere") == missing.data["detail"]
    assert _as(guarded, token, "GET", "/shop/runs").status == 404
    assert _as(guarded, token, "GET", "/api/v1/projects/site/runs").status == 200
    assert _as(guarded, token, "GET", "/api/v1/projects/site/memory?layer=global").status == 403


def test_what_a_token_without_admin_writes_waits_for_trust(guarded: Served) -> None:
    run, admin = guarded.make_token("writer", "--scope", "run"), guarded.make_token("owner", "--scope", "admin")
    plan = {"plan": "p", "defaults": {"timeout": "1m"}, "tasks": [{"id": "a", "run": "touch taken"}]}
    made = _as(guarded, run, "POST", f"{guarded.api}/plans", {"path": "plans/theirs.json", "plan": plan})
    assert made.status == 201
    refused = _as(guarded, run, "POST", f"{guarded.api}/runs", {"plan": "plans/theirs.json"})
    assert (refused.status, "not trusted" in refused.data["detail"]) == (403, True)
    assert not (guarded.folder / "taken").exists()
    own = _as(guarded, admin, "POST", f"{guarded.api}/plans", {"path": "plans/own.json", "plan": plan})
    assert own.status == 201
    assert _as(guarded, admin, "POST", f"{guarded.api}/runs", {"plan": "plans/own.json"}).status == 202


def test_a_revoked_or_expired_token_ends_at_once(guarded: Served) -> None:
    token = guarded.make_token("brief", "--scope", "read")
    assert _as(guarded, token, "GET", f"{guarded.api}/runs").status == 200
    ran = commands.run("token", "revoke", "brief", folder=guarded.folder, env=guarded.environment)
    assert ran.code == 0
    assert _as(guarded, token, "GET", f"{guarded.api}/runs").status == 401
    made, text = tokens.Token("1", "n", "", ("read",), expires=10.0), "planrunner_1_key"
    known = [made._replace(digest=tokens._digest("key"))]
    assert tokens.token_of(text, known, 9.0) is not None
    assert tokens.token_of(text, known, 10.0) is None
    assert tokens.token_of("planrunner_1_kex", known, 9.0) is None
    assert tokens.token_of("other_1_key", known, 9.0) is None


def test_the_file_of_tokens_holds_digests_and_is_its_users_alone(guarded: Served) -> None:
    token = guarded.make_token("secret", "--scope", "read")
    file = Path(guarded.environment["XDG_DATA_HOME"]) / "planrunner" / "service" / "tokens.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert token.rpartition("_")[2] not in file.read_text()
    file.chmod(0o644)
    try:
        answer = _as(guarded, token, "GET", f"{guarded.api}/runs")
        assert answer.status == 503 or answer.status == 200  # read before: nothing in it has changed
        ran = commands.run("token", "list", folder=guarded.folder, env=guarded.environment)
        assert (ran.code, "others can read it" in ran.err) == (11, True)
    finally:
        file.chmod(0o600)


def _form(guarded: Served, path: str, fields: dict[str, str], **headers: str) -> Answer:
    given = {"content_type": "application/x-www-form-urlencoded", **headers}
    return guarded.ask("POST", path, urlencode(fields).encode(), **given)


def test_a_person_signs_in_with_a_token_and_out(guarded: Served) -> None:
    token = guarded.make_token("ada", "--scope", "run")
    led = guarded.get("/shop/runs?q=x", accept="text/html")
    assert (led.status, led.headers["location"]) == (303, "/sign-in?to=/shop/runs%3Fq%3Dx")
    wrong = _form(guarded, "/sign-in", {"token": "nothing", "to": "/"})
    assert (wrong.status, "set-cookie" in wrong.headers) == (403, False)
    entered = _form(guarded, "/sign-in", {"token": token, "to": "/shop/runs"})
    assert (entered.status, entered.headers["location"]) == (303, "/shop/runs")
    cookie = entered.headers["set-cookie"]
    assert "httponly" in cookie.lower()
    assert "samesite=strict" in cookie.lower()
    pair = cookie.partition(";")[0]
    page = guarded.get("/shop/runs", cookie=pair, accept="text/html")
    assert page.status == 200
    forged = _form(guarded, "/sign-out", {"form": "guessed"}, cookie=pair)
    assert forged.status == 403
    form = guarded.get("/api/v1/me", cookie=pair)
    assert form.data["name"] == "ada"


@pytest.mark.parametrize("to", ["https://evil.example", "//evil.example", "/\\evil.example", "evil", "/\tx", "\n/x"])
def test_signing_in_leads_nowhere_else(guarded: Served, to: str) -> None:
    token = guarded.make_token("led", "--scope", "read")
    assert _form(guarded, "/sign-in", {"token": token, "to": to}).headers["location"] == "/"


def test_on_its_own_machine_the_account_of_the_process_acts_and_no_other(served: Served) -> None:
    assert served.get("/api/v1/me").data["scopes"] == ["admin", "decide", "read", "run"]
    curl, setpriv = shutil.which("curl"), shutil.which("setpriv")
    if os.geteuid() or not curl or not setpriv:
        pytest.skip("another user is only taken on by root, with setpriv and curl")
    command = [setpriv, "--reuid", "65534", "--clear-groups", curl, "-s", "-o", "/dev/null", "-w", "%{http_code}"]
    asked = subprocess.run([*command, f"{served.address}/api/v1/me"], capture_output=True, text=True, check=True)
    assert asked.stdout == "403"


def test_others_are_let_in_with_tokens_only(tmp_path: Path) -> None:
    folder = make_project(tmp_path / "shop")
    environment = {**os.environ, "XDG_DATA_HOME": str(tmp_path / "data")}
    ran = commands.run("serve", "--host", "0.0.0.0", "--port", "0", folder=folder, env=environment)
    assert ran.code == 2
    assert "planrunner token create" in ran.err


def test_it_says_who_may_act_and_stops_when_it_is_asked_to(tmp_path: Path) -> None:
    with serving(make_project(tmp_path / "shop")) as served:
        lines = [served.process.stderr.readline() for _ in range(3)]
        assert re.search(r"shop .*shop", lines[0])
        assert "without a token" in lines[1]
        assert "Ctrl-C" in lines[2]
        assert stopped(served.process) == 0
        with pytest.raises(OSError, match="refused"):
            socket.create_connection(("127.0.0.1", served.port)).close()
        assert served.process.stderr.read() == ""


def test_a_missing_extra_is_named() -> None:
    code = (
        "import sys\nclass Gone:\n    def find_spec(self, name, *_):\n"
        "        if name.partition('.')[0] in ('fastapi', 'uvicorn', 'starlette'):\n"
        "            raise ModuleNotFoundError(f'No module named {name!r}', name=name)\n"
        "sys.meta_path.insert(0, Gone())\nfrom planrunner.cli import main\n"
        "sys.argv = ['planrunner', 'serve', '--port', '0']\nsys.exit(main())\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (ran.returncode, installing("serve") in ran.stderr) == (5, True), ran.stderr


READING = {
    ("POST", "/plans/validate"), ("POST", "/plans/preview"), ("POST", "/plans/complete"), ("POST", "/plans/format"),
    ("POST", "/plans/fix"), ("POST", "/look"), ("POST", "/sign-out"),
    ("POST", "/rerun/preview"), ("POST", "/rollback/preview"), ("POST", "/revise/preview"),
}  # fmt: skip
"""Requests with a body that change nothing of a project."""
UNPROVEN = {"/livez", "/readyz", "/sign-in", "/hooks/{project}/{trigger}"}
"""Addresses that no token is asked for at; a webhook proves itself by its signature."""


def test_every_address_asks_for_a_scope_and_more_than_reading_for_a_change() -> None:
    for route in addresses(ROUTERS):
        scope = scope_of(route)
        assert (scope is None) == (route.path in UNPROVEN), route.path
        for method in route.methods - {"GET", "HEAD"}:
            reads = any(route.path.endswith(end) and method == how for how, end in READING)
            assert (scope == "read") == reads or scope is None, (method, route.path, scope)


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_the_user_at_the_other_end_of_a_connection_is_known(address: str) -> None:
    try:
        listener = socket.create_server((address, 0), family=socket.AF_INET6 if ":" in address else socket.AF_INET)
    except OSError:
        pytest.skip(f"this machine has no {address}")
    with listener, socket.create_connection(listener.getsockname()[:2]) as client, listener.accept()[0]:
        ends = client.getsockname()[:2], listener.getsockname()[:2]
        listed = peers._listed(*ends)
        assert listed == peers._peer(*ends) and listed is not None
        assert peers.connecting_uid(*ends) == listed.user == os.geteuid()
        assert peers.connecting_uid(ends[0], (address, 1)) is None
        assert peers.connecting_uid(ends[0], None) is None


def test_a_token_that_is_not_valid_is_told_from_another_user_where_there_are_no_tokens(served: Served) -> None:
    answer = served.get(f"{served.api}/runs", authorization="Bearer planrunner_gone")
    assert (answer.status, answer.data["detail"]) == (401, "the token of this request is not valid")
    assert served.get(f"{served.api}/runs").status == 200


def test_a_session_outlives_the_service_and_ends_with_its_token(tmp_path: Path) -> None:
    project = make_project(tmp_path / "shop")
    with serving(project) as before:
        token = before.make_token("ana", "--scope", "decide")
        entered = _form(before, "/sign-in", {"token": token, "to": "/shop/runs"})
        pair, port = entered.headers["set-cookie"].partition(";")[0], before.port
    kept = (tmp_path / "data" / "planrunner" / "service" / "sessions.json").read_text()
    assert pair.partition("=")[2] not in kept
    with serving(project, "--port", str(port)) as after:
        me = after.get("/api/v1/me", cookie=pair)
        assert (me.status, me.data["name"]) == (200, "ana")
        after.environment["XDG_DATA_HOME"] = str(tmp_path / "data")
        assert commands.run("token", "revoke", "ana", folder=project, env=after.environment).code == 0
        after.make_token("other", "--scope", "read")
        gone = after.get("/api/v1/me", cookie=pair)
        assert gone.status == 401
        assert "sign in again" in gone.data["hint"]


def test_a_session_outlives_a_service_that_is_killed(tmp_path: Path) -> None:
    project = make_project(tmp_path / "shop")
    with serving(project) as before:
        token = before.make_token("ana", "--scope", "decide")
        entered = _form(before, "/sign-in", {"token": token, "to": "/shop/runs"})
        pair, port = entered.headers["set-cookie"].partition(";")[0], before.port
        before.process.kill()
        before.process.wait()
    with serving(project, "--port", str(port)) as after:
        me = after.get("/api/v1/me", cookie=pair)
        assert (me.status, me.data["name"]) == (200, "ana")
