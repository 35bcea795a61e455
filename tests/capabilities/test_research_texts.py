"""research.dedupe, rank, facts and cite: the same texts give the same answers, and every quote can be found again."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planrunner.capabilities.contract import Call, Context, Failure
from planrunner.capabilities.kb.notes import claim
from planrunner.capabilities.research.facts import cite, facts, owner
from planrunner.capabilities.research.relevance import dedupe, rank, sentences, words
from planrunner.capabilities.research.source import canonical
from planrunner.engine.services import AttemptServices
from planrunner.journal.sqlite import open_journal
from planrunner.plan.model import Task

FOX = "The quick brown fox jumps over the lazy dog. " * 3


class Quiet:
    def write(self, data: bytes, stream: str = "stdout") -> None: ...

    def beat(self) -> None: ...

    def spend(self, amounts: Any) -> None: ...


@pytest.fixture
def here(tmp_path: Path) -> Context:
    return made(tmp_path)


def made(folder: Path, cancelled: Callable[[], bool] = lambda: False) -> Context:
    state = folder / ".planrunner"
    state.mkdir(exist_ok=True)
    call = Call("r", Task("t"), 1, "k", {}, "", (), {}, {}, str(folder), "", None)
    return Context(call, Quiet(), cancelled, AttemptServices(str(state), str(folder), None, {}))


def doc(url: str, text: str, title: str = "", context: Context | None = None, **more: Any) -> dict[str, Any]:
    """A document as research.fetch gives it; kept, and cut to twenty characters, where there is a context."""
    digest = hashlib.sha256(text.encode()).hexdigest()
    found = {"url": url, "title": title, "text": text, "truncated": False, "text_sha256": digest, "sha256": digest}
    if context is not None:
        context.keep(text.encode(), "text", "text/plain")
        found.update(text=text[:20], truncated=len(text) > 20)
    return {**found, "fetched_at": "2026-11-22T10:00:00Z", **more}


class TestAddresses:
    @pytest.mark.parametrize(
        ("given_url", "expected"),
        [
            ("HTTP://Example.COM:80", "http://example.com/"),
            ("https://example.com:443/a b?q=ä#frag", "https://example.com/a%20b?q=%C3%A4"),
            ("http://bücher.example/%41", "http://xn--bcher-kva.example/%41"),
            ("http://[::1]:8080/x", "http://[::1]:8080/x"),
        ],
    )
    def test_an_address_has_one_spelling(self, given_url: str, expected: str) -> None:
        assert canonical(given_url) == expected
        assert canonical(expected) == expected

    @pytest.mark.parametrize(
        "url",
        ["", "example.com", "file:///etc/passwd", "http://", "http://a:b@c/", "http://h:x/", "http://[::1", "x" * 5000],
    )
    def test_what_is_no_address_of_a_page_is_refused(self, url: str) -> None:
        with pytest.raises(Failure):
            canonical(url)

    @given(st.text(max_size=60))
    def test_any_text_is_an_address_or_a_failure(self, text: str) -> None:
        try:
            found = canonical(f"http://host/{text}")
        except Failure:
            return
        assert canonical(found) == found
        assert found.isascii()

    @pytest.mark.parametrize(
        ("url", "expected"),
        [
            ("https://news.bbc.co.uk/x", "bbc.co.uk"),
            ("https://a.b.example.com/", "example.com"),
            ("https://ana.github.io/", "ana.github.io"),
            ("http://127.0.0.1:80/", "127.0.0.1"),
            ("http://[::1]/", "::1"),
            ("http://localhost/", "localhost"),
        ],
    )
    def test_the_owner_is_who_registered_the_name(self, url: str, expected: str) -> None:
        assert owner(url) == expected


class TestDedupe:
    def test_same_address_same_text_and_nearly_the_same_text_stay_once(self, here: Context) -> None:
        long = " ".join(f"word{number}" for number in range(200))
        given_docs = [
            doc("http://a.example/1", long),
            doc("http://a.example/1/", "other", final_url="http://a.example/1"),
            doc("http://b.example/2", long.replace("word7 ", "WORD7\n\n ")),
            doc("http://c.example/3", long.replace("word100 ", "changed ")),
            doc("http://d.example/4", " ".join(f"other{number}" for number in range(200))),
        ]
        found = dedupe(here, {"query": "q", "docs": given_docs})
        assert [each["url"] for each in found.docs] == ["http://a.example/1", "http://d.example/4"]
        assert [(each["kind"], each["of"]) for each in found.dropped] == [
            ("address", "http://a.example/1"),
            ("text", "http://a.example/1"),
            ("near", "http://a.example/1"),
        ]
        assert 0.9 < found.dropped[2]["likeness"] < 1
        assert found.query == "q"

    def test_whole_texts_are_compared_though_the_outputs_hold_only_their_beginning(self, here: Context) -> None:
        one = doc("http://a.example/", FOX + "One end.", context=here)
        two = doc("http://b.example/", FOX + " ".join(f"w{n}" for n in range(50)), context=here)
        assert one["text"] == two["text"]
        assert dedupe(here, [one, two]).total == 2

    def test_pages_without_text_are_not_taken_for_the_same(self, here: Context) -> None:
        assert dedupe(here, ["http://a.example/", "http://b.example/"]).total == 2
        assert dedupe(here, []).total == 0

    @settings(max_examples=30)
    @given(st.lists(st.sampled_from([FOX, FOX + "x", "other words here", "", "a b c d e f g h"]), max_size=6))
    def test_a_second_time_changes_nothing(self, texts: list[str]) -> None:
        context = Context(Call("r", Task("t"), 1, "k", {}, "", (), {}, {}, "/", "", None), Quiet(), lambda: False)
        once = dedupe(context, [doc(f"http://h{number}.example/", text) for number, text in enumerate(texts)])
        again = dedupe(context, once._asdict())
        assert again.docs == once.docs
        assert again.dropped == []


class TestRank:
    def test_the_best_come_first_with_the_reason(self, here: Context) -> None:
        docs = [
            doc("http://a.example/", "Gardens want water. " * 10, "Gardens"),
            doc("http://b.example/", "Congestion happens. " * 3 + "Much else. " * 20, "Networks"),
            doc("http://c.example/", "About something controlled by somebody.", "Congestion control"),
        ]
        found = rank(here, {"query": "what is congestion control", "docs": docs})
        assert [each["url"][7] for each in found.sources] == ["c", "b", "a"]
        assert [each["reason"] for each in found.sources] == [
            "has 2 of 2 words: congestion, control",
            "has 1 of 2 words: congestion",
            "has none of the words",
        ]
        assert [each["rank"] for each in found.sources] == [1, 2, 3]
        assert rank(here, docs, "congestion", limit=1).total == 1
        assert rank(here, docs, "congestion", matching=True).total == 2

    def test_a_word_that_every_text_has_still_counts(self, here: Context) -> None:
        docs = [
            doc(f"http://{name}.example/", "fox " * times + "x " * (20 - times))
            for name, times in zip("abc", (1, 9, 4))
        ]
        found = rank(here, docs, "fox")
        assert [each["url"][7] for each in found.sources] == ["b", "c", "a"]

    def test_the_question_comes_along_with_the_documents(self, here: Context) -> None:
        docs = [doc("http://a.example/", "x", query="fox"), doc("http://b.example/", FOX, query="fox")]
        assert rank(here, docs).query == "fox"
        assert rank(here, {"docs": docs, "query": "dog"}).query == "dog"
        assert rank(here, docs, "cat").query == "cat"
        with pytest.raises(Failure, match="`query` is missing"):
            rank(here, [doc("http://a.example/", "x")])

    @pytest.mark.parametrize(
        "query", ['"', 'a" OR "b', "NEAR(a b)", "title:fox", "fox*", "-fox", "'; DROP TABLE texts", "^fox"]
    )
    def test_signs_of_the_index_mean_nothing_in_a_question(self, here: Context, query: str) -> None:
        docs = [doc("http://a.example/", FOX), doc("http://b.example/", "nothing")]
        if not words(query):
            with pytest.raises(Failure, match="`query` is missing"):
                rank(here, docs, query)
            return
        found = rank(here, docs, query)
        assert [each["url"][7] for each in found.sources] == ["a", "b"]

    def test_accents_case_and_scripts_without_spaces(self, here: Context) -> None:
        docs = [
            doc("http://a.example/", "nothing"),
            doc("http://b.example/", "Ein CAFÉ"),
            doc("http://c.example/", "拥塞控制算法"),
        ]
        assert rank(here, docs, "cafe").sources[0]["url"] == "http://b.example/"
        assert rank(here, docs, "控制").sources[0]["url"] == "http://c.example/"

    def test_results_of_a_search_are_ranked_by_what_they_show(self, here: Context) -> None:
        results = [
            {"url": "http://a.example/", "title": "x", "snippet": "y"},
            {"url": "http://b.example/", "title": "Fox"},
        ]
        assert rank(here, {"query": "fox", "results": results}).sources[0]["url"] == "http://b.example/"

    def test_other_processes_come_to_the_same(self, here: Context, tmp_path: Path) -> None:
        program = (
            "import json, sys; sys.path[:0] = json.loads(sys.argv[1])\n"
            "from pathlib import Path\n"
            "import test_research_texts as t\n"
            "docs = [t.doc(f'http://h{n}.example/', t.FOX * n + f'dog {n}. ') for n in range(1, 9)]\n"
            "here = t.made(Path(sys.argv[2]))\n"
            "steps = t.dedupe(here, docs), t.rank(here, docs, 'lazy dog'), t.facts(here, docs, query='lazy dog')\n"
            "print(json.dumps([step._asdict() for step in steps]))\n"
        )
        path = json.dumps([str(Path(__file__).parent), *sys.path])
        printed = {
            subprocess.run(
                [sys.executable, "-c", program, path, str(tmp_path)],
                env={**os.environ, "PYTHONHASHSEED": seed},
                capture_output=True,
                check=True,
            ).stdout
            for seed in ("1", "2")
        }
        assert len(printed) == 1


class TestSentences:
    @given(st.text(alphabet="ab .!?\n\t\"'A1。e.g", max_size=200))
    def test_every_sentence_stands_where_it_says(self, text: str) -> None:
        last = 0
        for sentence in sentences(text):
            assert text[sentence.start : sentence.end] == sentence.quote
            assert sentence.quote.strip() == sentence.quote != ""
            assert sentence.start >= last
            last = sentence.end

    def test_abbreviations_and_numbers_end_no_sentence(self) -> None:
        text = "See e.g. RFC 9438, sec. 4. It is 0.7 here. Dr. Who agrees."
        assert [each.quote for each in sentences(text)] == [
            "See e.g. RFC 9438, sec. 4.",
            "It is 0.7 here.",
            "Dr. Who agrees.",
        ]


class TestFacts:
    def test_a_fact_says_where_it_stands_and_the_quote_is_there(self, here: Context) -> None:
        text = "Some words before it. RFC 9438 specifies\nnothing. RFC 9438 specifies CUBIC. And after."
        found = facts(here, [doc("http://a.example/", text, "T", here)], patterns=[r"RFC \d+ .*CUBIC"])
        (fact,) = found.facts
        (place,) = fact["evidence"]
        assert fact["statement"] == place["quote"] == text[place["start"] : place["end"]] == "RFC 9438 specifies CUBIC."
        assert place["text_sha256"] == hashlib.sha256(text.encode()).hexdigest()
        assert (place["url"], place["title"], place["fetched_at"]) == ("http://a.example/", "T", "2026-11-22T10:00:00Z")
        assert (fact["confidence"], fact["sources"], fact["cross_checked"]) == (0.5, 1, False)

    def test_independent_sources_support_each_other(self, here: Context) -> None:
        docs = [
            doc("http://www.a.example/1", "RFC 9438 specifies the CUBIC algorithm."),
            doc("http://blog.a.example/2", "It is RFC 9438 that specifies the CUBIC algorithm!"),
            doc("http://b.example/", "RFC 9438 specifies the algorithm CUBIC."),
            doc("http://c.example/", "RFC 9438 specifies the algorithm CUBIC."),
            doc("http://d.example/", "RFC 8312 specifies the CUBIC algorithm."),
        ]
        found = facts(here, docs, patterns=["CUBIC"])
        assert [(each["sources"], each["confidence"]) for each in found.facts] == [(2, 0.75), (1, 0.5)]
        assert len(found.facts[0]["evidence"]) == 3, "the copy at c.example is no source of its own"
        assert found.cross_checked == 1

    def test_sentences_that_fit_the_question_are_facts_and_headings_are_none(self, here: Context) -> None:
        text = "Congestion control\nCongestion control keeps networks usable. Gardens want water every day. No."
        found = facts(here, {"query": "congestion control", "docs": [doc("http://a.example/", text)]})
        assert [each["statement"] for each in found.facts] == ["Congestion control keeps networks usable."]
        with pytest.raises(Failure, match="`query` is missing"):
            facts(here, [doc("http://a.example/", text)])

    def test_quotes_that_somebody_gives_have_to_be_there(self, here: Context) -> None:
        docs = [doc("http://a.example/", "Before. The window\n  shrinks by 0.7 then. After.", context=here)]
        quotes = [
            {"quote": "The window shrinks by 0.7", "statement": "CUBIC's beta is 0.7", "url": "http://a.example/"},
            "made up words",
            {"quote": "The window", "url": "http://elsewhere.example/"},
        ]
        found = facts(here, docs, quotes=quotes)
        (fact,) = found.facts
        assert fact["statement"] == "CUBIC's beta is 0.7"
        assert fact["evidence"][0]["quote"] == "The window\n  shrinks by 0.7"
        assert [each["quote"] for each in found.unverified] == ["made up words", "The window"]
        assert found.unverified[1]["reason"] == "the quote is not in the text of http://elsewhere.example/"

    def test_a_sentence_and_its_denial_are_two_statements(self, here: Context) -> None:
        docs = [
            doc("http://a.example/", "The index is rebuilt when a node has restarted."),
            doc("http://b.example/", "The index is not rebuilt when a node has restarted."),
            doc("http://c.example/", "The index isn't rebuilt when a node has restarted."),
        ]
        found = facts(here, docs, patterns=["index"])
        assert [(each["statement"].split()[2], each["sources"]) for each in found.facts] == [("is", 2), ("is", 1)]
        assert "not" in found.facts[0]["statement"]

    def test_a_statement_says_no_more_than_its_quote(self, here: Context) -> None:
        docs = [doc("http://a.example/", "The default port of Karst is 7400. Tomatoes want sun.")]
        quote = "The default port of Karst is 7400."
        quotes = [
            {"quote": quote, "statement": "Karst listens on port 7400 by default"},
            {"quote": quote, "statement": "Karst listens on port 7401 by default"},
            {"quote": quote, "statement": "Port 7400 is not the default port of Karst"},
            {"quote": "Tomatoes want sun.", "statement": "Karst is the best database"},
        ]
        found = facts(here, docs, quotes=quotes, fidelity=0.6)
        assert [each["statement"] for each in found.facts] == ["Karst listens on port 7400 by default"]
        assert [each["reason"] for each in found.unverified] == [
            "the statement has `7401`, which the quote does not",
            "one of statement and quote is a negation",
            "the quote has 0% of the words of the statement",
        ]

    def test_no_pattern_takes_long(self, here: Context) -> None:
        text = "a" * 5_000 + ". " + "a" * 900 + "!"
        facts(here, [doc("http://a.example/", text)], patterns=["(a+)+$", "(a|a)*b"])
        with pytest.raises(Failure, match=r"`patterns`: `\(`"):
            facts(here, [doc("http://a.example/", text)], patterns=["("])

    def test_a_kept_text_that_was_changed_is_refused(self, here: Context, tmp_path: Path) -> None:
        given_doc = doc("http://a.example/", FOX, context=here)
        digest = given_doc["text_sha256"]
        kept = tmp_path / ".planrunner/artifacts/sha256" / digest[:2] / digest[2:]
        kept.chmod(0o644)
        kept.write_text(FOX.replace("lazy", "busy"))
        with pytest.raises(Failure, match="is damaged"):
            facts(here, [given_doc], patterns=["dog"])

    def test_a_stop_ends_it(self, tmp_path: Path) -> None:
        stop = threading.Event()
        stop.set()
        with pytest.raises(Failure, match="stopped"):
            facts(made(tmp_path, stop.is_set), [doc("http://a.example/", FOX)], patterns=["dog"])


class TestClaims:
    def test_a_mirror_of_a_cited_page_is_not_a_second_source_whenever_it_comes(
        self, here: Context, tmp_path: Path
    ) -> None:
        open_journal(str(tmp_path / ".planrunner")).close()
        text = "Karst is a store for time series of machines. Its default port is 7400. " + FOX * 8
        pages = [
            doc("http://a.example/", text, context=here),
            doc("http://mirror.example/", text + "Mirrored with permission.", context=here),
            doc("http://b.example/", "We run Karst on port 7400, which is its default port.", context=here),
        ]
        statement = "The default port of Karst is 7400"
        statuses = []
        for page, quote in zip(pages, ("Its default port is 7400.", "Its default port is 7400.", "its default port")):
            (fact,) = facts(here, [page], quotes=[quote]).facts
            statuses.append(claim(here, statement, fact["evidence"]))
        assert [(each.status, each.sources) for each in statuses] == [
            ("supported", 1),
            ("supported", 1),
            ("confirmed", 2),
        ]


class TestCite:
    def test_sources_are_numbered_as_they_are_cited_with_time_and_digest(self, here: Context) -> None:
        one = doc("http://a.example/", "RFC 9438 specifies CUBIC. RFC 9002 is about QUIC.", "One [1] *star*", here)
        two = doc("http://b.example/(x)", "We read: RFC 9438 specifies CUBIC.", "", here)
        found = cite(here, facts(here, {"query": "q", "docs": [one, two]}, patterns=[r"RFC \d+"])._asdict())
        assert [(each["number"], each["url"], each["quotes"]) for each in found.citations] == [
            (1, "http://a.example/", 2),
            (2, "http://b.example/(x)", 1),
        ]
        assert [each["cites"] for each in found.statements] == [[1, 2], [1]]
        digest = one["sha256"]
        assert found.markdown == (
            "- RFC 9438 specifies CUBIC. [1][2]\n- RFC 9002 is about QUIC. [1]\n\n## Sources\n\n"
            f"1. [One \\[1\\] \\*star\\*](http://a.example/). Retrieved 2026-11-22T10:00:00Z. SHA-256 `{digest}`.\n"
            f"2. [http://b.example/(x)](http://b.example/%28x%29). Retrieved 2026-11-22T10:00:00Z. SHA-256 `{two['sha256']}`.\n"
        )
        with here.artifact(found.artifacts["json"]["sha256"]) as file:
            entries = json.loads(file.read())
        assert entries[0]["accessed"] == {"date-parts": [[2026, 11, 22]]}
        assert entries[0]["note"].startswith(f"sha256:{digest}")

    def test_a_quote_that_does_not_stand_there_fails(self, here: Context) -> None:
        found = facts(here, [doc("http://a.example/", FOX, context=here)], patterns=["dog"])._asdict()
        found["facts"][0]["evidence"][0]["quote"] = "The fox sleeps."
        with pytest.raises(Failure, match=r"the quote at 0–44 of http://a.example/ is not what stands there"):
            cite(here, found)
        del found["facts"][0]["evidence"][0]["start"]
        with pytest.raises(Failure, match="expected entries with `evidence`"):
            cite(here, found)

    def test_sources_alone_make_a_bibliography(self, here: Context) -> None:
        found = cite(here, {"sources": [doc("http://a.example/", FOX, "A"), doc("http://a.example/", FOX, "A")]})
        assert (found.total, found.statements) == (1, [])
        assert found.markdown.startswith("## Sources\n\n1. [A](http://a.example/).")
