"""Features that are keys of a task: attempts, limits, conditions."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from features.pieces import Ids, Key, key
from planrunner.app.proof.world import Reply
from planrunner.machine.events import RetryScheduled

Json = Any


@key("retry", "attempts of another round, copy or visit count, or a class that is not to be tried again is")
def retry(x: Ids, main: str, leaf: bool) -> Key:
    def claim(ran: Any) -> Iterator[str]:
        yield from ran.lost(main)
        for one in ran.of(main):
            tries = one.state.attempts - one.state.past
            if tries > 3:
                yield f"`{one.id}` was tried {tries} times of 3"
            if leaf and ran.calm and tries != 3:
                yield f"`{one.id}` was tried {tries} times and should have been 3 times"

    replies = (Reply(failure="transient"), Reply(failure="logic"), Reply())
    return Key({"retry": {"attempts": 3, "delay": "1s", "jitter": 0}}, claim, replies)


@key("retry-on", "a class is tried again that is not named")
def retry_on(x: Ids, main: str, leaf: bool) -> Key:
    def claim(ran: Any) -> Iterator[str]:
        for one in ran.of(main):
            wrong = [entry for entry in ran.entries if isinstance(entry.event, RetryScheduled)]
            if any(entry.event.task == one.id and entry.event.failure != "mine" for entry in wrong):
                yield f"`{one.id}` was tried again after another class"
            if leaf and ran.calm and one.state.attempts - one.state.past != 2:
                yield f"`{one.id}` took {one.state.attempts} attempts and should take 2"

    keys = {"retry": {"attempts": 5, "delay": "1s", "on": ["mine"]}, "allow_failure": True}
    return Key(keys, claim, (Reply(failure="mine"), Reply(failure="logic")), open=True)


@key("timeout", "an attempt goes on after its timeout, or is not counted as one")
def timeout(x: Ids, main: str, leaf: bool) -> Key:
    def claim(ran: Any) -> Iterator[str]:
        yield from ran.lost(main)
        for one in ran.of(main) if leaf else []:
            ends = [each.outcome.failure for each in ran.attempts(one)]
            if ran.calm and ends != ["timeout", ""]:
                yield f"the attempts of `{one.id}` ended {ends}"

    if not leaf:
        return Key({"timeout": "30m"}, claim)
    return Key({"timeout": "20s", "retry": {"attempts": 2, "delay": "1s"}}, claim, (Reply(takes=90.0), Reply()))


@key("timebox", "the time of all attempts together is passed")
def timebox(x: Ids, main: str, leaf: bool) -> Key:
    def claim(ran: Any) -> Iterator[str]:
        for one in ran.of(main) if leaf else []:
            if ran.starts(one) and one.state.visit == 1 and ran.settled(one) - ran.starts(one)[0] > 30.001:
                yield f"`{one.id}` took {ran.settled(one) - ran.starts(one)[0]} s of its 30"
            if ran.calm and one.state.failure not in ("timeout", "budget"):
                yield f"`{one.id}` ended as {one.state.failure!r}"

    if not leaf:
        return Key({"timebox": "2h"}, claim)
    keys = {"timebox": "30s", "retry": {"attempts": 9, "delay": "1s"}, "allow_failure": True}
    return Key(keys, claim, (Reply(failure="logic", takes=12.0),), open=True)


@key("watchdog", "a step of the watchdog is left out, or counts from another attempt")
def watchdog(x: Ids, main: str, leaf: bool) -> Key:
    def claim(ran: Any) -> Iterator[str]:
        for one in ran.of(main) if leaf else []:
            ends = [each.outcome for each in ran.attempts(one)]
            if ran.calm and [each.failure for each in ends] != ["timeout", ""]:
                yield f"the attempts of `{one.id}` ended {[each.failure for each in ends]}"

    if not leaf:
        return Key({}, claim)
    keys = {"watchdog": [{"after": "10s", "do": "warn"}, {"after": "20s", "do": "fail"}], "retry": 2}
    return Key(keys, claim, (Reply(takes=50.0), Reply()))


@key("allow-failure", "the run fails by a task that may fail, or takes it for one that went well")
def allow_failure(x: Ids, main: str, leaf: bool) -> Key:
    after = {"id": x("after"), "needs": [main], "join": "none_failed", "run": "true"}

    def claim(ran: Any) -> Iterator[str]:
        yield from ran.lost(x("after"))
        for one in ran.of(main) if leaf else []:
            if ran.calm and (one.state.status, one.state.dependency_outcome) != ("failed", "tolerated"):
                yield f"`{one.id}` is {one.state.status} ({one.state.dependency_outcome}) and should be tolerated"

    return Key({"allow_failure": True}, claim, (Reply(failure="logic"),), more=(after,), open=True)


@key("when-true", "a condition that holds skips its task")
def when_true(x: Ids, main: str, leaf: bool) -> Key:
    def claim(ran: Any) -> Iterator[str]:
        yield from ran.lost(main)

    return Key({"when": "params.yes"}, claim, plan={"params": {"yes": True}})


@key("when-false", "a condition that does not hold runs its task, or what needs it is cut off with it")
def when_false(x: Ids, main: str, leaf: bool) -> Key:
    after = {"id": x("after"), "needs": [main], "join": "none_failed", "run": "true"}

    def claim(ran: Any) -> Iterator[str]:
        yield from ran.lost(main, status="skipped")
        yield from ran.lost(x("after"))
        for one in ran.of(main):
            if ran.starts(one):
                yield f"`{one.id}` began though its condition does not hold"

    return Key({"when": "params.no"}, claim, plan={"params": {"no": False}}, more=(after,), open=True, last=x("after"))


@key("delay", "a task begins before its delay is over")
def delay(x: Ids, main: str, leaf: bool) -> Key:
    before = {"id": x("before"), "run": "true"}

    def claim(ran: Any) -> Iterator[str]:
        yield from ran.lost(main)
        for one in ran.done(f"{main}[]") or ran.done(main):
            level = one.id.rpartition("/")[0]
            for first in ran.done(x("before"), level) if ran.starts(one) else ():  # people do it where nothing starts
                if first.id.rpartition("/")[0] == level and ran.starts(one)[0] - ran.settled(first) < 59.999:
                    yield f"`{one.id}` began {ran.starts(one)[0] - ran.settled(first)} s after `{first.id}` and not 60"

    return Key({"delay": "60s", "needs": [x("before")]}, claim, more=(before,))


@key("expect", "a result is taken that does not hold")
def expect(x: Ids, main: str, leaf: bool) -> Key:
    def claim(ran: Any) -> Iterator[str]:
        yield from ran.lost(main)
        for one in ran.of(main) if leaf else []:
            if ran.calm and one.state.attempts - one.state.past != 2:
                yield f"`{one.id}` took {one.state.attempts - one.state.past} attempts; the first gave what is not expected"

    if not leaf:
        return Key({"expect": ["params.yes"]}, claim, plan={"params": {"yes": True}})
    keys = {"expect": ["stdout contains 'good'"], "retry": {"attempts": 3, "delay": "1s"}}
    return Key(keys, claim, (Reply(stdout="bad"), Reply(stdout="good")))


@key("preconditions", "a task begins before what it presupposes holds")
def preconditions(x: Ids, main: str, leaf: bool) -> Key:
    def claim(ran: Any) -> Iterator[str]:
        yield from ran.lost(main)
        for one in ran.done(f"{main}[]") or ran.done(main):
            if not one.state.facts:
                yield f"`{one.id}` began without a look at the facts"

    return Key({"preconditions": ["disk.free >= 1GB"]}, claim, facts={"disk.free": 5_000_000_000})


@key("priority", "what is urgent waits for what is not")
def priority(x: Ids, main: str, leaf: bool) -> Key:
    low = {"id": x("low"), "run": "true", "priority": "low"}

    def claim(ran: Any) -> Iterator[str]:
        yield from ran.lost(main)
        yield from ran.lost(x("low"))

    return Key({"priority": "critical"}, claim, more=(low,))


@key("limits", "more run at once than the limit of their label lets")
def limits(x: Ids, main: str, leaf: bool) -> Key:
    other = {"id": x("other"), "run": "true", "labels": [x("db")]}

    def claim(ran: Any) -> Iterator[str]:
        yield from ran.lost(main)
        yield from ran.lost(x("other"))
        spans = []
        for one in [*ran.of(main), *ran.of(x("other"))] if leaf else []:
            for begun, ended in zip(ran.starts(one), ran.ends(one), strict=False):
                spans.append((begun, ended, one.id))
        spans.sort()
        for (_, ended, first), (begun, _, second) in pairwise(spans):
            if begun < ended - 1e-9:
                yield f"`{second}` began while `{first}` ran, though one at a time may"

    return Key({"labels": [x("db")]}, claim, plan={"limits": {x("db"): 1}}, more=(other,))


@key("outputs", "an output that a task declares is lost")
def outputs(x: Ids, main: str, leaf: bool) -> Key:
    read = {"id": x("read"), "needs": [main], "uses": "noop", "with": {"value": f"{{{{ tasks.{main}.outputs.told }}}}"}}

    def claim(ran: Any) -> Iterator[str]:
        yield from ran.lost(x("read"))
        for one in ran.done(x("read")):
            if one.state.outputs.get("value") not in ("told", ["told"] * 3, ["told", None]):
                yield f"`{one.id}` read {one.state.outputs.get('value')!r}"

    return Key({"outputs": {"told": {"type": "string", "value": "told"}}}, claim, more=(read,))


@key("env", "a variable of a task or of the plan does not arrive, or that of another one does")
def env(x: Ids, main: str, leaf: bool) -> Key:
    def claim(ran: Any) -> Iterator[str]:
        yield from ran.lost(main)

    return Key({"env": {"ONE": "{{ params.word }}"}}, claim, plan={"params": {"word": "w"}})


@key("budget-cost", "what a task, its copies or its rounds spend is not counted, or not given back")
def budget_cost(x: Ids, main: str, leaf: bool) -> Key:
    after = {"id": x("after"), "needs": [main], "join": "none_failed", "run": "true", "budgets": {"cost": "$5"}}

    def claim(ran: Any) -> Iterator[str]:
        yield from ran.lost(main)
        yield from ran.lost(x("after"))
        if not leaf:
            return
        told = sum(each.outcome.usage.get("cost", 0) for each in ran.ended(main))
        booked = ran.spent(main, "cost")
        if booked is not None and abs(told - booked) > 1e-9:
            yield f"`{main}` told of {told} and {booked} is booked"

    replies = (Reply(usage={"cost": 0.3}, failure="transient"), Reply(usage={"cost": 0.25}))
    keys: dict[str, Json] = {"budgets": {"cost": "$1"}}
    if leaf:
        keys["retry"] = {"attempts": 2, "delay": "1s"}
    return Key(keys, claim, replies, more=(after,), extra={x("after"): (Reply(usage={"cost": 0.1}),)})


@key("budget-attempts", "attempts inside a task are not counted, or those of another copy are")
def budget_attempts(x: Ids, main: str, leaf: bool) -> Key:
    def claim(ran: Any) -> Iterator[str]:
        for one in ran.of(main) if leaf else []:
            tries = one.state.attempts - one.state.past
            if ran.calm and one.state.visit == 1 and tries != 2:
                yield f"`{one.id}` was tried {tries} times, and its budget is 2 attempts"

    if not leaf:
        return Key({"budgets": {"attempts": 500}}, claim)
    keys = {"budgets": {"attempts": 2}, "retry": {"attempts": 5, "delay": "1s"}, "allow_failure": True}
    return Key(keys, claim, (Reply(failure="logic"),), open=True)


@key("backup", "the files of a task are not saved before it begins")
def backup(x: Ids, main: str, leaf: bool) -> Key:
    def claim(ran: Any) -> Iterator[str]:
        yield from ran.lost(main)
        for one in ran.done(main):
            saved = [entry.at for entry in ran.events_of("BackupMade", one.id)]
            if not saved or saved[0] > ran.starts(one)[0]:
                yield f"`{one.id}` began without its backup"

    return Key({"backup": ["data/**"]}, claim)


@key("checkpoint", "what follows begins before the files of a task are kept")
def checkpoint(x: Ids, main: str, leaf: bool) -> Key:
    def claim(ran: Any) -> Iterator[str]:
        yield from ran.lost(main)
        for one in ran.done(main):
            if not ran.events_of("CheckpointTaken", one.id):
                yield f"`{one.id}` completed without its checkpoint"

    return Key({"checkpoint": True}, claim)


@key("artifacts", "an artifact is not kept, or its name means that of another task")
def artifacts(x: Ids, main: str, leaf: bool) -> Key:
    def claim(ran: Any) -> Iterator[str]:
        yield from ran.lost(main)
        for one in ran.done(main) if leaf else []:
            kept = [each["name"] for each in one.state.outcome.artifacts] if one.state.outcome else []
            if kept != [x("report")]:
                yield f"`{one.id}` kept {kept}"

    if not leaf:
        return Key({}, claim)
    return Key({"artifacts": [{"name": x("report"), "path": f"out/{x('report')}"}]}, claim)


@key("fresh", "a task with files that it reads is not asked whether it is done already")
def fresh(x: Ids, main: str, leaf: bool) -> Key:
    def claim(ran: Any) -> Iterator[str]:
        yield from ran.lost(main)
        for one in ran.done(main) if leaf else []:
            if not ran.events_of("FreshnessSeen", one.id):
                yield f"`{one.id}` was not looked at"

    if not leaf:
        return Key({}, claim)
    return Key({"fresh": {"inputs": ["in/**"], "outputs": [f"out/{x('made')}"]}}, claim)


@key("failure-modes", "a failure that was foreseen is not told from others")
def failure_modes(x: Ids, main: str, leaf: bool) -> Key:
    cache = {"id": x("cache"), "run": "true"}

    def claim(ran: Any) -> Iterator[str]:
        if not leaf:
            return
        for one in ran.of(main):
            if ran.calm and (one.state.failure, one.state.recovered_by.rpartition("/")[2]) != (x("off"), x("cache")):
                yield f"`{one.id}` failed as {one.state.failure!r}, recovered by {one.state.recovered_by!r}"

    if not leaf:
        return Key({}, claim)
    modes = [{"name": x("off"), "detect": "exit_code == 75", "recover": x("cache")}]
    return Key({"failure_modes": modes}, claim, (Reply(exit_code=75),), more=(cache,), open=True)


@key("policy", "rights that a task gives up stop what needs none of them")
def policy(x: Ids, main: str, leaf: bool) -> Key:
    def claim(ran: Any) -> Iterator[str]:
        yield from ran.lost(main)

    return Key({"policy": {"network": {"allow": []}}}, claim)
