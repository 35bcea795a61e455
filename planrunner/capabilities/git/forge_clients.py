"""The forges' own clients, ``gh`` and ``glab``, where the operator chose them over the interface."""

from __future__ import annotations

import json
import os
import re
import shutil
from typing import Any, NamedTuple

from planrunner.capabilities.contract import Context, Failure, basic_environment
from planrunner.capabilities.git.command import shown
from planrunner.capabilities.git.forges import Request, Wanted
from planrunner.capabilities.programs import Ended, Program, run

_NUMBER = re.compile(r"https?://\S+/(?:pull|merge_requests|pulls)/(\d+)")


class _Client(NamedTuple):
    """A program that speaks for one repository; the token is in its environment alone."""

    context: Context
    program: str
    repository: str
    env: dict[str, str]

    def run(self, *arguments: str, stdin: str = "") -> str:
        place = _found(self.program)
        env = {**_own_environment(self.context), **self.env}
        call = Program(
            [place, *arguments, f"--repo={self.repository}"], "/", env, stdin=stdin.encode(), limit=8 << 20, own=True
        )
        ended = run(self.context, call)
        if ended.code:
            raise Failure(f"{self.program} {' '.join(arguments[:2])}: {_gist(ended)}", _kind(ended))
        return ended.text

    def data(self, *arguments: str) -> Any:
        try:
            return json.loads(self.run(*arguments) or "[]")
        except ValueError:
            raise Failure(f"{self.program} {' '.join(arguments[:2])} printed no JSON") from None


def _own_environment(context: Context) -> dict[str, str | None]:
    """The operator's few variables, and none of the plan's: they could send the token elsewhere."""
    own = basic_environment(os.environ)
    given = {name: own.get(name) for name in context.environment() if not name.startswith("PLANRUNNER_")}
    return {**given, **own, "NO_COLOR": "1"}


def _found(program: str) -> str:
    found = shutil.which(program)
    if found is None:
        raise Failure(f"`{program}` is not installed: no program of this name is on PATH")
    return found


def _gist(ended: Ended) -> str:
    return shown(
        (ended.stderr.strip() or ended.stdout.strip()).splitlines()[-1][:300] if ended.stderr or ended.stdout else b""
    )


def _kind(ended: Ended) -> str:
    said = ended.stderr + ended.stdout
    if any(sign in said for sign in (b"401", b"403", b"authenticat", b"auth login")):
        return "denied"
    passing = (b"429", b"500", b"502", b"503", b"504", b"timeout", b"connection")
    return "transient" if any(sign in said for sign in passing) else "logic"


def _number(printed: str) -> tuple[int, str]:
    found = _NUMBER.search(printed)
    if found is None:
        raise Failure(f"no address of a request in what was printed: {printed[-200:]!r}")
    return int(found[1]), found[0]


class Gh(NamedTuple):
    """GitHub's client."""

    client: _Client

    def find(self, head: str, base: str) -> Request | None:
        shape = "--json=number,url,title,body"
        found = self.client.data("pr", "list", f"--head={head}", f"--base={base}", "--state=open", shape)
        return Request(*(found[0][key] for key in ("number", "url", "title", "body"))) if found else None

    def open(self, wanted: Wanted) -> Request:
        options = [f"--head={wanted.head}", f"--base={wanted.base}", f"--title={wanted.title}", "--body-file=-"]
        options += ["--draft"] if wanted.draft else []
        number, url = _number(self.client.run("pr", "create", *options, stdin=wanted.body or "\n"))
        return Request(number, url, wanted.title, wanted.body)

    def change(self, number: int, title: str, body: str) -> Request:
        printed = self.client.run("pr", "edit", str(number), f"--title={title}", "--body-file=-", stdin=body or "\n")
        return Request(number, _number(printed)[1], title, body)

    def close(self, number: int) -> None:
        self.client.run("pr", "close", str(number))


class Glab(NamedTuple):
    """GitLab's client."""

    client: _Client

    def find(self, head: str, base: str) -> Request | None:
        found = self.client.data("mr", "list", f"--source-branch={head}", f"--target-branch={base}", "--output=json")
        return Request(*(found[0][key] for key in ("iid", "web_url", "title", "description"))) if found else None

    def open(self, wanted: Wanted) -> Request:
        options = [f"--source-branch={wanted.head}", f"--target-branch={wanted.base}", f"--title={wanted.title}"]
        options += [f"--description={wanted.body}", "--yes", *(["--draft"] if wanted.draft else [])]
        number, url = _number(self.client.run("mr", "create", *options))
        return Request(number, url, wanted.title, wanted.body)

    def change(self, number: int, title: str, body: str) -> Request:
        printed = self.client.run("mr", "update", str(number), f"--title={title}", f"--description={body}")
        return Request(number, _number(printed)[1], title, body)

    def close(self, number: int) -> None:
        self.client.run("mr", "close", str(number))


def forge_client(context: Context, program: str, repository: str, token: str) -> Gh | Glab:
    """The client of this name. Raises Failure for any other."""
    if program == "gh":
        env = {"GH_TOKEN": token, "GH_PROMPT_DISABLED": "1"} if token else {"GH_PROMPT_DISABLED": "1"}
        return Gh(_Client(context, "gh", repository, env))
    if program == "glab":
        return Glab(_Client(context, "glab", repository, {"GITLAB_TOKEN": token} if token else {}))
    raise Failure(f"`forge: {{client: …}}` takes gh, glab or api, found {program}", "policy", rule="git.forge")
