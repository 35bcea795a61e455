"""The section `network` of planrunner.yaml."""

from __future__ import annotations

from pathlib import Path

import pytest

from planrunner.errors import PlanInvalid
from planrunner.safety.project import read_data, unsound

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
