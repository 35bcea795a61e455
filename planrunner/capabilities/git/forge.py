"""``git.pull_request``: requests to merge on GitHub, GitLab and Gitea, by their REST interfaces."""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import unified_diff
from typing import Annotated, Any, NamedTuple

import httpx2

from planrunner.capabilities.contract import Context, Doc, Failure, Preview, capability
from planrunner.capabilities.git.command import checked_reference, shown
from planrunner.capabilities.git.repository import Record, head_of, looking, open_repository, slot, taking_back
from planrunner.capabilities.git.transport import admitted, must_not_be_overheard, parsed, secret_of
from planrunner.capabilities.http.client import client, refusal


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


class Dialect(NamedTuple):
    """How one kind of forge names things: the ``path`` of the requests of a repository, the header with the token, the
    method of a change, the fields of a request, and what closes it."""

    path: str
    token: tuple[str, str]
    change: str
    number: str
    url: str
    text: str
    closed: dict[str, str]


_GITHUB = Dialect(
    "/repos/{}/pulls", ("Authorization", "Bearer {}"), "PATCH", "number", "html_url", "body", {"state": "closed"}
)
DIALECTS = {
    "github": _GITHUB,
    "gitea": _GITHUB._replace(token=("Authorization", "token {}")),
    "gitlab": Dialect(
        "/projects/{}/merge_requests",
        ("PRIVATE-TOKEN", "{}"),
        "PUT",
        "iid",
        "web_url",
        "description",
        {"state_event": "close"},
    ),
}


class Forge(NamedTuple):
    """One repository on a forge: the URL of its REST interface, the name of the repository and the token."""

    context: Context
    kind: str
    url: str
    repository: str
    token: str

    def find(self, head: str, base: str) -> Request | None:
        """The open request of the two branches."""
        for data in self._open_requests(head, base):
            branches = (
                (data["source_branch"], data["target_branch"])
                if self.kind == "gitlab"
                else (data["head"]["ref"], data["base"]["ref"])
            )
            if branches == (head, base):
                return self._request(data)
        return None

    def _open_requests(self, head: str, base: str) -> Iterator[Any]:
        if self.kind == "gitlab":
            yield from self._call("GET", params={"state": "opened", "source_branch": head, "target_branch": base})
        elif self.kind == "github":
            owner = self.repository.partition("/")[0]
            yield from self._call("GET", params={"state": "open", "head": f"{owner}:{head}", "base": base})
        else:
            seen: set[int] = set()
            for page in range(1, 101):  # the server may give fewer at once than are asked for
                requests = self._call("GET", params={"state": "open", "limit": 50, "page": page})
                yield from requests
                numbers = {each["number"] for each in requests}
                if numbers <= seen:
                    break
                seen |= numbers

    def open(self, wanted: Wanted) -> Request:
        """Open a request; GitHub alone marks a draft by anything but its title."""
        if self.kind == "gitlab":
            data: dict[str, Any] = {"source_branch": wanted.head, "target_branch": wanted.base}
        else:
            data = {"head": wanted.head, "base": wanted.base}
        title = {"gitlab": "Draft: ", "gitea": "WIP: "}.get(self.kind, "") * wanted.draft + wanted.title
        data |= {"title": title, DIALECTS[self.kind].text: wanted.body}
        if self.kind == "github":
            data["draft"] = wanted.draft
        return self._request(self._call("POST", json=data))

    def change(self, number: int, title: str, body: str) -> Request:
        dialect = DIALECTS[self.kind]
        return self._request(self._call(dialect.change, f"/{number}", json={"title": title, dialect.text: body}))

    def close(self, number: int) -> None:
        dialect = DIALECTS[self.kind]
        self._call(dialect.change, f"/{number}", json=dialect.closed)

    def _request(self, data: Any) -> Request:
        dialect = DIALECTS[self.kind]
        text = str(data.get(dialect.text) or "")
        return Request(int(data[dialect.number]), str(data[dialect.url]), str(data["title"]), text)

    def _call(self, method: str, below: str = "", **options: Any) -> Any:
        """Ask the forge; gives the JSON of its answer. Raises Failure: denied, transient or logic."""
        dialect = DIALECTS[self.kind]
        name, value = dialect.token
        accept = "application/vnd.github+json" if self.kind == "github" else "application/json"
        headers = {"Accept": accept, name: value.format(self.token)}
        repository = self.repository.replace("/", "%2F") if self.kind == "gitlab" else self.repository
        path = dialect.path.format(repository) + below
        try:
            with client(self.context, timeout=30.0, follow_redirects=False) as http:
                answer = http.request(method, self.url.rstrip("/") + path, headers=headers, **options)
        except httpx2.HTTPError as error:
            raise refusal(error) or Failure(f"{self.url} does not answer: {error}", "transient") from None
        if answer.is_success:
            try:
                return answer.json()
            except ValueError:
                raise Failure(f"{method} {path}: the answer is not JSON") from None
        code = answer.status_code
        kind = "denied" if code in (401, 403) else "transient" if code == 429 or code >= 500 else "logic"
        raise Failure(f"{method} {path}: {code} {shown(answer.content[:300])}", kind)


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
    """The forge of planrunner.yaml, of a repository that is named or that of the remote `origin`. Raises Failure where
    no forge or token is set, where its kind is unknown, and (policy) where the token would be sent to the world without
    encryption."""
    project = context.settings("forge")
    kind = project.get("kind", "")
    name = repository or project.get("repository", "")
    if not name:
        origin = open_repository(context).get("remote.origin.url")
        name = re.sub(r"^[a-z+]+://[^/]+/|^[^/:]+:", "", origin).removesuffix(".git").strip("/")
    if not _REPOSITORY.fullmatch(name):
        raise Failure(f"{name!r} is not a repository on a forge: set `forge: {{repository: owner/name}}`")
    token = ""
    if project.get("credential"):
        token = context.credential(project["credential"])
    elif project.get("token"):
        token = secret_of(context, project["token"])
    url = project.get("url") or _URLS.get(kind, "")
    if kind not in DIALECTS or not url:
        kinds = "github, gitlab, gitea"
        raise Failure(f"planrunner.yaml names no forge: set `forge: {{kind: …, url: …, token: …}}` ({kinds})")
    if not token:
        raise Failure("planrunner.yaml names no token: set `forge: {credential: ID}`, or `forge: {token: VARIABLE}`")
    address = parsed(url)
    if address.scheme not in ("http", "https"):
        raise Failure(f"`forge: {{url: …}}` takes an address of https, found {address.scheme}", rule="git.protocol")
    if address.scheme == "http":
        must_not_be_overheard(admitted(context, address.host, address.port), address.origin)
    return Forge(context, kind, url, name, token)


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
    if now is None or (was is not None and (now.title, now.body.strip()) == (was.title, was.body.strip())):
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
    preconditions=("program git", "forge"),
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
