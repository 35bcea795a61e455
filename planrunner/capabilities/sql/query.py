"""``sql.query``: rows out of a transaction that cannot write."""

from __future__ import annotations

import json
import tempfile
from typing import IO, Annotated, Any, NamedTuple

from sqlalchemy import CursorResult

from planrunner.capabilities.contract import OUTPUT_LIMIT, Context, Failure, Json
from planrunner.capabilities.declare import Doc, capability
from planrunner.capabilities.durations import seconds as seconds_of
from planrunner.capabilities.sql.connections import find
from planrunner.capabilities.sql.session import Session, transaction
from planrunner.capabilities.sql.text import first_word, single, words
from planrunner.capabilities.sql.values import Bound, bound, data
from planrunner.capabilities.verbatim import require_verbatim

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
        raise Failure(_ONLY_READS.format(word or "this"), "policy", rule="sql.readonly")
    call = bound(one, where.dialect, params or {})
    with transaction(context, where, limit(timeout), write=False) as session:
        result = _run(session, call, one, stream=where.dialect == "postgresql" and word in _STREAMED)
        found = _kept(context, session, result, max_rows, keep) if keep else rows_of(session, result, max_rows)
    context.log.write(f"{found.row_count} rows{', and there are more' * found.truncated}\n".encode())
    return found


def _run(session: Session, call: Bound, statement: str, stream: bool) -> CursorResult[Any]:
    try:
        return session.run(call, stream)
    except Failure as failure:
        wrote = sorted(_WRITES & words(statement, session.dialect)) if failure.failure == "policy" else []
        if not wrote:
            raise
        raise Failure(f"{failure}; {_ONLY_READS.format(wrote[0])}", "policy", rule="sql.readonly") from None


def limit(timeout: str | float) -> float:
    """The seconds that a statement may take; raises Failure."""
    try:
        return seconds_of(timeout)
    except ValueError as error:
        raise Failure(f"`timeout`: {error}") from None


def _kept(context: Context, session: Session, result: CursorResult[Any], most: int, name: str) -> Rows:
    """All rows into an artifact, the first of them as outputs."""
    with tempfile.TemporaryFile("w+", encoding="utf-8") as file:  # without a name: not looked through for secrets yet
        found = rows_of(session, result, most, file)
        context.keep_open(file, name, "jsonl")
    return found


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
