"""Downloads: streamed to a file, checked, and put in place as a whole; and taken back."""

from __future__ import annotations

import hashlib
import json
import time
from typing import Annotated, Any, NamedTuple, Unpack

from planrunner.capabilities.contract import Context, Doc, Failure, Preview, capability
from planrunner.capabilities.files.acting import kept
from planrunner.capabilities.files.naming import artifact_name
from planrunner.capabilities.files.standing import Standing, standing_of
from planrunner.capabilities.http.asking import Ask, asked, size_of
from planrunner.capabilities.http.inputs import Fetching, Url
from planrunner.capabilities.http.partial import Partial
from planrunner.capabilities.http.placing import clean, put, standing
from planrunner.capabilities.http.previewing import call_of, previewed
from planrunner.capabilities.http.ranges import Wanted, read_to_end
from planrunner.capabilities.http.received import name_of
from planrunner.capabilities.http.sending import opened
from planrunner.capabilities.http.trying import persist


class Downloaded(NamedTuple):
    """What a download gives."""

    path: Annotated[str, Doc("file inside the working directory; empty where it is an artifact only")]
    size: Annotated[int, Doc("bytes")]
    sha256: Annotated[str, Doc("digest")]
    url: Annotated[str, Doc("address that was asked, without its query")]
    changed: Annotated[bool, Doc("false where the same file stood at the path already")]
    resumed: Annotated[int, Doc("bytes that were there from an earlier try and not sent again")]
    attempts: Annotated[int, Doc("number of tries; 0 where the file was there already")]
    elapsed: Annotated[float, Doc("seconds")]
    artifact: Annotated[dict[str, Any] | None, Doc("record of the artifact, where it is kept as one")]


def _preview(context: Context, url: str, path: str = "", artifact: str = "", **options: Any) -> Preview:
    given = {name: value for name, value in options.items() if name in Fetching.__annotations__}
    ask = previewed(context, "GET", url, given, Fetching)
    where = path or f"the artifact `{artifact or name_of(_plain(ask))}`"
    return Preview(f"would download {_plain(ask)} to {where}", calls=(call_of(ask),))


def _capture(context: Context, url: str, path: str = "", **options: Any) -> dict[str, Any]:
    if not path:
        return {}
    found = standing(context, path)
    if found is not None and context.keep_file(path, f"before/{artifact_name(path)}")["sha256"] != found.sha256:
        raise Failure(f"{path} is being changed by somebody else", "transient")
    return {"path": path, "stood": found and found.told(), "note": _note(context)}


def _undo(context: Context, before: dict[str, Any], outputs: dict[str, Any] | None) -> dict[str, Any] | None:
    """Put back what stood at the path. What somebody changed since is left as it is, and fails."""
    if not before:
        return None
    path, stood = before["path"], standing_of(before["stood"])
    clean(context, path, before["note"])
    now = standing(context, path)
    if now == stood:
        return {"changed": False}
    ours = {(outputs or {}).get("sha256"), context.noted(f"http {before['note']}"), stood and stood.sha256}
    if now is not None and now.sha256 not in ours:
        raise Failure(f"{path} was changed since it was downloaded, so it is left as it is")
    put(context, path, stood, kept(context, stood.sha256) if stood else None, before["note"])
    return {"changed": True}


@capability(
    "http.download",
    effect="idempotent",
    risks=("reaches the network", "replaces the file that stands at the path"),
    spends=("calls",),
    preview=_preview,
    capture=_capture,
    undo=_undo,
    foreign=("url",),
    own=("path", "sha256", "artifact"),
    writes=("path",),
)
def download(
    context: Context,
    url: Url,
    path: Annotated[
        str, Doc("file to write, inside the working directory; default: an artifact instead", form="file-written")
    ] = "",
    artifact: Annotated[str, Doc("keep it as an artifact of this name, also beside the file")] = "",
    sha256: Annotated[
        str, Doc("digest it has to have; a file that has it already is not downloaded", use="digest")
    ] = "",
    size: Annotated[int | str | None, Doc("size it has to have", quantity="size")] = None,
    max_bytes: Annotated[int | str, Doc("refuse what is larger than this", quantity="size")] = "10GiB",
    **options: Unpack[Fetching],
) -> Downloaded:
    """Download a file.

    A connection that breaks off is gone on with by a range request, also in a later attempt or run, as long as the
    server says by `ETag` or `Last-Modified` that the file is the same, or `sha256` is given. The file appears at its
    path as a whole, checked, or not at all. It is kept as the server sends it: nothing is unpacked.
    """
    started = time.monotonic()
    wrong = [name for name, text in (("path", path), ("artifact", artifact)) if type(text) is not str]
    if wrong:
        raise Failure(f"`{wrong[0]}` must be text")
    digest = _digest(sha256)
    ask = _ask(context, url, dict(options))
    length = None if size is None else size_of(size, "size")
    wanted = Wanted(digest, length, size_of(max_bytes, "max_bytes"))
    there = standing(context, path) if path else None
    if there is not None and there.sha256 == wanted.sha256 and not artifact:
        return Downloaded(path, there.size, there.sha256, _plain(ask), False, 0, 0, 0.0, None)
    partial = Partial(context, json.dumps([ask.url, sorted(ask.headers.items()), dict(ask.credentials.shown)]))
    try:
        tries = _complete(context, ask, wanted, partial)
        found = Downloaded(path, partial.size, partial.digest(), _plain(ask), True, partial.resumed, tries, 0.0, None)
        found = _deliver(context, found, artifact or ("" if path else name_of(found.url)), partial)
        partial.drop()
    except Failure as failure:
        if failure.failure not in ("transient", "interrupted"):  # then there is something to go on with
            partial.drop()
        raise
    finally:
        partial.close()
    return found._replace(elapsed=round(time.monotonic() - started, 3))


def _digest(sha256: Any) -> str:
    digest = str(sha256).lower().removeprefix("sha256:")
    if digest and not (len(digest) == 64 and set(digest) <= set("0123456789abcdef")):
        raise Failure(f"`sha256` must be 64 hexadecimal digits, found {str(sha256)[:80]}")
    return digest


def _ask(context: Context, url: str, options: dict[str, Any]) -> Ask:
    ask = asked(context, "GET", url, options, Fetching)
    return ask._replace(headers={**ask.headers, "accept-encoding": "identity"})


def _plain(ask: Ask) -> str:
    return ask.url.partition("?")[0]


def _complete(context: Context, ask: Ask, wanted: Wanted, partial: Partial) -> int:
    """Get the whole file and check it; gives the number of tries. Raises Failure."""

    with opened(context, ask) as connected:

        def once(tries: int) -> int:
            read_to_end(context, ask, wanted, partial, connected)
            return tries

        tries = persist(context, ask, once)
        fault = wanted.fault(partial)
        if fault and partial.resumed:  # the beginning may have belonged to another file
            partial.begin("")
            tries += persist(context, ask, once)
            fault = wanted.fault(partial)
    if fault:
        outputs = {"size": partial.size, "sha256": partial.digest()}
        raise Failure(f"{ask.shown}: {fault}", "logic", outputs)
    return tries


def _deliver(context: Context, found: Downloaded, name: str, partial: Partial) -> Downloaded:
    if name:
        found = found._replace(artifact=context.keep_file(partial.path, name))
    if not found.path:
        return found
    there = standing(context, found.path)
    if there is not None and there.sha256 == found.sha256:
        return found._replace(changed=False)
    context.note(f"http {_note(context)}", found.sha256)
    wanted = Standing("file", there.mode if there else 0o644, found.size, found.sha256)
    put(context, found.path, wanted, partial.parts, _note(context))
    return found


def _note(context: Context) -> str:
    """Name of the note that tells an undo what was written where nobody saw the end."""
    return hashlib.sha256((context.call.once or context.call.key).encode()).hexdigest()[:32]
