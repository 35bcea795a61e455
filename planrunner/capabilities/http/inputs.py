"""The inputs that the capabilities share, and their outputs."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple, TypedDict

from planrunner.capabilities.contract import Doc

Url = Annotated[str, Doc("address, http or https, without credentials", form="http-address")]
_Span = Annotated[int | float | str, Doc("", "duration")]
Code = Annotated[int | str, Doc("", form="http-status")]


class Keys(TypedDict, total=False):
    """Where credentials are found."""

    credential: str
    bearer_env: str
    basic_env: str
    header: str
    header_env: str


class Spans(TypedDict, total=False):
    """The most time for each part of a request."""

    connect: _Span
    read: _Span
    write: _Span
    total: _Span


class Tries(TypedDict, total=False):
    """How often and how soon to try again."""

    times: int
    delay: _Span
    max_delay: _Span


Query = Annotated[dict[str, Any], Doc("parameters added to the address; a list repeats its name")]
Headers = Annotated[dict[str, Any], Doc("headers to send; they stand in the journal, so no secrets")]
Auth = Annotated[
    Keys,
    Doc(
        "`credential: ID`, one that the task declares under `secrets`, as a bearer token, or in the header that "
        "`header: X-Api-Key` names; or by the name of an environment variable: `bearer_env: NAME`, `basic_env: NAME` "
        "(`user:password`) or `header` with `header_env: NAME`; sent to the origin of the address only"
    ),
]
Timeout = Annotated[
    _Span | Spans, Doc("for each part, or a mapping of `connect` (10s), `read` (30s), `write` (30s) and `total`")
]
Follow = Annotated[bool, Doc("go where the answer points, ten times at most; default: true")]
Status = Annotated[
    Code | list[Code], Doc("status of a good answer: 201, `2xx`, `200-299` or a list of these; default: 2xx")
]
Fitting = Annotated[Any, Doc("JSON Schema that the answer has to fit")]
Limit = Annotated[int | str, Doc("refuse an answer larger than this, unpacked; default: 16MiB", "size")]
Retries = Annotated[
    int | Tries,
    Doc(
        "further attempts after a fault that may pass, where `retry` of the task gives none, or a mapping of `times`, "
        "`delay` and `max_delay`; default: 2. Only where a repetition does no harm: methods that are idempotent, or "
        "with an idempotency key"
    ),
]


class Asking(TypedDict, total=False):
    """What everything takes that asks."""

    query: Query
    headers: Headers
    auth: Auth
    timeout: Timeout
    follow_redirects: Follow


class Fetching(Asking, total=False):
    """What a download takes."""

    retries: Retries


class Polling(Asking, total=False):
    """What is asked again and again."""

    expect_schema: Fitting
    max_bytes: Limit


class Paging(Asking, total=False):
    """What is asked page by page."""

    expect_status: Status
    expect_schema: Fitting
    max_bytes: Limit
    retries: Retries


class Reading(Asking, total=False):
    """What a single request takes."""

    expect_status: Status
    expect_schema: Fitting
    max_bytes: Limit
    retries: Retries
    save: Annotated[str, Doc("keep the answer as an artifact of this name instead of in `text` and `json`")]


_Sent = Annotated[str, Doc("", form="file-read")]


class Upload(TypedDict, total=False):
    """A file that is sent under another name or type."""

    path: _Sent
    name: str
    type: str


class Content(TypedDict, total=False):
    """What a request may carry: one of these (`files` goes with `form`)."""

    json: Annotated[Any, Doc("data to send as JSON")]
    form: Annotated[dict[str, Any], Doc("fields of a form")]
    files: Annotated[
        dict[str, _Sent | Upload],
        Doc("files of a multipart form by field: a path inside the working directory, or `path`, `name` and `type`"),
    ]
    body: Annotated[str, Doc("text to send as it is")]
    body_file: Annotated[str, Doc("file inside the working directory to send as it is", form="file-read")]


class Once(TypedDict, total=False):
    """How a request is known to be the same one when it comes again."""

    idempotent: Annotated[
        bool, Doc("send an idempotency key, the same for all attempts of the task, so that the request may be repeated")
    ]
    idempotency_key: Annotated[str, Doc("the key to send; default with `idempotent`: that of the task")]
    idempotency_header: Annotated[str, Doc("header for the key; default: Idempotency-Key")]


class Sending(Reading, Content, total=False):
    """A request with content, of a method that may be repeated anyway."""


class Creating(Reading, Content, Once, total=False):
    """A request with content that takes effect each time it comes."""


class Answer(NamedTuple):
    """What every request gives."""

    status: Annotated[int, Doc("status code")]
    headers: Annotated[dict[str, str], Doc("headers in lower case, without cookies and credentials")]
    json: Annotated[Any, Doc("the data, where the answer is JSON")]
    text: Annotated[str, Doc("the answer as text, up to 256 KiB; what is larger or no text becomes an artifact")]
    url: Annotated[str, Doc("address that answered; after a redirect to another origin without its query")]
    elapsed: Annotated[float, Doc("seconds from the request to the end of the answer", form="seconds")]
    attempts: Annotated[int, Doc("number of the attempt that was answered")]
    size: Annotated[int, Doc("bytes of the answer, unpacked", form="bytes")]
    sha256: Annotated[str, Doc("digest of the answer, unpacked")]
    artifact: Annotated[dict[str, Any] | None, Doc("record of the artifact, where the answer was kept as one")]
    json_problem: Annotated[str, Doc("why `json` is null though the answer says that it is JSON; else empty")] = ""

    def brief(self) -> dict[str, Any]:
        """As outputs for a failure: without what is too large for a journal."""
        outputs = self._asdict()
        return outputs if self.size <= INLINE else {**outputs, "json": None, "text": ""}


FOREIGN = ("headers", "json", "text", "url", "artifact", "json_problem")
OWN = ("sha256", "artifact.sha256", "artifact.size", "artifact.name")
SHAPED = {"json": "expect_schema"}
"""Which of them the other side wrote, which are our own, and which fits a schema."""

INLINE = 1 << 18
"""Bytes of an answer that stand in the outputs; what is larger becomes an artifact."""
