"""``sql.query``, ``sql.execute`` and ``sql.script``: statements in one transaction; what changes data is done once."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from io import TextIOWrapper
from typing import IO, Annotated, Any, NamedTuple

from sqlalchemy import CursorResult

from planrunner.capabilities.contract import OUTPUT_LIMIT, Context, Doc, Failure, Json, Preview, capability
from planrunner.capabilities.contract import seconds as seconds_of
from planrunner.capabilities.files.scope import scope_in
from planrunner.capabilities.preconditions import require_verbatim
from planrunner.capabilities.sql.session import Database, Session, find, transaction
from planrunner.capabilities.sql.statements import (
    Bound,
    bound,
    data,
    first_word,
    in_a_line,
    lines,
    names,
    single,
    statements,
    words,
)
from planrunner.files.beneath import open_inside

_BATCH = 100
_ONLY_READS = "sql.query only reads: {} is for sql.execute"
_WRITES = frozenset("DELETE INSERT MERGE REPLACE UPDATE".split())
_READS = frozenset("EXPLAIN PRAGMA SELECT SHOW TABLE VALUES WITH".split())
"""What a query may begin with: a read-only transaction of PostgreSQL lets `COPY … TO PROGRAM` and `DO` pass."""
_STREAMED = ("SELECT", "TABLE", "VALUES", "WITH")


class Rows(NamedTuple):
    rows: Annotated[list[dict[str, Any]], Doc("each row as a map from the names of the columns")]
    columns: Annotated[list[str], Doc("names of the columns in their order")]
    row_count: Annotated[int, Doc("how many rows are given, or kept")]
    truncated: Annotated[bool, Doc("whether there are more")]


@capability(
    "sql.query",
    effect="read",
    risks=("reads a database, also over the network",),
    spends=("calls",),
    foreign=("rows",),
    own=("columns",),
    preconditions=("package sqlalchemy sql", "database database"),
)
def query(
    context: Context,
    statement: Annotated[
        str, Doc("one statement without templates; `:name` stands for a value of `params`", code="application/sql")
    ],
    params: Annotated[dict[str, Any] | None, Doc("values by name; a list fits after IN")] = None,
    database: Annotated[
        str, Doc("a name from planrunner.yaml, or sqlite:///file of the project", form="file-database")
    ] = "main",
    max_rows: Annotated[int, Doc("the most rows to give; of more, `truncated` tells")] = 1000,
    keep: Annotated[str, Doc("name of an artifact to keep all rows as, a line of JSON each")] = "",
    timeout: Annotated[str | float, Doc("the most time for the statement", quantity="duration")] = "1m",
) -> Rows:
    """Read rows from SQLite or PostgreSQL.

    The transaction is read-only by the database's own means. Decimals, dates, times and UUIDs come as text (ISO 8601),
    bytes in base64, NULL as null. Rows together may have 1 MiB; `keep` takes any number of them.
    """
    require_verbatim(context, "statement", "name a value with `:name` and hand it over in `params`")
    if type(max_rows) is not int or max_rows < 0:
        raise Failure("`max_rows` must be a number of rows, from 0 on")
    if not isinstance(statement, str):
        raise Failure("`statement` must be text, one statement; sql.execute takes a list of them")
    if params is not None and not isinstance(params, dict):
        raise Failure("`params` must be a map of values by name")
    where = find(context, database)
    one = single(statement, where.dialect)
    word = first_word(one, where.dialect)
    if word not in _READS:
        raise Failure(_ONLY_READS.format(word or "this"), rule="sql.readonly")
    call = bound(one, where.dialect, params or {})
    with transaction(context, where, limit(timeout), write=False) as session:
        result = _run(session, call, one, stream=where.dialect == "postgresql" and word in _STREAMED)
        if not keep:
            result_rows = rows_of(session, result, max_rows)
        else:  # a file without a name: it is not searched for secrets yet
            with tempfile.TemporaryFile("w+", encoding="utf-8") as file:
                result_rows = rows_of(session, result, max_rows, file)
                context.keep_open(file, keep, "jsonl")
    context.log.write(f"{result_rows.row_count} rows{', and there are more' * result_rows.truncated}\n".encode())
    return result_rows


def _run(session: Session, call: Bound, statement: str, stream: bool) -> CursorResult[Any]:
    try:
        return session.run(call, stream)
    except Failure as failure:
        wrote = sorted(_WRITES & words(statement, session.dialect)) if failure.failure == "policy" else []
        if not wrote:
            raise
        raise Failure(f"{failure}; {_ONLY_READS.format(wrote[0])}", rule="sql.readonly") from None


def limit(timeout: str | float) -> float:
    """The seconds that a statement may take; raises Failure."""
    try:
        return seconds_of(timeout)
    except ValueError as error:
        raise Failure(f"`timeout`: {error}") from None


def rows_of(session: Session, result: CursorResult[Any], most: int, file: IO[str] | None = None) -> Rows:
    """The rows of a result as maps, as many as fit, and all of them as lines of the file where one is given. Raises
    Failure where two columns have one name."""
    if not result.returns_rows:
        return Rows([], [], 0, False)
    columns = list(result.keys())
    if twice := sorted({name for name in columns if columns.count(name) > 1}):
        raise Failure(f"two columns are named `{twice[0]}`; give one another name with AS")
    rows: list[dict[str, Json]] = []
    size, count, more = 0, 0, False
    while (file is not None or not more) and (batch := session.guarded(lambda: result.fetchmany(_BATCH))):
        for values in batch:
            row = {name: data(value) for name, value in zip(columns, values, strict=True)}
            line = json.dumps(row)
            size += len(line)
            more = more or len(rows) >= most or size > OUTPUT_LIMIT
            if not more:
                rows.append(row)
            if file is not None:
                file.write(f"{line}\n")
            count += 1
    result.close()
    return Rows(rows, columns, len(rows) if file is None else count, more)


_LARGEST = 4 << 20
"""Bytes of a script."""
_MOST_ROWS = 1000
_STATEMENT = "a statement without templates, or a list, also of {statement, params}"


class Executed(NamedTuple):
    affected: Annotated[int, Doc("rows that were changed, by all statements together")]
    counts: Annotated[list[int], Doc("rows that each statement changed, or returned")]
    rows: Annotated[list[dict[str, Any]], Doc("what the last statement returned that returns rows")]
    repeated: Annotated[bool, Doc("it was done before, under the same key, and this is the result of that time")]


class Statement(NamedTuple):
    """One for the driver, and as text beside its values; ``place`` is what messages call it, empty where there is but
    one."""

    bound: Bound
    text: str
    values: str = ""
    place: str = ""


class Work(NamedTuple):
    """Statements, and where they go."""

    database: Database
    statements: list[Statement]
    seconds: float


@contextmanager
def _placed(place: str) -> Iterator[None]:
    """Whatever fails here says where."""
    try:
        yield
    except Failure as failure:
        raise Failure(
            f"{place}: {failure}" if place else str(failure), failure.failure, failure.outputs, rule=failure.rule
        ) from None


def _preview_execute(
    context: Context, statement: Any, params: Any = None, database: str = "main", key: bool = True,
    timeout: str | float = "1m",
) -> Preview:  # fmt: skip
    return _previewed(context, _given(context, statement, params, database, timeout))


def _preview_script(
    context: Context, file: str, database: str = "main", key: bool = True, timeout: str | float = "1m"
) -> Preview:
    return _previewed(context, _read(context, file, database, timeout))


_CHANGE: dict[str, Any] = {
    "irreversible": True, "risks": ("changes a database, also over the network",), "spends": ("calls",),
    "foreign": ("rows",), "own": ("counts",), "preconditions": ("package sqlalchemy sql", "database database"),
}  # fmt: skip
_Base = Annotated[str, Doc("a name from planrunner.yaml, or sqlite:///file of the project", form="file-database")]
_Key = Annotated[bool, Doc("write the task's key into `planrunner_keys`, so that it is done once")]
_Limit = Annotated[str | float, Doc("the most time for one statement", quantity="duration")]


@capability("sql.execute", effect="idempotent", preview=_preview_execute, **_CHANGE)
def execute(
    context: Context,
    statement: Annotated[str | list[Any], Doc(_STATEMENT, code="application/sql")],
    params: Annotated[
        dict[str, Any] | list[Any] | None,
        Doc("values by name, of all statements; beside a single one also a list of maps: once with each"),
    ] = None,
    database: _Base = "main",
    key: _Key = True,
    timeout: _Limit = "1m",
) -> Executed:
    """Execute statements on SQLite or PostgreSQL, all in one transaction or none.

    Values reach the database beside the statement: `:name` stands for a value of `params`. The key of the task is
    written into the table `planrunner_keys` by the same transaction. Asked again after a crash or a lost connection,
    the task finds its key and gives the result of the first time (`repeated` is true). `rows` are those of the last
    statement that returns some. A broken constraint fails with the class `constraint`.
    """
    return _done(context, _given(context, statement, params, database, timeout), key)


@capability("sql.script", effect="idempotent", preview=_preview_script, **_CHANGE)
def script(
    context: Context,
    file: Annotated[
        str, Doc("file of statements, such as a migration, below the working directory", form="file-read", use="script")
    ],
    database: _Base = "main",
    key: _Key = True,
    timeout: _Limit = "1m",
) -> Executed:
    """Execute the statements of a file on SQLite or PostgreSQL, all in one transaction or none.

    The file takes no values. Keys are used as by `sql.execute`.
    """
    return _done(context, _read(context, file, database, timeout), key)


def _given(context: Context, statement: Any, params: Any, database: str, timeout: str | float) -> Work:
    """The work of ``sql.execute``; raises Failure for what cannot be bound."""
    task = context.call.task
    written = task.inputs.get("statement") if isinstance(task.inputs, dict) else None
    if isinstance(written, list):
        texts = [entry.get("statement") if isinstance(entry, dict) else entry for entry in written]
        context = context._replace(call=context.call._replace(task=task._replace(inputs={"statement": texts})))
    require_verbatim(context, "statement", "name a value with `:name` and hand it over in `params`")
    seconds, where = limit(timeout), find(context, database)
    several = statement if isinstance(statement, list) else [{"statement": statement, "params": params}]
    common = (params or {}) if isinstance(statement, list) else {}
    if not isinstance(common, dict):
        raise Failure("`params` beside a list of statements is a map of values by name")
    prepared, unused = [], set(common)
    for number, entry in enumerate(several, 1):
        place = f"statement {number} of {len(several)}" if len(several) > 1 else ""
        with _placed(place):
            text, values = _entry(entry)
            one = single(text, where.dialect)
            shared = {name: common[name] for name in names(one, where.dialect) if name in common}
            unused -= shared.keys()
            for count, row in enumerate(values, 1):
                here = ", ".join(filter(None, (place, f"values {count} of {len(values)}" * (len(values) > 1))))
                row = shared | row
                ready = bound(one, where.dialect, row)
                shown = json.dumps(row, ensure_ascii=False, sort_keys=True) if row else ""
                prepared.append(Statement(ready, one, shown, here))
    if unused:
        raise Failure(f"no statement uses {', '.join(f'`:{name}`' for name in sorted(unused))}")
    return Work(where, prepared, seconds)


def _entry(entry: Any) -> tuple[str, list[dict[str, Any]]]:
    params = None
    if isinstance(entry, dict):
        if unknown := sorted(entry.keys() - {"statement", "params"}):
            raise Failure(f"a statement in a list has no `{unknown[0]}`; it has `statement` and `params`")
        entry, params = entry.get("statement"), entry.get("params")
    values = params if isinstance(params, list) else [params or {}]
    if not isinstance(entry, str) or not all(isinstance(row, dict) for row in values):
        raise Failure("a statement is text, and its `params` are a map or a list of maps")
    return entry, values


def _read(context: Context, file: str, database: str, timeout: str | float) -> Work:
    """The work of ``sql.script``; raises Failure for a file outside of the working directory."""
    if not isinstance(file, str):
        raise Failure("`file` must be text, a file below the working directory")
    try:
        with TextIOWrapper(open_inside(context.call.directory, file, scope_in(context)), encoding="utf-8") as opened:
            text = opened.read(_LARGEST + 1)
    except (OSError, UnicodeDecodeError) as error:
        raise Failure(f"{file} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if len(text) > _LARGEST:
        raise Failure(f"{file} is larger than {_LARGEST >> 20} MiB")
    where = find(context, database)
    with _placed(file):
        texts = statements(text, where.dialect)
    places = [f"{file}, line {line}" for line in lines(text, texts, where.dialect)]
    read = []
    for entry, place in zip(texts, places, strict=True):
        with _placed(place):
            one = single(entry, where.dialect)
            read.append(Statement(bound(one, where.dialect, {}), one, place=place))
    return Work(where, read, limit(timeout))


def _done(context: Context, work: Work, key: bool) -> Executed:
    call = context.call
    if not key and call.task.effect is None:
        said = "`key: false` needs an `effect` on the task, such as `effect: unsafe`"
        raise Failure(f"{said}: without a key a repeated attempt is not recognised")
    name = (call.once or call.key) if key else ""
    with transaction(context, work.database, work.seconds, write=True) as session:
        digest = sha256(
            json.dumps([(statement.text, statement.values) for statement in work.statements]).encode()
        ).hexdigest()
        before = done_before(session, name, digest) if name else None
        if before is not None:
            executed = Executed(**before)._replace(repeated=True)
        else:
            executed = _all(session, work)
            if name:
                write_result(session, name, executed._asdict())
    known = "was done before: " if executed.repeated else ""
    context.log.write(f"{known}{len(executed.counts)} statements, {executed.affected} rows affected\n".encode())
    return executed


def _all(session: Session, work: Work) -> Executed:
    counts, rows, affected = [], [], 0
    for statement in work.statements:
        with _placed(statement.place):
            result = session.run(statement.bound)
            changed, count = session.changed(result), max(result.rowcount, 0)
            if result.returns_rows:
                rows = rows_of(session, result, _MOST_ROWS).rows
                count = max(count, len(rows))
            changes = changed()
        affected += changes
        counts.append(max(count, changes))
    return Executed(affected, counts, rows, False)


def _previewed(context: Context, work: Work) -> Preview:
    """The statements, with their values beside them; executed and rolled back where the operator allows that."""
    where = work.database
    several = f"{len(work.statements)} statement{'s' * (len(work.statements) != 1)}"
    summary = f"{several} on {where.name} ({where.dialect}), in one transaction"
    calls = tuple(
        f"{in_a_line(statement.text, where.dialect)} {statement.values}".rstrip() for statement in work.statements
    )
    if not where.tries:
        return Preview(summary, calls=calls)
    if where.is_missing:
        return Preview(f"{summary}: not tried, as it would make the file", calls=calls)
    try:
        with transaction(context, where, work.seconds, write=True, keep=False) as session:
            tried = _all(session, work)
    except Failure as failure:
        return Preview(f"{summary}: fails as things are now: {failure}", calls=calls)
    calls = tuple(f"{text}  -- {count} rows" for text, count in zip(calls, tried.counts, strict=True))
    return Preview(f"{summary}: {tried.affected} rows affected, tried and rolled back", calls=calls)


TABLE = "planrunner_keys"

_MAKE = (
    f"CREATE TABLE IF NOT EXISTS {TABLE} (key TEXT PRIMARY KEY, digest TEXT NOT NULL, at TEXT NOT NULL, result TEXT)"
)
_LOCK = 0x706C616E72756E  # two tasks that make the table at the same time would run into each other


def done_before(session: Session, key: str, digest: str) -> dict[str, Any] | None:
    """The result of the work that this key was used for; None where it has not been, and then the key is taken:
    another task with the same one waits until this transaction is over. Raises Failure for other work."""
    marks = _marks(session)
    _make_table(session)
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    taken = session.run(
        Bound(
            f"INSERT INTO {TABLE} (key, digest, at) VALUES ({marks('key')}, {marks('digest')}, {marks('at')}) "  # noqa: S608
            "ON CONFLICT (key) DO NOTHING",
            {"key": key, "digest": digest, "at": at},
        )
    )
    if taken.rowcount:
        return None
    statement = Bound(f"SELECT digest, result FROM {TABLE} WHERE key = {marks('key')}", {"key": key})  # noqa: S608
    earlier: Any = session.run(statement).one()
    if earlier[0] != digest:
        raise Failure("this task was done before with other statements or values; run it again as a new visit")
    return dict(json.loads(earlier[1] or "{}"))


def write_result(session: Session, key: str, result: dict[str, Any]) -> None:
    """Write the result beside the key."""
    marks = _marks(session)
    session.run(
        Bound(
            f"UPDATE {TABLE} SET result = {marks('result')} WHERE key = {marks('key')}",  # noqa: S608
            {"result": json.dumps(result), "key": key},
        )
    )


def _make_table(session: Session) -> None:
    if session.dialect == "postgresql":
        if session.run(Bound(f"SELECT to_regclass('{TABLE}')", {})).scalar() is not None:
            return
        session.run(Bound(f"SELECT pg_advisory_xact_lock({_LOCK})", {}))
    try:
        session.run(Bound(_MAKE, {}))
    except Failure as failure:
        hint = f"; make it once as its owner ({_MAKE}), or do without it by `key: false`"
        raise Failure(
            f"the table {TABLE} cannot be made: {failure}{hint}", failure.failure, rule=failure.rule
        ) from None


def _marks(session: Session) -> Any:
    return (lambda name: f"%({name})s") if session.dialect == "postgresql" else (lambda name: f":{name}")
