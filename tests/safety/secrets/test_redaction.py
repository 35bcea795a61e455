"""No spelling of a secret comes through the redactor, wherever the pieces of a stream are cut."""

from __future__ import annotations

import base64
import html
import json
import shlex
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rows import rows

from planrunner.cli.crash import write_report
from planrunner.redaction import MASK, Redactor, without_any

SECRETS = (
    "tok-7Qz91LmX04rVd2",
    'p/4+s=wd&<"quoted\'">%$x\\y',
    "hunter2",
    "naïve-päss-wörd-€12",
    "c0ffee",
    "a" * 9,
)

ENCODINGS: dict[str, Callable[[str], bytes]] = {
    "raw": str.encode,
    "json": lambda text: json.dumps(text)[1:-1].encode(),
    "url": lambda text: quote(text, safe="").encode(),
    "form": lambda text: quote_plus(text).encode(),
    "shell": lambda text: shlex.quote(text).strip("'").encode(),
    "hex": lambda text: text.encode().hex().encode(),
    "HEX": lambda text: text.encode().hex().upper().encode(),
    "base64": lambda text: base64.b64encode(text.encode()),
    "base64url": lambda text: base64.urlsafe_b64encode(b"?" + text.encode()),
    "html": lambda text: html.escape(text).encode(),
    "repr": lambda text: repr(text)[1:-1].encode(),
}


def _in_pieces(redactor: Redactor, data: bytes, cuts: list[int]) -> bytes:
    stream, at = redactor.stream(), 0
    shown = b""
    for cut in [*sorted(cuts), len(data)]:
        shown += stream.take(data[at:cut])
        at = cut
    return shown + stream.rest()


def _redactor(*secrets: str | bytes) -> Redactor:
    redactor = Redactor()
    for number, secret in enumerate(secrets):
        redactor.add(f"n{number}", secret if isinstance(secret, bytes) else secret.encode())
    return redactor


@rows("encoding", ENCODINGS)
@rows("secret", SECRETS)
def test_every_encoding_is_masked_at_every_split(secret: str, encoding: str) -> None:
    redactor = _redactor(secret)
    written = ENCODINGS[encoding](secret)
    core = written if "base64" not in encoding else written[2:-4]
    data = b"before " + written + b" after"
    whole = redactor.bytes(data)
    assert core not in whole
    assert b"[secret:n0]" in whole
    assert whole.startswith(b"before ") and whole.endswith(b" after")
    for cut in range(len(data) + 1):
        assert _in_pieces(redactor, data, [cut]) == whole
    assert _in_pieces(redactor, data, list(range(len(data)))) == whole


def test_a_secret_within_a_longer_base64_text_is_masked_at_each_alignment() -> None:
    secret = SECRETS[0]
    redactor = _redactor(secret)
    for before in range(7):
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            written = encode(b"user:" + b"x" * before + secret.encode() + b":rest of it")
            left = redactor.bytes(written).replace(b"[secret:n0]", b"")
            assert len(written) - len(left) >= len(secret) * 8 // 6 - 1


_parts = st.lists(
    st.one_of(
        st.binary(max_size=30),
        st.sampled_from([secret.encode() for secret in SECRETS]),
        st.sampled_from([encode(secret) for secret in SECRETS for encode in ENCODINGS.values()]),
        st.sampled_from([secret.encode()[:4] for secret in SECRETS]),
    ),
    max_size=12,
)


@settings(max_examples=300, deadline=None)
@given(parts=_parts, data=st.data())
def test_pieces_come_to_the_same_as_the_whole(parts: list[bytes], data: st.DataObject) -> None:
    redactor, text = _redactor(*SECRETS), b"".join(parts)
    cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=8))
    whole = redactor.bytes(text)
    assert _in_pieces(redactor, text, cuts) == whole
    for spelling in redactor.known.masks:
        assert spelling not in whole.replace(b"[secret:", b"[\0")


@settings(max_examples=200, deadline=None)
@given(secrets=st.lists(st.binary(min_size=6, max_size=40), min_size=1, max_size=60), before=st.binary(max_size=20))
def test_any_bytes_are_masked_among_many_others(secrets: list[bytes], before: bytes) -> None:
    redactor = _redactor(*secrets)
    for secret in secrets:
        for line in filter(lambda each: len(each) >= 6, (each.strip() for each in secret.splitlines())):
            if not line.startswith(b"-----"):
                assert redactor.bytes(before + line + b"\n") != before + line + b"\n"


@settings(max_examples=200, deadline=None)
@given(text=st.binary(max_size=200))
def test_what_holds_no_secret_is_not_touched(text: bytes) -> None:
    redactor = _redactor(*SECRETS)
    if not any(spelling in text for spelling in redactor.known.masks):
        assert redactor.bytes(text) is text
        assert _in_pieces(redactor, text, [len(text) // 3, len(text) // 2]) == text


def test_overlapping_secrets_leave_nothing_of_either() -> None:
    redactor = _redactor("abcdefgh", "efghijkl")
    assert redactor.bytes(b"-abcdefghijkl-") == b"-[secret:n0]-"
    for cut in range(14):
        assert _in_pieces(redactor, b"-abcdefghijkl-", [cut]) == b"-[secret:n0]-"


def test_one_that_repeats_itself_needs_no_memory() -> None:
    stream = _redactor("a" * 9).stream()
    shown = b"".join(stream.take(b"a" * 1000) for _ in range(100)) + stream.rest()
    assert shown == b"[secret:n0]"


def test_what_can_be_no_beginning_is_shown_at_once() -> None:
    stream = _redactor(SECRETS[0]).stream()
    assert stream.take(b"a line\nand t") == b"a line\nand "
    assert stream.take(b"en more") == b"ten more"


def test_each_line_of_a_secret_counts_and_the_frame_of_a_key_does_not() -> None:
    redactor = _redactor("-----BEGIN KEY-----\nMIIEvQIBADANBg\n  kqhkiG9w0BAQE\nab\n-----END KEY-----\n")
    assert redactor.bytes(b"x MIIEvQIBADANBg y") == b"x [secret:n0] y"
    assert redactor.bytes(b"kqhkiG9w0BAQE") == b"[secret:n0]"
    assert redactor.bytes(b"-----BEGIN KEY----- ab") == b"-----BEGIN KEY----- ab"


def test_a_mask_never_tells_a_value() -> None:
    redactor = Redactor()
    redactor.add("my-password", b"password")
    redactor.add("other", b"hunter2")
    assert redactor.bytes(b"password hunter2") == MASK + b" [secret:other]"
    redactor.add("third", b"secret:other")
    assert redactor.bytes(b"password hunter2") == MASK + b" " + MASK


def test_data_keeps_its_shape() -> None:
    redactor = _redactor("12345678", "tok-7Qz91LmX04rVd2")
    given_data = {"a": [1, 12345678, None, True, 2.5], "tok-7Qz91LmX04rVd2": {"b": "x tok-7Qz91LmX04rVd2"}}
    assert redactor.data(given_data) == {
        "a": [1, "[secret:n0]", None, True, 2.5],
        "[secret:n1]": {"b": "x [secret:n1]"},
    }


def test_a_value_that_comes_later_is_known_to_streams_under_way() -> None:
    redactor = _redactor("first-secret")
    stream = redactor.stream()
    assert stream.take(b"later-") == b"later-"
    redactor.add("late", b"second-secret")
    assert stream.take(b"second-secret") == b"[secret:late]"


def test_the_beginning_of_a_secret_at_the_end_of_a_text_is_no_part_of_it() -> None:
    redactor = _redactor(SECRETS[0])
    assert redactor.text(f"it said: {SECRETS[0][:12]}") == "it said: ***"
    assert redactor.text(f"it said: {SECRETS[0][:7]}") == f"it said: {SECRETS[0][:7]}"


def test_a_text_is_cleaned_by_every_redactor_that_is_held() -> None:
    held = _redactor("secret-of-one-run")
    assert without_any("x secret-of-one-run") == "x [secret:n0]"
    del held
    assert without_any("x secret-of-one-run") == "x secret-of-one-run"


def test_the_report_of_a_crash_holds_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLANRUNNER_STATE", str(tmp_path))
    held = _redactor("secret-of-a-crash")
    report = Path(write_report(RuntimeError("broke at secret-of-a-crash"), ["exec", "p"])).read_text()
    assert "broke at [secret:n0]" in report
    assert held.known.masks
