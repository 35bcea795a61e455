"""Every sentence of the pages about safety that says "cannot", "never", "only" or "every" is tied to a test that tries the
contrary: those of a table by the column "held by", the others by claims.yaml beside this file."""

from __future__ import annotations

import re

from rows import rows
from ruamel.yaml import YAML
from workbench import ROOT

PAGES = ("explanation/security", "how-to/gates", "how-to/use-agents", "how-to/serve")
CLAIMS = YAML(typ="safe").load((ROOT / "tests" / "docs" / "claims.yaml").read_text(encoding="utf-8"))


def sentences(page: str) -> list[str]:
    """The sentences and rows of a page that say one of the words and name no test themselves."""
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    text = re.sub(r"```.*?```|<!--.*?-->", "", text, flags=re.DOTALL)
    said = []
    for paragraph in re.split(r"\n\n|\n(?=\||- |#)", text):
        line = " ".join(paragraph.split())
        said += [line] if line.startswith("|") else re.split(r"(?<=[.:!?])\s+(?=[A-Z`\[*])", line)
    words = re.compile(r"\b(cannot|never|only|every)\b", re.IGNORECASE)
    return [each for each in said if words.search(each) and "`tests/" not in each]


@rows("page", PAGES)
def test_each_claim_of_a_page_is_tied_to_a_test(page: str) -> None:
    said, known = sentences(page), tuple(CLAIMS[page])
    assert [each for each in said if not each.startswith(known)] == []
    assert [each for each in known if not any(sentence.startswith(each) for sentence in said)] == []


@rows("named", sorted({test for page in PAGES for test in CLAIMS[page].values()}))
def test_the_test_of_a_claim_exists(named: str) -> None:
    path, _, name = named.partition("::")
    assert re.search(rf"def {name}\(", (ROOT / "tests" / path).read_text(encoding="utf-8"))
