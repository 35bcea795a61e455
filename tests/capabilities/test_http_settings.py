"""The section `network` of planrunner.yaml."""

from __future__ import annotations

from pathlib import Path

import pytest

from planrunner.capabilities.contract import Failure
from planrunner.capabilities.http.guard import Guard
from planrunner.errors import PlanInvalid
from planrunner.plan.load import load
from planrunner.plan.rights import Level
from planrunner.plugins.registry import Registry
from planrunner.safety.project import read_data, unsound
from planrunner.source import Source

GOOD = [
    "private: []",
    'private: [127.0.0.1, "::1", "[::1]:80", 10.0.0.0/8, "10.0.0.0/8:443", "fd00::/8", "[fd00::/8]:443", "::ffff:1.2.3.4"]',
    'allow: [api.example.org, "*.example.org", "*.example.org:443", db_1, bücher.example, "localhost:8080"]',
    "ca: certs/own.pem",
]


@pytest.mark.parametrize("section", GOOD)
def test_every_way_to_name_an_address_is_taken(tmp_path: Path, section: str) -> None:
    (tmp_path / "planrunner.yaml").write_text(f"network: {{{section}}}\n")
    assert read_data(str(tmp_path))["network"]


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ("private: 127.0.0.1", "line 1, column 20: `private` must be a list, not the text `127.0.0.1`"),
        ('private: ["http://127.0.0.1"]', "line 1, column 21: an item of `private` cannot be `http://127.0.0.1`"),
        ('allow: ["a b"]', "line 1, column 19: an item of `allow` cannot be `a b`"),
        ('allow: ["*"]', "line 1, column 19: an item of `allow` cannot be `*`"),
        ('allow: ["host:port"]', "line 1, column 19: an item of `allow` cannot be `host:port`"),
        ("privat: []", "line 1, column 11: "),
        ("ca: [x]", "line 1, column 15: `ca`"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(tmp_path: Path, section: str, said: str) -> None:
    (tmp_path / "planrunner.yaml").write_text(f"network: {{{section}}}\n")
    with pytest.raises(PlanInvalid) as refused:
        read_data(str(tmp_path))
    assert said in unsound(refused.value)
    if "an item" in said:
        told = "an entry is a host, an address or a network such as `10.0.0.0/8`, with or without a `:port`"
        assert [each.help for each in refused.value.findings] == [told]


HOSTS = [
    *("x", "example.org", "*.example.org:443", "exämple.org", "localhost.", "a_b-c", "127.0.0.1:80", "10.0.0.0/8"),
    *("10.0.0.0/8:80", "::1", "[::1]:80", "fc00::/7", "[fc00::/7]:1", "*"),
]
NO_HOSTS = [
    "http://x",
    "//x",
    "x/",
    "x/a",
    "a b",
    "",
    "*:443",
    "a*.org",
    "x:port",
    "u@x",
    "x?q",
    "10.0.0.0/33",
    "{{x}}",
]


def _said(tmp_path: Path, section: str) -> list[tuple[str, int, str]]:
    """The findings about the same section in a project and in a plan: code, column, help."""
    (tmp_path / "planrunner.yaml").write_text(f"policy: {{network: {section}}}\n")
    text = f"policy: {{network: {section}}}\nplan: p\ntasks: [{{id: a, uses: noop}}]\n"
    in_plan = load(Source(text, "p.yaml", "yaml"), Registry()).findings
    told = [(each.code, each.span.start, each.help) for each in in_plan]
    try:
        read_data(str(tmp_path))
    except PlanInvalid as refused:
        assert [(each.code, each.span.start, each.help) for each in refused.findings] == told
    else:
        assert not told
    return told


@pytest.mark.parametrize("verdict", ["allow", "ask", "deny"])
@pytest.mark.parametrize("entry", HOSTS)
def test_a_host_of_a_policy_that_is_taken_is_one_that_every_connection_can_be_held_against(
    tmp_path: Path, entry: str, verdict: str
) -> None:
    for section in (f"{{{verdict}: ['{entry}']}}", f"{{{verdict}: '{entry}'}}", f"['{entry}']", f"'{entry}'"):
        assert _said(tmp_path, section) == []
    Guard({"levels": (Level("planrunner.yaml", {"network": {verdict: [entry], "allow": ["x", entry]}}),)})


@pytest.mark.parametrize("entry", NO_HOSTS)
def test_what_is_no_host_is_found_where_it_stands_in_a_policy_and_not_by_each_connection(
    tmp_path: Path, entry: str
) -> None:
    level = Level("planrunner.yaml", {"network": {"deny": [entry]}})
    with pytest.raises(Failure):
        Guard({"levels": (level,)})
    for section in (f"{{deny: [x, '{entry}']}}", f"{{allow: '{entry}'}}", f"['{entry}']", f"'{entry}'"):
        ((code, at, help_),) = _said(tmp_path, section)
        assert (code, at) == ("PLAN006", len("policy: {network: ") + section.index(f"'{entry}'"))
        assert help_.startswith("an entry is a host such as `example.org`") and "no `https://` before it" in help_
