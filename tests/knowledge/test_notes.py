"""The knowledge base: what confirms a claim and what disputes it, files that read as they were written, and Markdown in
which nothing acts."""

from __future__ import annotations

from pathlib import Path

import pytest
from rows import rows

from planrunner.failures import Failure
from planrunner.files.beneath import Beneath
from planrunner.knowledge import sources
from planrunner.knowledge.claims import found, joined, verdicts
from planrunner.knowledge.markdown import markdown
from planrunner.knowledge.notes import Citation, Note, PassedTest, id_of, note_from, note_text, read_notes
from planrunner.knowledge.sources import owner
from planrunner.views.knowledge import details


def cited(url: str, text: str = "", author: str = "", checked: bool = True) -> Citation:
    return Citation(url, quote="q", text_sha256=text or url, author=author, checked=checked)


def claim(
    title: str, *citations: Citation, tests: tuple[PassedTest, ...] = (), contradicts: tuple[str, ...] = ()
) -> Note:
    return Note("claim", id_of(title), title, citations=citations, tests=tests, contradicts=contradicts)


TEST = (PassedTest("check", "R1", "pytest -q"),)
SUFFIXES_KNOWN = pytest.mark.skipif(sources.get_tld is None, reason="the extra `web` is not installed")


@pytest.mark.parametrize(
    ("note", "status", "count"),
    [
        (claim("c"), "open", 0),
        (claim("c", cited("https://a.example.com/1")), "supported", 1),
        (claim("c", cited("https://a.example.com/1"), cited("https://b.example.com/2")), "supported", 1),
        (claim("c", cited("https://a.com/1"), cited("https://b.com/2")), "confirmed", 2),
        pytest.param(
            claim("c", cited("https://a.co.uk/1"), cited("https://b.co.uk/2")), "confirmed", 2, marks=SUFFIXES_KNOWN
        ),
        (claim("c", cited("https://a.com/1", "same"), cited("https://b.com/2", "same")), "supported", 1),
        (claim("c", cited("https://a.com/1", "t"), cited("https://b.com/2")._replace(copy_of="t")), "supported", 1),
        (claim("c", cited("https://a.com/1", author="Ana"), cited("https://b.com/2", author="ana")), "supported", 1),
        (claim("c", cited("https://a.com/1", author="Ana"), cited("https://a.com/2", author="Bo")), "confirmed", 2),
        (claim("c", cited("https://a.com/1"), cited("https://b.com/2", checked=False)), "supported", 1),
        (claim("c", Citation(file="a.txt", sha256="1", checked=True), Citation(file="b.txt", sha256="2", checked=True)),
         "supported", 1),
        (claim("c", Citation(artifact="f" * 64, sha256="1", checked=True), cited("https://b.com/2")), "confirmed", 2),
        (claim("c", tests=TEST), "confirmed", 0),
    ],
)  # fmt: skip
def test_two_independent_sources_or_a_test_confirm_a_claim(note: Note, status: str, count: int) -> None:
    verdict = verdicts([note])[note.id]
    assert (verdict.status, verdict.sources) == (status, count)
    assert verdict.confidence == round(1 - 0.5 ** (count + 2 * verdict.tests), 4)


def test_a_stated_confidence_stands_for_the_counted_one() -> None:
    note = claim("c", cited("https://a.com/1"))._replace(confidence=0.2)
    assert verdicts([note])[note.id].confidence == 0.2


def test_claims_against_each_other_stand_side_by_side_and_dispute_each_other() -> None:
    one = claim("It is round", cited("https://a.com/1"), cited("https://b.com/1"))
    two = claim("It is flat", cited("https://c.com/1"), contradicts=(one.id, "gone"))
    assert {name: (v.status, v.contradicted_by) for name, v in verdicts([one, two]).items()} == {
        one.id: ("disputed", (two.id,)),
        two.id: ("disputed", (one.id,)),
    }


def test_a_claim_that_nothing_speaks_for_disputes_nothing() -> None:
    one = claim("It is round", cited("https://a.com/1"), cited("https://b.com/1"))
    two = claim("It is flat", contradicts=(one.id,))
    found = verdicts([one, two])
    assert (found[one.id].status, found[two.id].status) == ("confirmed", "disputed")


def test_a_claim_that_is_made_again_keeps_all_that_was_known() -> None:
    first = claim("c", cited("https://a.com/1", checked=False), tests=TEST)._replace(by="Ana", tags=("x",), text="t")
    again = claim("c", cited("https://a.com/1"), cited("https://b.com/1"), contradicts=("d",))._replace(by="Bo")
    both = joined(first, again)
    assert [(each.url, each.checked) for each in both.citations] == [
        ("https://a.com/1", True),
        ("https://b.com/1", True),
    ]
    assert (both.by, both.text, both.tests, both.contradicts, both.tags) == ("Ana", "t", TEST, ("d",), ("x",))
    assert joined(both, first) == both


@SUFFIXES_KNOWN
def test_the_owner_of_a_page_has_the_registered_name() -> None:
    assert owner("https://www.a.co.uk/x") == "a.co.uk"


def test_without_the_list_of_suffixes_fewer_sources_count_as_independent(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (owner("http://10.0.0.1/"), owner("http://[")) == ("10.0.0.1", "")
    monkeypatch.setattr(sources, "get_tld", None)
    assert owner("https://www.a.co.uk/x") == owner("https://b.co.uk/y") == "co.uk"


def test_a_note_reads_as_it_was_written() -> None:
    note = Note(
        "claim", id_of("Yes: #1 – ä"), "Yes: #1 – ä", "a\n\n  - b: [c]\n", ("yes", "1"), "2026-11-26", "task x", 0.5,
        (cited("https://a.com/1"), Citation(file="a b.txt", quote='"q"\n', date="2026-01-01T00:00:00Z")), TEST, ("other",),
    )  # fmt: skip
    assert note_from(note_text(note).encode(), f"kb/{note.id}.yaml") == note


def test_text_that_utf_8_cannot_hold_leaves_the_base_readable() -> None:
    note = claim("half \ud83d of a sign")._replace(text="\udfff", tags=("a\ud800",))
    read = note_from(note_text(note).encode(), f"kb/{note.id}.yaml")
    assert (read.title, read.text, read.tags) == ("half ? of a sign", "?", ("a?",))


@rows(
    ("text", "said"),
    [
        ("kind: [", "x.yaml:1:7: this `[` is never closed"),
        ("", "x.yaml"),
        ("[]", "is not a mapping"),
        ("kind: note\nid: y\ntitle: t\n", "`id` (`x`, as the file is called)"),
        ("kind: note\nid: x\ntitel: t\n", "no key `titel`"),
        ("kind: note\nid: x\ntitle: t\ncitations: [{link: a}]\n", "no key `link`"),
        ("kind: note\nid: x\ntitle: 5\n", "are text"),
        ("kind: claim\nid: x\ntitle: t\nconfidence: 2\n", "from 0 to 1"),
        ("kind: claim\nid: x\ntitle: t\ntests: [check]\n", "is not a note or claim"),
        ("kind: claim\nid: x\ntitle: t\ntests: [{task: check}]\n", "an item of `tests` needs `run`"),
        ("kind: claim\nid: x\ntitle: t\ntests: [{task: a, run: b, at: c}]\n", "no key `at`"),
        ("kind: claim\nid: x\ntitle: t\ntests: check\n", "`tests` is not a list"),
        ("kind: claim\nid: x\ntitle: t\ncontradicts: other\n", "`contradicts` is not a list"),
        ("kind: claim\nid: x\ntitle: t\ntags: release\n", "`tags` is not a list"),
        ("kind: claim\nid: x\ntitle: t\nconfidence: true\n", "from 0 to 1"),
        ("kind: claim\nid: x\ntitle: t\ncitations: {url: a}\n", "`citations` is not a list"),
        ("kind: claim\nid: x\ntitle: t\ncitations: [{url: 5}]\n", "`url` of an item of `citations` must be text"),
        ("kind: claim\nid: x\ntitle: t\ncitations: [{url: a, author: 5}]\n", "`author` of an item of `citations`"),
        ("kind: claim\nid: x\ntitle: t\ncitations: [{url: a, checked: 'no'}]\n", "must be true or false"),
    ],
)
def test_a_file_that_is_not_a_note_is_named_with_what_is_wrong(text: str, said: str) -> None:
    with pytest.raises(Failure) as caught:
        note_from(text.encode(), "x.yaml")
    assert said in str(caught.value) and "x.yaml" in str(caught.value)


def test_a_base_is_read_from_its_folder_and_nothing_around_it(tmp_path: Path) -> None:
    note = Note("note", id_of("Plain"), "Plain", "text")
    (tmp_path / "kb" / "below").mkdir(parents=True)
    (tmp_path / "kb" / f"{note.id}.yaml").write_text(note_text(note))
    (tmp_path / "kb" / "README.md").write_text("no note")
    (tmp_path / "kb" / "below" / "x.yaml").write_text("no note")
    with Beneath(str(tmp_path)) as tree:
        assert (read_notes(tree, "kb"), read_notes(tree, "none")) == ([note], [])
        with pytest.raises(Failure, match="outside the working directory") as caught:
            read_notes(tree, "../kb")
        assert caught.value.failure == "policy"


def test_a_search_ranks_by_rare_words_and_the_title() -> None:
    notes = [claim(f"Fact {number} of the queue") for number in range(9)] + [claim("The cache drops entries")]
    rows = found(notes, "why does the cache drop", "", None, [])
    assert [row["title"] for row in rows] == ["The cache drops entries"]
    assert found(notes, "", "claim", "open", [])[0]["status"] == "open" and found(notes, "", "note", None, []) == []


def test_a_search_looks_at_the_whole_of_a_note_and_takes_common_words_where_there_are_no_others() -> None:
    long = Note("note", "n", "Queue", " ".join(f"word{number}" for number in range(200)) + " needle what is it")
    for query in ("needle", "word199", "what is it"):
        assert [row["id"] for row in found([long, Note("note", "m", "Cache")], query, "", None, [])] == ["n"], query


def test_a_copy_is_shown_as_one() -> None:
    note = claim("c", cited("https://a.com/1", "t"), cited("https://b.com/2")._replace(copy_of="t"))
    assert 'https://b.com/2: "q" (a copy of another source)' in markdown([note])
    (row,) = found([note], "", "claim", None, [])
    assert [line.split()[0] for line in details(row) if ".com" in line] == ["checked", "copy"]


def test_markdown_shows_text_from_outside_as_text() -> None:
    bad = claim("<script>x</script> [a](http://evil) `rm`\n# head\x1b[2J", cited("https://a.com/1"))
    text = markdown([bad, Note("note", "n", "N", "| a |\n> b")])
    assert "<script>" not in text.replace("\\<", "") and "\x1b" not in text
    assert "\n# head" not in text and "\\[a\\](http://evil)" in text and "\\| a \\|" in text
