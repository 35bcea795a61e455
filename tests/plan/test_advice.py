"""The line that a refusal gives can be pasted as it stands."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from rows import rows

from planrunner.plan.policy_checks import refusal
from planrunner.plan.rights import Access, Level, host, named
from planrunner.source import Source
from planrunner.syntax.notations import parse
from planrunner.syntax.tree import to_json


def line(said: object, wanted: str) -> object:
    """What a policy would say with the line that the refusal of a host gives."""
    right = host([Level("planrunner.yaml", {"network": said})], wanted)
    told = refusal(Access(f"the host {wanted}", "network", wanted), right).partition("write there: ")[2]
    parsed = parse(Source(told, "planrunner.yaml", "yaml"))
    assert not parsed.findings, told
    return to_json(parsed.tree)


@rows(
    "entry",
    [
        "127.0.0.1:9911",
        "*.example.org",
        "::1",
        "[::ffff:127.0.0.1]:80",
        "10.0.0.0/8",
        "*",
        "2130706433:9911",
        "no",
        "a#b",
    ],
)
def test_hosts_and_ports_are_quoted_where_yaml_wants_it(entry: str) -> None:
    assert line({"allow": [entry]}, "x.example") == {"policy": {"network": {"allow": [entry, "x.example"]}}}
    assert line({"allow": ["x.example"]}, "y.example:443") == {
        "policy": {"network": {"allow": ["x.example", "y.example:443"]}}
    }


def test_entries_with_patterns_for_commands_and_inputs_stay_what_they_are() -> None:
    entries = [{"uses": "shell", "run": ["git: *", "*"]}, {"uses": "http.*", "with": {"url": "https://a/*", "n": 3}}]
    right = named([Level("planrunner.yaml", {"tools": {"allow": entries}})], "tools", "read")
    told = refusal(Access("the tool `read`", "tools", "read"), right).partition("write there: ")[2]
    parsed = parse(Source(told, "planrunner.yaml", "yaml"))
    assert not parsed.findings, told
    assert to_json(parsed.tree) == {"policy": {"tools": {"allow": [*entries, "read"]}}}


@given(st.text(min_size=1, max_size=12))
def test_any_entry_comes_back_as_it_was(entry: str) -> None:
    assert line({"allow": [f"{entry}.example"]}, "x.test") == {
        "policy": {"network": {"allow": [f"{entry}.example", "x.test"]}}
    }
