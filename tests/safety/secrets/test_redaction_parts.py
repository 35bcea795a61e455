"""The parts of a secret are secret: members of JSON, passwords of addresses, values of pairs, what base64 holds."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path

import commands
import pytest
from canaries import canary, is_told, told_in
from rows import rows
from workbench import ROOT

from planrunner.redaction import Redactor, parts

TOKEN = "tok-9f8e7d6c5b4a"
KEY = "-----BEGIN KEY-----\nAAAABBBB11\nCCCCDDDD22\n-----END KEY-----\n"
ACCOUNT = json.dumps(
    {"type": "service_account", "user": "r", "deep": [{"token": TOKEN}], "password": "hunter", "k": KEY}
)


def shown(secret: str, text: str) -> str:
    redactor = Redactor()
    redactor.add("s", secret.encode())
    return redactor.text(text)


@rows(
    ("secret", "part"),
    [
        (ACCOUNT, TOKEN),
        (ACCOUNT, "hunter"),
        (ACCOUNT, "CCCCDDDD22"),
        (ACCOUNT, TOKEN.encode().hex()),
        ("postgres://app:s3cr%40tpw@db/shop", "s3cr%40tpw"),
        ("postgres://app:s3cr%40tpw@db/shop", "s3cr@tpw"),
        ("https://hooks.example.org/?token=correcthorse", "correcthorse"),
        ("app:correcthorse", "correcthorse"),
        ("USER=app; PASS=correcthorse", "correcthorse"),
        ("a=1,password=correcthorse", "correcthorse"),
        ("host=db password='two w0rds' user=app", "two w0rds"),
        ("Protocol=https;AccountKey=aBcD12+/xyz==;Suffix=net", "aBcD12+/xyz=="),
        (base64.b64encode(ACCOUNT.encode()).decode(), TOKEN),
        (ACCOUNT, base64.b64encode(ACCOUNT.encode()).decode()[76:152]),
        (KEY, base64.b64encode(KEY.encode()).decode()[:64]),
    ],
)
def test_a_part_of_a_secret_is_masked(secret: str, part: str) -> None:
    assert shown(secret, f"it is {part} here") == "it is [secret:s] here"


@pytest.mark.parametrize(
    ("secret", "word"),
    [(ACCOUNT, "service_account"), ("HOST=db.example.org;PASS=correcthorse", "db.example.org"), (ACCOUNT, "token")],
)
def test_words_and_names_in_a_secret_are_not(secret: str, word: str) -> None:
    assert shown(secret, f"it is {word} here") == f"it is {word} here"


@pytest.mark.parametrize("shape", ['{"a":' + "[" * 30_000, "a=b; " * 9_000, "x,=" * 9_000, '"=' * 9_000])
def test_a_secret_of_any_shape_has_parts_or_none(shape: str) -> None:
    assert len(parts(shape.encode())) < 2


def test_a_run_keeps_and_shows_no_member_of_a_secret(tmp_path: Path) -> None:
    (tmp_path / "planrunner.yaml").write_text("provider_credentials: [{id: sa, auth: {source: env, env_var: SA}}]\n")
    (tmp_path / "p.yaml").write_text(
        """plan: p
defaults: {timeout: 10s}
tasks:
  - id: a
    secrets: {S: sa}
    run: |
      t=$(printf %s "$S" | sed 's/.*"token": "//; s/".*//')
      echo "$t" > kept.txt
      echo "token=$t" >> "$PLANRUNNER_OUTPUT"
      echo "$t"; echo "$t" >&2
    artifacts: [{name: kept, path: kept.txt}]
  - {id: ask, needs: [a], gate: checks, checks: ["tasks.a.outputs.token != ''"]}
  - {id: b, needs: [ask], secrets: {S: sa}, run: 'printf %s "$S" | sed "s/.*token//" >&2; exit 1'}
"""
    )
    secret = json.dumps({"user": "r", "token": canary("member")})
    env = {**os.environ, "PYTHONPATH": str(ROOT), "SA": secret, "PLANRUNNER_STATE": str(tmp_path / "state")}
    done = commands.run("exec", "p.yaml", folder=tmp_path, env=env)
    assert "[secret:sa]" in done.out + done.err
    assert (
        commands.run("show", "last", "--json", folder=tmp_path, env=env).data["tasks"]["a"]["outputs"]["token"]
        == "[secret:sa]"
    )
    seen = [
        commands.call(*words, folder=tmp_path, env=env).stdout
        for words in (
            ("events", "last", "--json"),
            ("why", "last", "b"),
            ("show", "last"),
            ("artifacts", "get", "last", "kept"),
            ("report", "last", "-o", "r.html"),
            ("archive", "last", "-o", "kept"),
        )
    ]
    written = [tmp_path / "r.html", *(path for path in (tmp_path / "kept").rglob("*") if path.is_file())]
    assert len(written) > 5 and b"[secret:sa]" in written[0].read_bytes()
    assert not any(map(is_told, (*seen, *(path.read_bytes() for path in written)))) and not told_in(tmp_path)
