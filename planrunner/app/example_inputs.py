"""What the examples of the built-in capabilities say under ``with``: each works where what it names is there.

Of a capability that is not listed, such as one of a plugin, an example is made from the types of its inputs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_URL = "https://example.com/"
_DATABASE = "sqlite:///notes.db"

INPUTS: Mapping[str, Mapping[str, Any]] = {
    "docker.build": {"tag": "shop/web:1.4"},
    "docker.image_remove": {"image": "shop/web:1.4"},
    "docker.push": {"image": "registry.example.com/shop/web:1.4"},
    "docker.run": {"image": "alpine:3", "command": ["echo", "hello"]},
    "docker.tag": {"source": "shop/web:1.4", "target": "shop/web:latest"},
    "fail": {"message": "there is nothing to release"},
    "files.append": {"path": "notes.txt", "content": "one more line\n"},
    "files.copy": {"path": "notes.txt", "to": "copy.txt"},
    "files.delete": {"path": "notes.txt"},
    "files.edit": {"blocks": [{"path": "notes.txt", "search": "draft", "replace": "final"}]},
    "files.glob": {"patterns": ["**/*.txt"]},
    "files.mkdir": {"path": "build"},
    "files.move": {"path": "notes.txt", "to": "moved.txt"},
    "files.read": {"path": "notes.txt"},
    "files.restore": {"snapshot": "{{ tasks.snapshot.outputs.snapshot }}"},
    "files.snapshot": {"path": "."},
    "files.template": {"path": "hello.txt", "template": "hello.txt.j2", "values": {"name": "Ana"}},
    "files.write": {"path": "notes.txt", "content": "a draft\n"},
    "git.add": {"paths": ["notes.txt"]},
    "git.bisect": {"good": "v1.0", "test": ["grep", "-q", "draft", "notes.txt"]},
    "git.branch": {"name": "topic"},
    "git.clone": {"url": "https://example.com/shop.git", "path": "shop"},
    "git.commit": {"subject": "Say what changed", "paths": ["notes.txt"]},
    "git.diff": {"base": "v1.0"},
    "git.fetch": {"remote": "origin"},
    "git.log": {"since": "v1.0"},
    "git.merge": {"ref": "topic"},
    "git.pull_request": {"title": "Say what changed", "head": "topic"},
    "git.push": {"remote": "origin"},
    "git.show": {"ref": "v1.0"},
    "git.status": {},
    "git.switch": {"ref": "topic"},
    "git.tag": {"name": "v1.1"},
    "git.tag_delete": {"name": "v1.0"},
    "git.worktree_add": {"path": "tree"},
    "git.worktree_remove": {"path": "tree"},
    "http.delete": {"url": f"{_URL}notes/1"},
    "http.download": {"url": f"{_URL}notes.txt", "path": "notes.txt"},
    "http.get": {"url": f"{_URL}notes/1"},
    "http.head": {"url": f"{_URL}notes/1"},
    "http.pages": {"url": f"{_URL}notes"},
    "http.patch": {"url": f"{_URL}notes/1", "json": {"text": "final"}},
    "http.poll": {"url": f"{_URL}notes/1", "until": "status == 200", "within": "50s"},
    "http.post": {"url": f"{_URL}notes", "json": {"text": "a draft"}},
    "http.put": {"url": f"{_URL}notes/1", "json": {"text": "final"}},
    "http.request": {"method": "OPTIONS", "url": _URL},
    "kubectl.apply": {"path": "deploy.yaml"},
    "kubectl.delete": {"resource": "deployment/web"},
    "kubectl.get": {"resource": "pods"},
    "kubectl.rollout_status": {"resource": "deployment/web"},
    "kubectl.rollout_undo": {"resource": "deployment/web"},
    "llm.complete": {"prompt": "Why is the sky blue?"},
    "llm.embed": {"texts": ["a draft", "a final text"]},
    "llm.judge": {"criteria": ["names a cause"], "material": "The sky is blue because air scatters blue light."},
    "llm.vote": {"prompt": "Is 91 a prime? Answer yes or no."},
    "noop": {"value": "hello"},
    "python.run": {"function": "tools.py:add", "args": {"a": 1, "b": 2}},
    "python.scan": {"file": "tools.py"},
    "research.cite": {"facts": "{{ tasks.facts.outputs }}"},
    "research.dedupe": {"docs": "{{ tasks.fetch.outputs }}"},
    "research.facts": {"docs": "{{ tasks.fetch.outputs }}", "query": "example domains"},
    "research.fetch": {"sources": [_URL]},
    "research.rank": {"docs": "{{ tasks.fetch.outputs }}", "query": "example domains"},
    "research.search": {"query": "example domains"},
    "shell": {},
    "sleep": {"duration": "10s"},
    "sql.execute": {
        "database": _DATABASE,
        "statement": "INSERT INTO notes (text) VALUES (:text)",
        "params": {"text": "a draft"},
    },
    "sql.query": {"database": _DATABASE, "statement": "SELECT text FROM notes WHERE id > :id", "params": {"id": 0}},
    "sql.script": {"database": _DATABASE, "file": "schema.sql"},
    "validate.bandit": {"paths": ["src"]},
    "validate.json_schema": {"files": ["config.json"], "schema_file": "config.schema.json"},
    "validate.junit": {"files": ["build/junit.xml"]},
    "validate.mypy": {"paths": ["src"]},
    "validate.pytest": {"paths": ["tests"]},
    "validate.ruff": {"paths": ["src"]},
}

EARLIER: Mapping[str, str] = {
    "files.restore": "files.snapshot",
    "research.cite": "research.facts",
    "research.dedupe": "research.fetch",
    "research.facts": "research.fetch",
    "research.rank": "research.fetch",
}
"""The capability whose task gives an example what it takes."""

GATED = frozenset({"http.delete"})
"""Capabilities whose example has people decide first, since nothing takes back what they do."""
