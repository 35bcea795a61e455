"""Where secrets come from, and what is said where one cannot be had; the value is never said."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from pathlib import Path

import pytest

from planrunner.extras import installing
from planrunner.safety.credentials import Unresolved, read_credentials, readable_by_others, value_of
from planrunner.safety.project import check_project


def value(directory: Path, auth: str, **environment: str) -> bytes:
    (directory / "planrunner.yaml").write_text(f"provider_credentials:\n  - {{id: it, auth: {auth}}}\n")
    environment.setdefault("PATH", "/usr/bin:/bin")
    return value_of(read_credentials(str(directory))["it"], environment)


def refusal(directory: Path, auth: str, **environment: str) -> str:
    with pytest.raises(Unresolved) as raised:
        value(directory, auth, **environment)
    said = str(raised.value)
    assert said.startswith("the credential `it` (planrunner.yaml:2): ")
    return said.partition("): ")[2]


@pytest.mark.parametrize(
    ("name", "text", "key"),
    [
        ("k.json", '{"api_key": "s3cret-value"}', "api_key"),
        ("k.json", '{"a": {"b": "s3cret-value"}}', "a.b"),
        ("k.json", '{"a.b": "s3cret-value"}', "a.b"),
        ("k.yaml", "prod:\n  token: s3cret-value\n", "prod.token"),
        ("k", "token: s3cret-value\n", "token"),
        ("k", '{"token": "s3cret-value"}', "token"),
        (".env", "# keys\nexport TOKEN='s3cret-value'\nOTHER=x\n", "TOKEN"),
        ("k", "TOKEN=s3cret-value\n", "TOKEN"),
        ("k.txt", "s3cret-value\r\n", ""),
    ],
)
def test_a_file_holds_it_whole_or_under_a_key(tmp_path: Path, name: str, text: str, key: str) -> None:
    (tmp_path / name).write_text(text)
    more = f", file_key: {key}" if key else ""
    assert value(tmp_path, f"{{source: file, file_path: {name}{more}}}") == b"s3cret-value"


def test_a_path_may_begin_at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "token").write_text("s3cret-value")
    assert value(tmp_path, "{source: file, file_path: ~/token}") == b"s3cret-value"


def test_a_variable_and_a_command_hold_it(tmp_path: Path) -> None:
    assert value(tmp_path, "{type: api_key, source: env, env_var: T}", T="s3cret-value") == b"s3cret-value"
    command = "{source: command, command: [sh, -c, 'pwd; echo $0 $X', 'a b; c']}"
    assert value(tmp_path, command, X="y") == f"{tmp_path}\na b; c y".encode()


def test_what_is_missing_is_told_with_its_place_and_the_way_out(tmp_path: Path) -> None:
    assert refusal(tmp_path, "{source: env, env_var: T}") == (
        "the environment variable T is not set: set it, such as `export T=…`"
    )
    assert "is empty" in refusal(tmp_path, "{source: env, env_var: T}", T="")
    assert refusal(tmp_path, "{source: file, file_path: no/file}").endswith(
        "no/file cannot be read: No such file or directory"
    )
    assert "cannot be started" in refusal(tmp_path, "{source: command, command: [no-such-program]}")
    failed = refusal(tmp_path, "{source: command, command: [sh, -c, 'echo s3cret-value; echo s3cret >&2; exit 3']}")
    assert failed.startswith("sh ended with 3; try it by hand")
    (tmp_path / "k.json").write_text(json.dumps({"api": ["s3cret-value"], "on": True}))
    for key in ("none", "api", "on", "api.0"):
        said = refusal(tmp_path, f"{{source: file, file_path: k.json, file_key: {key}}}")
        assert f"under the key `{key}`" in said or f"has no key `{key}`" in said
        assert "s3cret" not in said


def test_a_value_that_cannot_be_kept_out_of_logs_is_refused(tmp_path: Path) -> None:
    assert refusal(tmp_path, "{source: env, env_var: T}", T="12345").startswith("its value has 5 bytes")
    (tmp_path / "large").write_bytes(b"x" * 70_000)
    assert refusal(tmp_path, "{source: file, file_path: large}").startswith("its value has more than")
    (tmp_path / "nul").write_bytes(b"abcdef\0ghi")
    assert refusal(tmp_path, "{source: file, file_path: nul}") == "its value holds a NUL byte"


@pytest.mark.slow
def test_a_command_that_hangs_is_ended_with_what_it_started(tmp_path: Path) -> None:
    command = "[sh, -c, 'sleep 600 & echo $! > child; sleep 600']"
    assert refusal(tmp_path, f"{{source: command, command: {command}, timeout: 3s}}") == "sh took longer than 3 s"
    child = Path(f"/proc/{(tmp_path / 'child').read_text().strip()}/stat")
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        while child.read_text().split()[2] != "Z":
            time.sleep(0.01)


def test_a_file_that_others_may_read_is_warned_of(tmp_path: Path) -> None:
    (tmp_path / "k").write_text("s3cret-value")
    (tmp_path / "k").chmod(0o640)
    value(tmp_path, "{source: file, file_path: k}")
    found = read_credentials(str(tmp_path))["it"]
    assert readable_by_others(found) == "others may read the file of the credential `it` (mode 0640): `chmod 600 k`"
    (tmp_path / "k").chmod(0o600)
    assert readable_by_others(found) == ""


def test_the_keyring_is_an_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "keyring", None)
    said = refusal(tmp_path, "{source: keyring, service: s, username: u}")
    assert said.startswith(f"the keyring needs the extra `secrets`: {installing('secrets')} (")


def test_the_keyring_of_the_system_is_asked(tmp_path: Path) -> None:
    keyring = pytest.importorskip("keyring", reason="the extra `secrets` is not installed")
    from keyring.backend import KeyringBackend

    class Ring(KeyringBackend):
        priority = 1.0  # type: ignore[assignment]
        held = {("registry", "ana"): "s3cret-value"}

        def get_password(self, service: str, username: str) -> str | None:
            return self.held.get((service, username))

        def set_password(self, service: str, username: str, password: str) -> None:
            self.held[service, username] = password

    before = keyring.get_keyring()
    keyring.set_keyring(Ring())
    try:
        assert value(tmp_path, "{source: keyring, service: registry, username: ana}") == b"s3cret-value"
        assert "holds nothing: `keyring set registry eva`" in refusal(
            tmp_path, "{source: keyring, service: registry, username: eva}"
        )
    finally:
        keyring.set_keyring(before)


@pytest.mark.parametrize(
    ("entry", "code", "words"),
    [
        ("{id: a}", "PLAN004", "a credential needs the key `auth`"),
        ("{id: a, auth: {source: env}}", "PLAN004", "`auth` needs the key `env_var`"),
        ("{id: a, auth: {source: file}}", "PLAN004", "`auth` needs the key `file_path`"),
        ("{id: a, auth: {source: command}}", "PLAN004", "`auth` needs the key `command`"),
        ("{id: a, auth: {source: keyring, service: s}}", "PLAN004", "`auth` needs the key `username`"),
        ("{id: a, auth: {source: vault}}", "PLAN006", "`vault`"),
        ("{id: a, auth: {source: env, env_var: sk-123456}}", "PLAN006", "never the secret itself"),
        ("{id: a, auth: {type: oauth, source: env, env_var: X}}", "PLAN006", "`oauth`"),
        ("{id: a, auth: {source: env, env_var: X, file_path: f}}", "PLAN009", "exclude each other"),
        ("{id: a, auth: {source: command, command: pass show x}}", "PLAN005", "a list"),
        ("{id: 1a, auth: {source: env, env_var: X}}", "PLAN006", "begins with a letter"),
        ("{id: a, auth: {source: env, env_var: X}}\n  - {id: a, auth: {source: env, env_var: X}}", "PLAN005", "two"),
    ],
)
def test_an_entry_that_is_wrong_is_told_at_its_place(tmp_path: Path, entry: str, code: str, words: str) -> None:
    (tmp_path / "planrunner.yaml").write_text(f"provider_credentials:\n  - {entry}\n")
    found = check_project(str(tmp_path))
    assert found is not None and len(found.findings) == 1
    assert found.findings[0].code.startswith(code)
    assert words in found.findings[0].message + found.findings[0].help


@pytest.mark.parametrize(
    ("name", "text", "wanted"),
    [
        (".env", 'PW="pass\\"word"\n', b'pass"word'),
        (".env", 'PW="line one\nline two="\n', b"line one\nline two="),
        ("k.ini", "[section]\nPW=pass#word # old\n", b"pass#word"),
        ("k.yaml", "PW: 00123450\n", b"00123450"),
        ("k.yaml", "PW: 1234567.10\n", b"1234567.10"),
    ],
)
def test_a_value_under_a_key_is_what_was_written(tmp_path: Path, name: str, text: str, wanted: bytes) -> None:
    (tmp_path / name).write_text(text)
    assert value(tmp_path, f"{{source: file, file_path: {name}, file_key: PW}}") == wanted


def test_a_quote_that_is_not_closed_is_told_with_its_line(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text('A=x\nB="first line\nPW=s3cret-value\n')
    said = refusal(tmp_path, "{source: file, file_path: .env, file_key: PW}")
    assert ".env, line 2: a quote is not closed" in said and "s3cret" not in said
