"""``git.pull_request``: requests to merge on GitHub, GitLab and Gitea, by their REST interfaces."""

from __future__ import annotations

import re
from difflib import unified_diff
from typing import Annotated, Any, NamedTuple, Protocol

import httpx2

from planrunner.capabilities.contract import Context, Doc, Failure, Preview, capability
from planrunner.capabilities.git.command import checked_reference, shown
from planrunner.capabilities.git.remote import admitted, must_not_be_overheard, parsed, secret_of
from planrunner.capabilities.git.repository import Record, head_of, looking, open_repository, slot, taking_back
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
            raise Failure(f"{method} {path}: the answer is not JSON") from None
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


_REPOSITORY = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*(/[A-Za-z0-9_][A-Za-z0-9._-]*)+")
_URLS = {"github": "https://api.github.com", "gitlab": "https://gitlab.com/api/v4"}


class PullRequest(NamedTuple):
    number: Annotated[int, Doc("number on the forge")]
    url: Annotated[str, Doc("page of the request")]
    created: Annotated[bool, Doc("false where one was open already")]
    changed: Annotated[bool, Doc("whether title or text were set")]
    head: Annotated[str, Doc("branch to merge")]
    base: Annotated[str, Doc("branch to merge into")]
    title: Annotated[str, Doc("as the forge has it")]


def _forge(context: Context, repository: str) -> Forge:
    """The forge of planrunner.yaml. Raises Failure where nothing is set, or where its kind is unknown."""
    project = context.settings("forge")
    kind = project.get("kind", "")
    name = repository or project.get("repository", "") or _guessed(context)
    if not _REPOSITORY.fullmatch(name):
        raise Failure(f"{name!r} is not a repository on a forge: set `forge: {{repository: owner/name}}`")
    secret = _token(context, project)
    url = project.get("url") or _URLS.get(kind, "")
    if kind not in KINDS or not url:
        raise Failure(
            f"planrunner.yaml names no forge: set `forge: {{kind: …, url: …, token: …}}` ({', '.join(KINDS)})"
        )
    if not secret:
        raise Failure("planrunner.yaml names no token: set `forge: {credential: ID}`, or `forge: {token: VARIABLE}`")
    _must_be_safe(context, url)
    place = Place(url, name, secret)
    if kind == "gitlab":
        return GitLab(context, place)
    return GitHub(context, place) if kind == "github" else Gitea(context, place)


def _token(context: Context, project: dict[str, Any]) -> str:
    """The token of the forge, of a credential or out of a variable; empty where none is named. Raises Failure."""
    if project.get("credential"):
        return context.credential(project["credential"])
    return secret_of(context, project["token"]) if project.get("token") else ""


def _must_be_safe(context: Context, url: str) -> None:
    """Raises Failure (policy) where the token would be sent to the world without encryption."""
    address = parsed(url)
    if address.scheme not in ("http", "https"):
        raise Failure(
            f"`forge: {{url: …}}` takes an address of https, found {address.scheme}", "policy", rule="git.protocol"
        )
    if address.scheme == "http":
        must_not_be_overheard(admitted(context, address.host, address.port), address.origin)


def _guessed(context: Context) -> str:
    """Owner and name out of the address of the remote `origin`."""
    url = open_repository(context).get("remote.origin.url")
    return re.sub(r"^[a-z+]+://[^/]+/|^[^/:]+:", "", url).removesuffix(".git").strip("/")


def _wanted(context: Context, inputs: dict[str, Any]) -> Wanted:
    title = str(inputs["title"]).strip()
    if not title or any(ord(char) < 32 for char in title):
        raise Failure("`title` takes one line of text")
    head = inputs.get("head") or head_of(open_repository(context)).name
    if not head:
        raise Failure("HEAD is on no branch: say which with `head`")
    base = checked_reference(inputs.get("base", "main"))
    return Wanted(checked_reference(head), base, title, str(inputs.get("body", "")), bool(inputs.get("draft", False)))


def _preview(context: Context, **inputs: Any) -> Preview:
    wanted = _wanted(context, inputs)
    found = _forge(context, inputs.get("repository", "")).find(wanted.head, wanted.base)
    if found is None:
        return Preview(f"open a request to merge {wanted.head} into {wanted.base}: {wanted.title}", wanted.body)
    old, new = (f"{title}\n\n{body}\n".splitlines(keepends=True) for title, body in (found[2:], wanted[2:4]))
    return Preview(f"bring request {found.number} up to date: {found.url}", "".join(unified_diff(old, new)))


@looking
def _capture(context: Context, **inputs: Any) -> dict[str, Any]:
    wanted = _wanted(context, inputs)
    found = _forge(context, inputs.get("repository", "")).find(wanted.head, wanted.base)
    return {
        "slot": slot(context),
        "repository": inputs.get("repository", ""),
        "wanted": list(wanted),
        "found": list(found) if found else None,
    }


@taking_back
def _undo(context: Context, before: dict[str, Any], outputs: dict[str, Any] | None) -> bool:
    record = Record(context, before["slot"])
    noted = record.read()
    if not noted and not (outputs or {}).get("changed"):
        return False
    forge = _forge(context, before["repository"])
    wanted = Wanted(*before["wanted"])
    now = forge.find(wanted.head, wanted.base)
    found = None if noted.get("opens") else noted.get("was") or before["found"]
    was = Request(*found) if found else None
    if now is None or (was is not None and _says(now, was.title, was.body)):
        return False  # closed, merged or never opened; or as it was
    if was is not None and now.number != was.number:
        raise Failure(f"another request is open since: {now.url}", "moved")
    if not _is_said(now, wanted):
        raise Failure(f"the request was changed since: {now.url}", "moved")
    if was is not None:
        forge.change(was.number, was.title, was.body)
    else:
        forge.close(now.number)
    record.drop()
    return True


def _says(request: Request, title: str, body: str) -> bool:
    return request.title == title and request.body.strip() == body.strip()


def _is_said(request: Request, wanted: Wanted) -> bool:
    """Whether a request says what we want, a mark for drafts in its title aside."""
    title = request.title.removeprefix("Draft: ").removeprefix("WIP: ") if wanted.draft else request.title
    return title == wanted.title and request.body.strip() == wanted.body.strip()


@capability(
    "git.pull_request",
    effect="idempotent",
    risks=("others on the network are told of it",),
    spends=("calls", "rest"),
    preview=_preview,
    capture=_capture,
    undo=_undo,
    foreign=("url",),
    own=("head", "base"),
    preconditions=("program git",),
)
def pull_request(
    context: Context,
    title: Annotated[str, Doc("one line")],
    body: Annotated[str, Doc("text, in the forge's markup")] = "",
    head: Annotated[str, Doc("branch to merge, pushed already; default: the current one")] = "",
    base: Annotated[str, Doc("branch to merge into")] = "main",
    draft: Annotated[bool, Doc("not ready for review yet; only when it is opened")] = False,
    repository: Annotated[str, Doc("owner/name; default: of planrunner.yaml, else of the remote origin")] = "",
) -> PullRequest:
    """Open a request to merge a branch on GitHub, GitLab or Gitea, or bring the open one up to date.

    Which forge, and the name of the variable that holds the token, are the operator's: `forge:` in planrunner.yaml.
    Undoing closes a request that was opened, and gives one that was changed its old text back.
    """
    inputs = {"title": title, "body": body, "head": head, "base": base, "draft": draft}
    wanted, forge = _wanted(context, inputs), _forge(context, repository)
    found, record = forge.find(wanted.head, wanted.base), Record(context, slot(context))
    began = record.read().get("opens", False)
    if found is None:
        with record.holding({"wanted": list(wanted), "opens": True}, unsure=("transient",)):
            made = forge.open(wanted)
        return PullRequest(made.number, made.url, True, True, wanted.head, wanted.base, made.title)
    changed = not _is_said(found, wanted)
    if changed:
        record.write({"wanted": list(wanted), "opens": began, "was": None if began else list(found)})
        found = forge.change(found.number, title.strip(), body)
    return PullRequest(found.number, found.url, began, changed or began, wanted.head, wanted.base, found.title)
