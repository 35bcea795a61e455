"""The interfaces of forges: how each finds, opens, changes and closes a request to merge."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import httpx2

from planrunner.capabilities.contract import Context, Failure
from planrunner.capabilities.git.command import shown
from planrunner.capabilities.http.client import client, refusal

KINDS = ("github", "gitlab", "gitea")


class Wanted(NamedTuple):
    """What a request is to say."""

    head: str
    base: str
    title: str
    body: str
    draft: bool


class Request(NamedTuple):
    """A request as it stands on the forge."""

    number: int
    url: str
    title: str
    body: str


class Forge(Protocol):
    """A forge with one repository on it."""

    def find(self, head: str, base: str) -> Request | None: ...

    def open(self, wanted: Wanted) -> Request: ...

    def change(self, number: int, title: str, body: str) -> Request: ...

    def close(self, number: int) -> None: ...


class Place(NamedTuple):
    """Where the interface of a forge is, which repository is meant, and the token for it."""

    url: str
    repository: str
    token: str

    def call(self, context: Context, method: str, path: str, headers: dict[str, str], **options: Any) -> Any:
        """Ask the forge; gives the JSON of its answer. Raises Failure: denied, transient or logic."""
        headers = {"Accept": "application/json", **headers}
        try:
            with client(context, timeout=30.0, follow_redirects=False) as http:
                answer = http.request(method, self.url.rstrip("/") + path, headers=headers, **options)
        except httpx2.HTTPError as error:
            raise refusal(error) or Failure(f"{self.url} does not answer: {error}", "transient") from None
        return _read(answer, method, path)


def _read(answer: httpx2.Response, method: str, path: str) -> Any:
    if answer.is_success:
        try:
            return answer.json()
        except ValueError:
            raise Failure(f"{method} {path}: the answer is no JSON") from None
    code = answer.status_code
    kind = "denied" if code in (401, 403) else "transient" if code == 429 or code >= 500 else "logic"
    raise Failure(f"{method} {path}: {code} {shown(answer.content[:300])}", kind)


class GitHub(NamedTuple):
    """The REST interface of GitHub."""

    context: Context
    place: Place

    def find(self, head: str, base: str) -> Request | None:
        owner = self.place.repository.partition("/")[0]
        asked = {"state": "open", "head": f"{owner}:{head}", "base": base}
        for each in self._call("GET", "", params=asked):
            if each["head"]["ref"] == head and each["base"]["ref"] == base:
                return self._read(each)
        return None

    def open(self, wanted: Wanted) -> Request:
        data = {"title": wanted.title, "head": wanted.head, "base": wanted.base, "body": wanted.body}
        return self._read(self._call("POST", "", json={**data, "draft": wanted.draft}))

    def change(self, number: int, title: str, body: str) -> Request:
        return self._read(self._call("PATCH", f"/{number}", json={"title": title, "body": body}))

    def close(self, number: int) -> None:
        self._call("PATCH", f"/{number}", json={"state": "closed"})

    def _call(self, method: str, path: str, **options: Any) -> Any:
        headers = {"Authorization": f"Bearer {self.place.token}", "Accept": "application/vnd.github+json"}
        whole = f"/repos/{self.place.repository}/pulls{path}"
        return self.place.call(self.context, method, whole, headers, **options)

    def _read(self, data: Any) -> Request:
        return Request(int(data["number"]), str(data["html_url"]), str(data["title"]), str(data.get("body") or ""))


class Gitea(NamedTuple):
    """The REST interface of Gitea and Forgejo."""

    context: Context
    place: Place

    def find(self, head: str, base: str) -> Request | None:
        seen: set[int] = set()
        for page in range(1, 101):  # the server may give fewer at once than are asked for
            found = self._call("GET", "", params={"state": "open", "limit": 50, "page": page})
            for each in found:
                if each["head"]["ref"] == head and each["base"]["ref"] == base:
                    return self._read(each)
            if seen.issuperset(each["number"] for each in found):
                break
            seen.update(each["number"] for each in found)
        return None

    def open(self, wanted: Wanted) -> Request:
        title = f"WIP: {wanted.title}" if wanted.draft else wanted.title
        data = {"title": title, "head": wanted.head, "base": wanted.base, "body": wanted.body}
        return self._read(self._call("POST", "", json=data))

    def change(self, number: int, title: str, body: str) -> Request:
        return self._read(self._call("PATCH", f"/{number}", json={"title": title, "body": body}))

    def close(self, number: int) -> None:
        self._call("PATCH", f"/{number}", json={"state": "closed"})

    def _call(self, method: str, path: str, **options: Any) -> Any:
        headers = {"Authorization": f"token {self.place.token}"}
        whole = f"/repos/{self.place.repository}/pulls{path}"
        return self.place.call(self.context, method, whole, headers, **options)

    def _read(self, data: Any) -> Request:
        return Request(int(data["number"]), str(data["html_url"]), str(data["title"]), str(data.get("body") or ""))


class GitLab(NamedTuple):
    """The REST interface of GitLab."""

    context: Context
    place: Place

    def find(self, head: str, base: str) -> Request | None:
        asked = {"state": "opened", "source_branch": head, "target_branch": base}
        for each in self._call("GET", "", params=asked):
            if each["source_branch"] == head and each["target_branch"] == base:
                return self._read(each)
        return None

    def open(self, wanted: Wanted) -> Request:
        data = {"source_branch": wanted.head, "target_branch": wanted.base, "description": wanted.body}
        title = f"Draft: {wanted.title}" if wanted.draft else wanted.title
        return self._read(self._call("POST", "", json={**data, "title": title}))

    def change(self, number: int, title: str, body: str) -> Request:
        return self._read(self._call("PUT", f"/{number}", json={"title": title, "description": body}))

    def close(self, number: int) -> None:
        self._call("PUT", f"/{number}", json={"state_event": "close"})

    def _call(self, method: str, path: str, **options: Any) -> Any:
        project = self.place.repository.replace("/", "%2F")
        whole = f"/projects/{project}/merge_requests{path}"
        return self.place.call(self.context, method, whole, {"PRIVATE-TOKEN": self.place.token}, **options)

    def _read(self, data: Any) -> Request:
        return Request(int(data["iid"]), str(data["web_url"]), str(data["title"]), str(data.get("description") or ""))
