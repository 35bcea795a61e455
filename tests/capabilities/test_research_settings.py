"""The section `research` of planrunner.yaml."""

from __future__ import annotations

from pathlib import Path

import pytest

from planrunner.errors import PlanInvalid
from planrunner.safety.project import read_data, unsound


@pytest.mark.parametrize(
    "section",
    [
        "url: http://127.0.0.1:8888",
        'url: "https://[::1]:8888/search/"',
        "provider: atlas\n  options: {key: KEY}\n  robots: ignore",
        "user_agent: LibraryBot/2 (+https://library.example)",
    ],
)
def test_every_setting_is_taken(tmp_path: Path, section: str) -> None:
    (tmp_path / "planrunner.yaml").write_text(f"research:\n  {section}\n")
    assert read_data(str(tmp_path))["research"]


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ("url: search.example", "line 2, column 8: `url` cannot be `search.example`"),
        ("url: http://user:pw@search.example", "line 2, column 8: `url` cannot be `http://user:pw@search.example`"),
        ("robots: obey", "line 2, column 11: `robots` must be `honour` or `ignore`, not `obey`"),
        ("provider: [a]", "line 2, column 13: `provider` must be"),
        ("uri: http://x", "line 2, column 3: "),
        ("options: x", "line 2, column 12: `options` must be"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(tmp_path: Path, section: str, said: str) -> None:
    (tmp_path / "planrunner.yaml").write_text(f"research:\n  {section}\n")
    with pytest.raises(PlanInvalid) as refused:
        read_data(str(tmp_path))
    assert said in unsound(refused.value)
