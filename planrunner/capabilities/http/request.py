"""A request: read from the inputs of a task, checked before anything is sent, and shown with its secrets masked."""

from __future__ import annotations

import base64
import json
import mimetypes
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from shlex import quote
from typing import Any, NamedTuple

import httpx2

from planrunner.capabilities.contract import Context, Failure, Preview, seconds
from planrunner.capabilities.contract import size as bytes_of
from planrunner.capabilities.files.scope import Scope, scope_in
from planrunner.capabilities.http.headers import header_name, is_line, is_secret
from planrunner.capabilities.http.inputs import INLINE, Creating
from planrunner.capabilities.jsonschema import require_schema
from planrunner.files.beneath import open_inside
from planrunner.frozen import EMPTY
from planrunner.jsontext import shown
from planrunner.plan.http_forms import parse_status
from planrunner.redaction import Redactor

PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Status codes of faults that may pass."""


class Expected(NamedTuple):
    """Ranges of good status codes, first and last, and the schema (None: any data)."""

    ranges: tuple[tuple[int, int], ...]
    schema: Any = None

    def good(self, status: int) -> bool:
        return any(first <= status <= last for first, last in self.ranges)


def expected_of(status: Any, schema: Any) -> Expected:
    """Read `expect_status` and `expect_schema`."""
    if schema is not None:
        require_schema(schema, "expect_schema")
    ranges = []
    for value in ["2xx"] if status is None else status if isinstance(status, list) else [status]:
        codes = parse_status(value)
        if codes is None:
            raise Failure(f"`expect_status` must be a status such as 200, `2xx` or `200-299`, found {shown(value)}")
        ranges.append(codes)
    return Expected(tuple(ranges), schema)


MASK = "***"
_WAYS = "`credential`, `bearer_env`, `basic_env`, or `header` with `credential` or `header_env`"
_SHORTEST = 4
"""Characters of the shortest text that is masked in an answer."""


class Unset(Failure):
    """The variable of the credentials is not set."""


class Credentials(NamedTuple):
    """Headers to send, how they are shown, and what keeps them out of an answer, should the other side repeat them."""

    headers: Mapping[str, str] = EMPTY
    shown: Mapping[str, str] = EMPTY
    redactor: Redactor | None = None

    def masked(self, text: str) -> str:
        """The text without the secrets."""
        return text if self.redactor is None else self.redactor.text(text)


def credentials_of(context: Context, auth: Any) -> Credentials:
    """Read the input `auth`. Raises Failure where it cannot be used, or what it names is not there."""
    if auth is None or auth == {}:
        return Credentials()
    if not isinstance(auth, Mapping):
        raise Failure(f"`auth` must be {_WAYS}")
    ways = sorted(auth)
    if ways == ["bearer_env"]:
        return _made("authorization", "Bearer ", _line(context, auth["bearer_env"]))
    if ways == ["basic_env"]:
        pair = _variable(context, auth["basic_env"])
        context.conceal(str(auth["basic_env"]), pair.partition(":")[2])
        if ":" not in pair:
            raise Failure(f"the environment variable `{auth['basic_env']}` must hold `user:password`")
        return _made("authorization", "Basic ", base64.b64encode(pair.encode()).decode(), pair, pair.partition(":")[2])
    if ways == ["header", "header_env"]:
        return _made(header_name(auth["header"]), "", _line(context, auth["header_env"]))
    if ways in (["credential"], ["credential", "header"]):
        name = str(auth["credential"])
        header = auth.get("header")
        value = context.secret(name)
        if not is_line(value):
            raise Failure(f"the credential `{name}` is not one line of ASCII text", rule="secret.line")
        made = _made("authorization", "Bearer ", value) if header is None else _made(header_name(header), "", value)
        return made._replace(redactor=None)
    raise Failure(f"`auth` must be {_WAYS}, found {', '.join(f'`{way}`' for way in ways)}")


def shown_of(context: Context, auth: Any) -> Credentials:
    """The credentials as they are shown; the variable need not be set, and if it is, its value is masked elsewhere."""
    if isinstance(auth, Mapping) and "credential" in auth:
        return _made(header_name(auth["header"]), "", "") if "header" in auth else _made("authorization", "Bearer ", "")
    try:
        return credentials_of(context, auth)
    except Unset:
        if "header" in auth:
            return _made(header_name(auth["header"]), "", "")
        return _made("authorization", "Bearer " if "bearer_env" in auth else "Basic ", "")


def _made(header: str, before: str, secret: str, *more: str) -> Credentials:
    redactor = Redactor()
    for text in (secret, *more):
        if len(text) >= _SHORTEST:
            redactor.add("", text.encode())
    return Credentials({header: before + secret}, {header: before + MASK}, redactor)


def _variable(context: Context, name: Any) -> str:
    value = context.call.env.get(str(name)) or os.environ.get(str(name), "")
    if not value.strip():
        raise Unset(f"the environment variable `{name}`, which `auth` names, is not set")
    context.conceal(str(name), value.strip())
    return value.strip()


def _line(context: Context, name: Any) -> str:
    value = _variable(context, name)
    if not is_line(value):
        raise Failure(f"the environment variable `{name}`, which `auth` names, is not one line of ASCII text")
    return value


_CHUNK = 1 << 16


class Upload(NamedTuple):
    """A file to send; opened each time the request is."""

    path: str
    name: str
    type: str
    size: int


class Content(NamedTuple):
    """At most one of its kinds is set; ``form`` and ``files`` go together."""

    directory: str = ""
    data: bytes | None = None
    type: str = ""
    form: Mapping[str, Any] | None = None
    files: Mapping[str, Upload] = EMPTY
    file: Upload | None = None
    scope: Scope | None = None

    def arguments(self, opened: ExitStack) -> dict[str, Any]:
        """What ``httpx2.Client.build_request`` takes for it; ``opened`` closes the files afterwards."""
        if self.file is not None:
            content = Streamed(self.directory, self.file, self.scope)
            return {"content": content, "headers": {"content-length": str(self.file.size), "content-type": self.type}}
        if self.data is not None:
            return {"content": self.data, "headers": {"content-type": self.type}}
        if self.files:
            files = {
                field: (
                    upload.name,
                    opened.enter_context(open_inside(self.directory, upload.path, self.scope)),
                    upload.type,
                )
                for field, upload in self.files.items()
            }
            return {"data": dict(self.form or {}), "files": files}
        return {"data": dict(self.form)} if self.form is not None else {}


class Streamed:
    """The bytes of a file, from the start each time they are asked for."""

    def __init__(self, directory: str, upload: Upload, scope: Scope | None) -> None:
        self._directory = directory
        self._scope = scope
        self._upload = upload

    def __iter__(self) -> Iterator[bytes]:
        left = self._upload.size
        with open_inside(self._directory, self._upload.path, self._scope) as opened:
            while left and (part := opened.read(min(_CHUNK, left))):
                left -= len(part)
                yield part
        if left:
            raise Failure(f"{self._upload.path} became shorter while it was sent")


def content_of(context: Context, given: Mapping[str, Any]) -> Content:
    """Read the inputs of which a request may have one. Raises Failure for more, and for files it cannot have."""
    kinds = [kind for kind in ("json", "form", "files", "body", "body_file") if kind in given]
    if len(kinds) > 1 and kinds != ["form", "files"]:
        given_kinds = " and ".join(f"`{kind}`" for kind in kinds)
        raise Failure(f"expected one of `json`, `form` (with `files`), `body` and `body_file`, found {given_kinds}")
    directory, scope = context.call.directory, scope_in(context)
    if "json" in given:
        try:
            data = json.dumps(given["json"], ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
        except (TypeError, ValueError) as error:
            raise Failure(f"`json` cannot be sent: {error}") from None
        return Content(data=data, type="application/json")
    if "body" in given:
        return Content(data=str(given["body"]).encode(), type="text/plain; charset=utf-8")
    if "body_file" in given:
        file = _upload(directory, given["body_file"], scope)
        return Content(directory, type="application/octet-stream", file=file, scope=scope)
    form = given.get("form")
    if form is not None:
        form = plain_values(form, "form")
    files = given.get("files", {})
    if not isinstance(files, Mapping):
        raise Failure(f"`files` must be a mapping of fields to paths, found {shown(files)}")
    uploads = {str(field): _upload(directory, item, scope) for field, item in files.items()}
    return Content(directory, form=form, files=uploads, scope=scope)


def plain_values(values: Any, name: str) -> dict[str, Any]:
    """Texts, numbers, booleans, and lists of these: what a query or a form can say. Raises Failure for others."""
    if not isinstance(values, Mapping):
        raise Failure(f"`{name}` must be a mapping, found {shown(values)}")
    for key, value in values.items():
        listed = value if isinstance(value, (list, tuple)) else [value]
        if any(one is not None and not isinstance(one, (str, int, float)) for one in listed):
            raise Failure(f"`{name}.{key}` must be text, a number, a boolean or a list of these")
    return {str(key): value for key, value in values.items()}


def _upload(directory: str, given: Any, scope: Scope | None) -> Upload:
    wanted = {"path": given} if isinstance(given, str) else given
    if not isinstance(wanted, Mapping) or "path" not in wanted or wanted.keys() - {"path", "name", "type"}:
        raise Failure(f"a file to send is a path or a mapping of `path`, `name` and `type`, found {shown(given)}")
    path = str(wanted["path"])
    with open_inside(directory, path, scope) as opened:
        size = os.fstat(opened.fileno()).st_size
    name = str(wanted.get("name", os.path.basename(path)))
    return Upload(
        path, name, str(wanted.get("type") or mimetypes.guess_type(name)[0] or "application/octet-stream"), size
    )


IDEMPOTENT = frozenset({"GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"})


class Ask(NamedTuple):
    """One request, ready to be sent. ``retry`` is the policy for other attempts (empty: none), as in ``Failure``;
    ``repeatable`` says that they do no harm even where this one took effect."""

    method: str
    url: str
    headers: Mapping[str, str]
    content: Content
    credentials: Credentials
    expected: Expected
    retry: Mapping[str, Any]
    repeatable: bool
    timeout: Mapping[str, float | None] | None
    follow: bool
    limit: int
    save: str
    inline: int = INLINE
    """Bytes of the answer that are given as data and text rather than kept as an artifact."""

    @property
    def shown(self) -> str:
        """Method and address for messages and the log; a query may hold secrets."""
        return f"{self.method} {self.url.partition('?')[0]}"


def asked(context: Context, method: str, url: str, options: Mapping[str, Any], known: Any = Creating) -> Ask:
    """Read the inputs. Raises Failure for what does not make a request."""
    if unknown := sorted(options.keys() - known.__annotations__.keys()):
        raise Failure(f"unknown input `{unknown[0]}`")
    given = {name: value for name, value in options.items() if value is not None}
    if not isinstance(method, str):
        raise Failure(f"`method` must be text, found {shown(method)}")
    if not (method.isascii() and method.isalpha() and len(method) <= 20) or method.upper() == "CONNECT":
        raise Failure(f"`{method[:30]}` is not a method that can be sent")
    spelled = method.upper()
    credentials = credentials_of(context, given.get("auth"))
    headers = _headers(given.get("headers"))
    key = _key(context, given)
    if key:
        headers[key[0]] = key[1]
    return Ask(
        method=spelled,
        url=_url(url, given.get("query")),
        headers=headers,
        content=content_of(context, given),
        credentials=credentials,
        expected=expected_of(given.get("expect_status"), given.get("expect_schema")),
        retry=retry_of(given.get("retries")),
        repeatable=spelled in IDEMPOTENT or bool(key),
        timeout=timeout_of(given.get("timeout")),
        follow=_flag(given, "follow_redirects", True),
        limit=size_of(given.get("max_bytes", "16MiB"), "max_bytes"),
        save=_name(given.get("save", ""), "save"),
    )


def size_of(value: Any, name: str) -> int:
    """Bytes out of an input."""
    try:
        return bytes_of(value)
    except ValueError as error:
        raise Failure(f"`{name}`: {error}") from None


def seconds_of(value: Any, name: str) -> float:
    """Seconds out of an input."""
    try:
        return seconds(value)
    except ValueError as error:
        raise Failure(f"`{name}`: {error}") from None


def timeout_of(value: Any) -> dict[str, float | None] | None:
    """Seconds of each part, or None where nothing is said."""
    if value is None:
        return None
    if not isinstance(value, Mapping):
        return dict.fromkeys(("connect", "read", "write"), seconds_of(value, "timeout"))
    if strange := sorted(value.keys() - {"connect", "read", "write", "total"}):
        raise Failure(f"`timeout` has the part `{strange[0]}`, expected connect, read, write or total")
    return {part: seconds_of(item, f"timeout.{part}") for part, item in value.items()}


def retry_of(value: Any) -> dict[str, Any]:
    """The policy for other attempts, out of the input `retries`."""
    given = dict(value) if isinstance(value, Mapping) else {} if value is None else {"times": value}
    if strange := sorted(given.keys() - {"times", "delay", "max_delay"}):
        raise Failure(f"`retries` has the part `{strange[0]}`, expected times, delay or max_delay")
    times = given.get("times", 2)
    if isinstance(times, bool) or not isinstance(times, int) or not 0 <= times <= 100:
        raise Failure(f"`retries` must be a number from 0 to 100, found {shown(times)}")
    delay = seconds_of(given.get("delay", 0.5), "retries.delay")
    most = seconds_of(given.get("max_delay", 60), "retries.max_delay")
    return {"attempts": times + 1, "delay": delay, "max_delay": most} if times else {}


def _name(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise Failure(f"`{name}` must be text, the name of an artifact, found {shown(value)}")
    return value


def _flag(given: Mapping[str, Any], name: str, default: bool) -> bool:
    value = given.get(name, default)
    if not isinstance(value, bool):
        raise Failure(f"`{name}` must be true or false, found {shown(value)}")
    return value


def _url(url: Any, query: Any) -> str:
    if not isinstance(url, str):
        raise Failure(f"`url` must be text, found {str(url)[:200]}")
    try:
        parsed = httpx2.URL(url)
    except (httpx2.InvalidURL, TypeError, ValueError) as error:
        raise Failure(f"`{_without_password(url)}` is not an address: {error}") from None
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise Failure(f"`{_without_password(url)}` is not an http(s) URL")
    if parsed.userinfo:
        raise Failure("the address holds credentials, which would stand in the journal: give them by `auth`")
    if query is not None:
        parsed = parsed.copy_merge_params(plain_values(query, "query"))
    return str(parsed.copy_with(fragment=None))


def _without_password(url: str) -> str:
    """An address for a message; what stands before an @ may be a password."""
    before, at, after = url.rpartition("@")
    return (f"{before.partition('://')[0]}://***@{after}" if at else url)[:200]


def _headers(given: Any) -> dict[str, str]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise Failure(f"`headers` must be a mapping, found {shown(given)}")
    for name, value in given.items():
        if isinstance(value, (dict, list)) or not is_line(f"{name}{value}"):
            raise Failure(f"`headers.{name}` must be one line of ASCII text")
    return {header_name(name): str(value) for name, value in given.items()}


def _key(context: Context, given: Mapping[str, Any]) -> tuple[str, str] | None:
    """Header and value of the idempotency key, where one is wanted."""
    key = str(given.get("idempotency_key", ""))
    if not key and not _flag(given, "idempotent", False):
        return None
    key = key or context.call.once or context.call.key
    if not is_line(key):
        raise Failure("`idempotency_key` must be one line of ASCII text")
    return header_name(given.get("idempotency_header", "Idempotency-Key")), key


_LONGEST = 4096


def previewed(context: Context, method: str, url: str, options: Mapping[str, Any], known: Any = Creating) -> Ask:
    """What would be asked; credentials need not be there for it."""
    ask = asked(context, method, url, {name: value for name, value in options.items() if name != "auth"}, known)
    return ask._replace(credentials=shown_of(context, options.get("auth")))


def preview_of(ask: Ask) -> Preview:
    """The exact request."""
    return Preview(f"would send {ask.shown}", calls=(call_of(ask),))


def call_of(ask: Ask) -> str:
    """The request as a command of curl, which people can read and, with the secrets filled in, run."""
    words = ["curl", *([] if ask.method == "GET" else ["-X", ask.method]), ask.url]
    headers = [f"{name}: {MASK if is_secret(name) else value}" for name, value in ask.headers.items()]
    headers += [f"{name}: {value}" for name, value in ask.credentials.shown.items()]
    if ask.content.type:
        headers.insert(0, f"content-type: {ask.content.type}")
    for header in headers:
        words += ["-H", header]
    words += _content_words(ask.content)
    return ask.credentials.masked(" ".join(quote(word) for word in words))


def _content_words(content: Content) -> list[str]:
    if content.data is not None:
        return ["--data-binary", _cut(content.data.decode("utf-8", "replace"))]
    if content.file is not None:
        return ["--data-binary", f"@{content.file.path}"]
    option = "-F" if content.files else "--data-urlencode"
    words: list[str] = []
    for name, value in (content.form or {}).items():
        for item in value if isinstance(value, list) else [value]:
            text = item if isinstance(item, str) else json.dumps(item, ensure_ascii=False)
            words += [option, f"{name}={text}"]
    for field, item in content.files.items():
        words += ["-F", f"{field}=@{item.path};filename={item.name};type={item.type}"]
    return words


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}… and {len(text) - _LONGEST} more characters"
