"""Scripted replies, to try the editor without a model: `python replies.py`, then `planrunner --profile scripted shell`.

They follow a few rules and understand nothing. A brief takes its title from the last words before the colon of the
request. A new text has a section for each part that the request lists after the colon, and one for each file that it
read. Of changes they know `add a section NAME`, `call it NAME` and, for anything else, shorter.
"""

from __future__ import annotations

import json
import re
import sys
import threading

from planrunner.testing.scripted_model import Heard, Reply, ScriptedModel

PORT = 4030


def answer(heard: Heard) -> Reply:
    asked, _, request = heard.turns[1][1].partition("Request: ")
    request, read = request.strip(), _files_read(heard)
    if "into a brief" in asked:
        title = re.sub(r"\W+", " ", request.partition(":")[0]).split()[-2:]
        return [("answer", {"title": " ".join(title), "tone": "plain", "file": f"{'-'.join(title).lower()}.md"})]
    if "Describe this text" in asked:
        heads = re.findall(r"^#+ (.+)$", asked, re.MULTILINE)
        gist = f"It is about {', '.join(heads[1:])}."
        return [("answer", {"title": heads[0], "sections": heads[1:], "tone": "plain", "gist": gist})]
    if any(role == "tool" and "content" not in text for role, text in heard.turns):
        return "Done."
    (path,) = re.findall(r"the file ([\w./-]+\.md)", asked)
    wanted = [*re.findall(r'"([\w./-]+)"', asked.partition("read first: ")[2]), *([path] if "Edit" in asked else [])]
    if len(read) < len(wanted):
        return [("files_read", {"path": name}) for name in wanted]
    return _edited(path, request, read[-1]) if "Edit" in asked else _created(path, request, asked, read)


def _files_read(heard: Heard) -> list[str]:
    texts = [text for role, text in heard.turns if role == "tool" and '"content"' in text]
    return [json.loads(text)["content"] for text in texts]


def _created(path: str, request: str, asked: str, read: list[str]) -> Reply:
    (title,) = re.findall(r'with the title "(.*)"', asked)
    parts = [part.strip(" .").capitalize() for part in request.partition(":")[2].split(",")]
    text = f"# {title}\n" + "".join(f"\n## {part}\n\nA word on {part.lower()}.\n" for part in parts if part)
    return [("files_write", {"path": path, "content": text + "".join(f"\n## Source\n\n{each}" for each in read)})]


def _edited(path: str, request: str, text: str) -> Reply:
    if added := re.search(r"add a section (.+)", request):
        text += f"\n## {added[1]}\n\nA word on {added[1].lower()}.\n"
    elif named := re.search(r"call it (.+)", request):
        text = re.sub(r"^# .+", f"# {named[1]}", text)
    else:
        text = re.sub(r"^A word on .+\n\n?", "", text, flags=re.MULTILINE)
    return [("files_write", {"path": path, "content": text})]


if __name__ == "__main__":
    with ScriptedModel(answer, port=int(sys.argv[1]) if sys.argv[1:] else PORT) as model:
        print(f"scripted replies at {model.url}", flush=True)
        threading.Event().wait()
