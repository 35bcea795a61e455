"""What people alone may do: no process that a run started does it, whatever name it gives.

``PERSON_ONLY`` is the list, ``require_person`` the one decision. A process belongs to a run by its ancestry
(``ancestry.py``). That counts for the state directory of that run and for whatever else its user has: other projects,
tokens, trust. It does not count where both the project and the data folder are in a folder for temporary files: those
are made by what a task tries out, such as the tests of a project. What hides where it comes from is not a person.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import NamedTuple

from planrunner import caller
from planrunner.ancestry import Descent, Runner, Untold, descent, identity, runners, variables
from planrunner.errors import Denied, NotFound
from planrunner.journal.chain import data_folder
from planrunner.journal.stores import open_journal

RULE = "run.person"
"""The rule of every refusal."""


class Act(NamedTuple):
    """Something that people alone do: ``what`` it is, and ``how`` a person does it, as the last part of a sentence."""

    what: str
    how: str


PERSON_ONLY: dict[str, Act] = {
    "vote": Act("decide a gate", "`planrunner gates` lists what waits"),
    "only": Act("run tasks without the gate that they wait for", "`planrunner exec PLAN --only TASK`"),
    "budget": Act("extend or refuse a budget", "`planrunner budget RUN --add WHAT=AMOUNT`"),
    "settle": Act("say what became of a task in doubt", "`planrunner resume RUN --settle TASK=…`"),
    "revise": Act("give a run another plan", "`planrunner revise RUN PLAN`"),
    "fork": Act("continue a run as another one", "`planrunner fork RUN`"),
    "proposal": Act("accept or decline the plan that a run proposes", "`planrunner revise RUN` shows it"),
    "trust": Act("trust a plan or a project", "`planrunner trust PLAN`"),
    "plugin": Act("trust a plugin", "`planrunner plugins trust FILE`"),
    "token": Act("create a token", "`planrunner token create NAME --scope SCOPE`"),
    "audit": Act("accept a journal as it is", "`planrunner audit accept --because TEXT`"),
    "memory": Act("vouch for what is remembered", "`planrunner memory put KEY VALUE --trusted`"),
    "policy": Act("set aside the policy of a run", "`planrunner resume RUN --accept-policy`"),
    "sandbox": Act("take the sandbox away", "`planrunner exec PLAN --no-sandbox`"),
}
"""Everything that people alone do, by the name that the code has for it."""

_TEMPORARY = ("/tmp", "/var/tmp", "/dev/shm")  # noqa: S108  # they are only compared with


def require_person(act: str, state: str | None = None) -> None:
    """The processes that ask (``caller.asking_processes``) may do ``act``, in the state directory ``state`` or, without
    one, as their user. Raises Denied for one that a run started."""
    asking = caller.asking_processes()
    what, how = PERSON_ONLY[act]
    if asking is None:
        message = f"the process that asks to {what} cannot be found, so it may be one that a run started"
        raise Denied(f"{message} ({RULE})", f"ask again in a terminal: {how}")
    for pid in asking:
        try:
            started_by = _run_of(pid, descent(pid), state)
        except Untold as why:
            message = f"a process may not {what} where it cannot be told what started it: {why} ({RULE})"
            raise Denied(message, f"ask in a terminal of your own: {how}") from None
        if started_by:
            message = f"{started_by} may not {what}: only a person may ({RULE})"
            raise Denied(message, f"do it outside the run, in a terminal of your own: {how}")


def _run_of(pid: int, comes_from: Descent, state: str | None) -> str:
    """What started a process, in words; empty where no run did that counts here."""
    if comes_from.left:
        return "a process that an earlier run left behind, or that hides its run (its `ulimit -x` is that of a task)"
    for runner in comes_from.runners:
        if _counts(runner, state):
            return f"a process that a run started (below process {runner.pid})"
    if not caller.asks_itself() and any(_counts(runner, state) for runner in runners(pid)):
        return f"a process that runs tasks ({pid})"  # what asks may be one of those that run inside it
    given = os.environ if pid == os.getpid() else variables(pid)
    run = given.get("PLANRUNNER_RUN_ID", "") if state else ""
    return f"a process of the run {run}" if run and state and _has_run(state, run) else ""


def _counts(runner: Runner, state: str | None) -> bool:
    if state and runner.state and runner.state == identity(state):
        return True
    if not state and runner.data and runner.data == identity(data_folder()):
        return True
    scratch = (*_TEMPORARY, variables(runner.pid).get("TMPDIR", ""))
    return not all(_is_beneath(each, scratch) for each in (state or data_folder(), data_folder()))


def _is_beneath(path: str, folders: Collection[str]) -> bool:
    real = os.path.realpath(path)
    return any(folder and real.startswith(f"{os.path.realpath(folder)}/") for folder in folders)


def _has_run(state: str, run: str) -> bool:
    try:
        journal = open_journal(state, readonly=True)
    except NotFound:
        return False
    try:
        journal.run(run)
    except NotFound:
        return False
    finally:
        journal.close()
    return True
