"""What was done is written down in the same transaction as the work: a task that is asked again is recognised."""

from __future__ import annotations

import json
import time
from typing import Any

from planrunner.capabilities.contract import Failure
from planrunner.capabilities.sql.session import Session
from planrunner.capabilities.sql.values import Bound

TABLE = "planrunner_keys"

_MAKE = (
    f"CREATE TABLE IF NOT EXISTS {TABLE} (key TEXT PRIMARY KEY, digest TEXT NOT NULL, at TEXT NOT NULL, result TEXT)"
)
_LOCK = 0x706C616E72756E  # two tasks that make the table at the same time would run into each other


def done_before(session: Session, key: str, digest: str) -> dict[str, Any] | None:
    """The result of the work that this key was used for; None where it has not been, and then the key is taken:
    whoever comes with the same one waits until this transaction is over. Raises Failure for other work."""
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
    found: Any = session.run(statement).one()
    if found[0] != digest:
        raise Failure("this task was done before with other statements or values; run it again as a new visit")
    return dict(json.loads(found[1] or "{}"))


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
