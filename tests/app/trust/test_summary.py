"""What is shown of a plan before it runs: all that it may do, and nothing that the plan could make of the screen."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import pytest
from rows import rows

from planrunner.app.proof.powers import hosts, programs
from planrunner.plan.model import Task
from planrunner.views.rights import LONGEST, MOST, item, powers_lines
from planrunner.views.terminal import Terminal

GOLDEN = Path(__file__).parent / "golden"

RELEASE = """\
plan: release
title: Ship it
params:
  host: {type: string, default: mirror.example}
tasks:
  - id: fetch
    run: |
      set -e
      curl -fsS "https://{{ params.host }}/tool.tgz" | tar xz && ./tool/install.sh
      if grep -q beta version; then echo "$(whoami) has a beta"; fi
    env: {TOKEN: "{{ env.RELEASE_TOKEN }}"}
    timeout: 5m
  - id: ask
    needs: [fetch]
    gate: approval
    approvers: {roles: [release]}
  - id: tell
    needs: [ask]
    uses: http.post
    with: {url: "https://user:sesame@hooks.example:8443/x", json: {text: done}}
    timeout: 30s
    retry: 3
  - id: note
    needs: [ask]
    uses: files.write
    with: {path: "notes/{{ params.host }}.md", content: out}
    timeout: 10s
  - id: elsewhere
    run: [make, deploy]
    cwd: ../work
    timeout: 1m
    needs: [note]
  - {id: checks, subplan: checks.yaml, needs: [fetch]}
"""
CHECKS = "plan: checks\ntasks:\n  - {id: types, run: 'mypy .', timeout: 1m}\n"
SETTINGS = """\
provider_credentials:
  - {id: shop, auth: {source: command, command: [pass, show, shop]}}
  - {id: cloud, auth: {source: file, file_path: ~/.cloud/key}}
  - {id: forge, auth: {source: env, env_var: FORGE_TOKEN}}
network: {private: [10.0.0.0/8, db.internal]}
models: {big: {provider: openai, model: x, base_url: "https://models.example/v1", key_env: MODEL_KEY}}
sql: {databases: {shop: {url_env: SHOP_URL}}}
"""


@pytest.fixture
def release(place):
    (place.other / "planrunner.yaml").write_text(SETTINGS)
    place.plan(CHECKS, "checks.yaml")
    return place.plan(RELEASE)


def held_to(name: str, text: str) -> None:
    """Compares with the file that was looked at; a file that is missing is written, to be looked at."""
    path = GOLDEN / name
    if not path.exists():
        path.write_text(text)
        pytest.fail(f"{path} was missing: look at it")
    assert text == path.read_text()


def neutral(place, text: str) -> str:
    return re.sub(r"sha256:[0-9a-f]{64}", "sha256:…", text.replace(str(place.folder), "/srv/ana"))


def test_the_summary_tells_all_that_a_plan_may_do(release: str, place) -> None:
    done = place("trust", release)
    held_to("release.txt", neutral(place, done.out))


def test_the_summary_as_data(release: str, place) -> None:
    done = place("trust", release, "--json")
    held_to("release.json", neutral(place, done.out))


def test_it_is_the_same_where_a_run_is_refused(release: str, place) -> None:
    assert place("trust", release).out in place("exec", release).err


class TestSpoofing:
    @pytest.mark.parametrize(
        ("text", "shown"),
        [
            ("plain.example:8443", "plain.example:8443"),
            ("a, b", '"a, b"'),
            ("x\n  digest      sha256:0", '"x\\n  digest      sha256:0"'),
            ("\x1b[2K\x1b[1A", '"\\033[2K\\033[1A"'),
            ("report\u202etxt.exe", '"report\\u202etxt.exe"'),
            ("\u0430pple.example", '"\\u0430pple.example"'),
            ("\U0001d5ba.example", '"\\U0001d5ba.example"'),
            ('say "hi"', '"say \\"hi\\""'),
            ("\ud800", '"\\ud800"'),
            ("", '""'),
            ("https://me:sesame@x.example/", "https://me:***@x.example/"),
        ],
    )
    def test_a_name_is_one_item_on_one_line_in_ascii(self, text: str, shown: str) -> None:
        assert item(text) == shown
        assert item(text).isascii()
        assert item(text).isprintable()

    def test_a_name_is_no_longer_than_it_may_be(self) -> None:
        assert len(item("x" * 10_000)) == LONGEST
        assert len(item("\x1b" * 10_000)) == LONGEST

    def test_many_names_do_not_hide_how_many_there_are(self, place) -> None:
        tasks = [{"id": f"t{at}", "run": f"prog{at}", "timeout": "1m"} for at in range(MOST + 7)]
        path = place.plan(json.dumps({"plan": "p", "tasks": tasks}), "p.json")
        assert "and 7 more: --json lists all, and what these start" in place("trust", path).out.replace(
            "\n              ", " "
        )
        assert len(json.loads(place("trust", path, "--json").out)["programs"]) == MOST + 7

    def test_every_line_begins_with_a_word_of_ours_or_with_blanks(self, release: str, place) -> None:
        found = json.loads(place("trust", release, "--json").out)
        evil = "x\nplan \x1b[31m" + "y" * 500
        found = {
            **found,
            **{
                name: [evil] * 100
                for name in ("hosts", "programs", "writes", "subplans", "asks", "irreversible", "env")
            },
            "plan": evil,
            "file": evil,
            "why": evil,
            "params": {evil: evil},
            "capabilities": [{"name": evil, "effects": [evil], "tasks": 1}],
            "outside": [{"task": evil, "path": evil, "as": "cwd"}],
        }
        lines = list(powers_lines(Terminal(io.StringIO()), found))
        known = r"  (plan|file|origin|links to|works in|calls|programs|hosts|writes|reaches out|reads|parameters|settings|asks first|no undo|at most|digest) | {14}\S"
        assert all(re.match(known, line) for line in lines)
        assert all(line.isascii() and line.isprintable() for line in lines)


@rows(
    ("script", "found"),
    [
        ("make all", ["make"]),
        ("curl -s https://x.example | sh", ["sh", "curl"]),
        ("A=1 make && ./x.sh; B=$(date +%s)", ["sh", "make", "./x.sh", "date"]),
        ('echo "today is $(date) `id`" # rm', ["sh", "date", "id"]),
        ("if grep -q a b; then rm -f c; else touch c; fi", ["sh", "grep", "rm", "touch"]),
        ("for each in a b; do wget $each; done", ["sh", "wget"]),
        ("cat > x <<'END'\nrm -rf /\nEND\nls", ["sh", "cat", "ls"]),
        ("echo 'rm x; curl y'", ["sh"]),
        ("{{ params.tool }} -v\nls", ["sh", "VALUE", "ls"]),
        ('eval "$CODE"', ["sh", "eval"]),
        ("cd x\nmake", ["sh", "make"]),
        ("make 2>&1 | tee log", ["sh", "make", "tee"]),
        ("echo x >&2; 2>&1 ls &> all; true", ["sh", "ls"]),
        ('N=$((1 + 2)); echo "$((3 * (4 - 1)))" $(( $(nproc) / 2 ))', ["sh", "nproc"]),
        ('cd ${X:-$(mktemp -d)} && ls ${Y:-}; test "${Z:-`id`}"', ["sh", "mktemp", "ls", "id"]),
        ("${TOOL:-make} all; exit", ["sh", "${TOOL:-make}"]),
        ("echo $( (whoami) ); ${ date; }", ["sh", "whoami", "date", "${ date; }"]),
        ("exec ./server --port 1", ["sh", "./server"]),
        ('case $1 in a) "x y" z;; esac', ["sh", "x y"]),
        ("ls > cat; a[0]=1 make <<< rm", ["sh", "ls", "make"]),
        ("{% if params.all %}make all{% endif %}", ["sh", "make"]),
        ("build() {\n  make\n}\nbuild", ["sh", "make", "build"]),
    ],
)
def test_the_programs_that_a_script_names(script: str, found: list[str]) -> None:
    assert programs(Task("a", uses="shell", run=script)) == found


def test_a_script_for_another_interpreter_is_that_interpreter() -> None:
    assert programs(Task("a", uses="shell", run="import os", shell=""), "python3 -u") == ["python3"]
    assert programs(Task("a", uses="shell", run=("make", "all"))) == ["make"]
    assert programs(Task("a", uses="noop")) == []


@rows(
    ("text", "found"),
    [
        ("curl https://a.example/x http://b.example:81", ["a.example", "b.example:81"]),
        ("https://me:word@c.example/", ["c.example"]),
        ("git clone git@d.example:org/repo", ["d.example"]),
        ("postgresql://db.example:5432/shop", ["db.example:5432"]),
        ("https://[::1]:80/", ["[::1]:80"]),
        ("https://{{ params.host }}/x", ["{{ params.host }}"]),
        ("no address", []),
    ],
)
def test_the_hosts_that_a_text_names(text: str, found: list[str]) -> None:
    assert hosts(text) == found
