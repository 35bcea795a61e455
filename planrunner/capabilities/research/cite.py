"""``research.cite``: numbered citations and a bibliography that says when and with which digest each page was read."""

from __future__ import annotations

import json
from typing import Annotated, Any, NamedTuple
from urllib.parse import quote as percent

from planrunner.capabilities.contract import Context, Doc, Failure, capability
from planrunner.capabilities.research.facts import owner
from planrunner.capabilities.research.given import Item, given, text_of

_MOST_SHOWN = 20_000


class Cited(NamedTuple):
    query: Annotated[str, Doc("the question, where it is known")]
    citations: Annotated[
        list[dict[str, Any]], Doc("sources by number: number, url, title, host, fetched_at, sha256, quotes")
    ]
    statements: Annotated[list[dict[str, Any]], Doc("facts with their numbers: id, statement, cites, confidence")]
    markdown: Annotated[str, Doc("statements and bibliography for people, the beginning where it is long")]
    artifacts: Annotated[dict[str, Any], Doc("both kept whole: `markdown` and `json` (the bibliography as CSL-JSON)")]
    total: Annotated[int, Doc("how many sources are cited")]


@capability("research.cite", effect="read")
def cite(
    context: Context,
    facts: Annotated[Any, Doc("what research.facts gave; or sources or docs, for a bibliography alone")],
    title: Annotated[str, Doc("heading of the bibliography")] = "Sources",
    query: Annotated[str, Doc("the question; default: the one that `facts` carries")] = "",
) -> Cited:
    """Number the sources in the order they are first cited, and write statements and bibliography.

    Every quote of a fact is held against the kept text once more: one that does not stand at its span fails the task.
    """
    found = given(_as_items(facts), "facts", query)
    sources: dict[str, Item] = {}
    statements: list[Item] = []
    for item in found.items:
        evidence = item.get("evidence")
        if isinstance(evidence, list):
            numbers = sorted({_number(sources, _checked(context, place)) for place in evidence})
            kept: Item = {key: item[key] for key in ("id", "statement", "confidence", "cross_checked") if key in item}
            statements.append({**kept, "cites": numbers})
        else:
            _number(sources, item)
    citations = list(sources.values())
    markdown = _markdown(title, statements, citations)
    bibliography = json.dumps([_csl(entry) for entry in citations], indent=1, ensure_ascii=False)
    artifacts = {
        "markdown": context.keep(markdown.encode(), "bibliography.md", "text/markdown"),
        "json": context.keep(bibliography.encode(), "bibliography.json", "application/json"),
    }
    shown = markdown if len(markdown) <= _MOST_SHOWN else markdown[:_MOST_SHOWN] + "…\n"
    return Cited(found.query, citations, statements, shown, artifacts, len(citations))


def _as_items(facts: Any) -> Any:
    """Facts have no address of their own; that of their first evidence stands for them."""
    held = facts.get("facts") if isinstance(facts, dict) and "facts" in facts else facts
    if not isinstance(held, list) or not any(isinstance(item, dict) and "evidence" in item for item in held):
        return facts
    entries = []
    for item in held:
        places = item.get("evidence") if isinstance(item, dict) else None
        if not (isinstance(places, list) and places and all(_is_place(place) for place in places)):
            raise Failure("`facts`: expected entries with `evidence`, each with url, start, end and quote")
        entries.append({"url": places[0]["url"], **item})
    return {"query": facts.get("query", ""), "facts": entries} if isinstance(facts, dict) else entries


def _is_place(place: Any) -> bool:
    return (
        isinstance(place, dict)
        and isinstance(place.get("url"), str)
        and isinstance(place.get("quote"), str)
        and all(type(place.get(key)) is int and place[key] >= 0 for key in ("start", "end"))
    )


def _checked(context: Context, place: Item) -> Item:
    """The place, after its quote was found where it says. What has no digest was never kept, and cannot be checked."""
    if context.cancelled():
        raise Failure("stopped", "interrupted")
    if not place.get("text_sha256"):
        return place
    text = text_of(context, {**place, "text": "", "truncated": True})
    if text[place["start"] : place["end"]] != place["quote"]:
        span = f"{place['start']}–{place['end']}"
        raise Failure(f"the quote at {span} of {place['url']} is not what stands there: {place['quote'][:80]}")
    return place


def _number(sources: dict[str, Item], item: Item) -> int:
    """The number of a source, given when it is first cited. Another content of the same page is another source."""
    url = str(item.get("final_url") or item["url"])
    key = f"{url} {item.get('sha256', '')}"
    if key not in sources:
        sources[key] = {
            "number": len(sources) + 1,
            "url": url,
            "title": str(item.get("title") or url),
            "host": str(item.get("host") or owner(url)),
            "fetched_at": str(item.get("fetched_at") or ""),
            "sha256": str(item.get("sha256") or ""),
            "quotes": 0,
        }
    entry = sources[key]
    entry["quotes"] += "quote" in item
    return int(entry["number"])


def _markdown(title: str, statements: list[Item], citations: list[Item]) -> str:
    lines = []
    for statement in statements:
        marks = "".join(f"[{number}]" for number in statement["cites"])
        lines.append(f"- {_plain(str(statement['statement']))} {marks}")
    lines += ["", f"## {_plain(title)}", ""] if lines else [f"## {_plain(title)}", ""]
    for entry in citations:
        when = f" Retrieved {entry['fetched_at']}." if entry["fetched_at"] else ""
        digest = f" SHA-256 `{entry['sha256']}`." if entry["sha256"] else ""
        address = percent(entry["url"], safe="/%:@!$&'*+,;=~-._?#[]")
        lines.append(f"{entry['number']}. [{_plain(entry['title'])}]({address}).{when}{digest}")
    return "\n".join(lines) + "\n"


def _plain(text: str) -> str:
    """Text of strangers inside Markdown: on one line, and without a sign that means something there."""
    line = " ".join(text.split())
    return "".join(f"\\{sign}" if sign in "\\`*_[]<>#|" else sign for sign in line)


def _csl(entry: Item) -> dict[str, Any]:
    """An entry of CSL-JSON, which tools for bibliographies read; the digest goes into its note."""
    found: dict[str, Any] = {
        "id": str(entry["number"]),
        "type": "webpage",
        "title": entry["title"],
        "URL": entry["url"],
    }
    if entry["fetched_at"]:
        year, month, day = entry["fetched_at"][:10].split("-")
        found["accessed"] = {"date-parts": [[int(year), int(month), int(day)]]}
    if entry["sha256"]:
        found["note"] = f"sha256:{entry['sha256']}, retrieved {entry['fetched_at']}"
    return found
