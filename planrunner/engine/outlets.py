"""The way out of a sandbox whose hosts are judged: by the policy, and by what the operator lets plans connect to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planrunner.capabilities.contract import Failure
from planrunner.capabilities.http.guard import Guard
from planrunner.errors import PlanInvalid, UsageError
from planrunner.plan.rights import Level
from planrunner.safety.project import read_data, unsound
from planrunner.safety.sandbox.confinement import Refused
from planrunner.safety.sandbox.proxy import Endpoint, Proxy, Unreachable

if TYPE_CHECKING:
    from planrunner.safety.sandbox.tally import Tally


def outlet(levels: tuple[Level, ...], directory: str, tally: Tally) -> Proxy:
    """A proxy that lets out what these levels and the project's file allow, and counts the rest. Raises Refused for a
    file or an entry that is not sound, and OSError where no socket can be made."""
    try:
        settings = read_data(directory).get("network") or {}
        guard = Guard({**settings, "levels": levels})
    except PlanInvalid as error:
        raise Refused(unsound(error)) from None
    except UsageError as error:
        raise Refused(error.message) from None
    except Failure as failure:
        raise Refused(str(failure), rule=failure.rule or "network") from None

    def judge(host: str, port: int) -> list[Endpoint]:
        try:
            return [Endpoint(found.family, found.address) for found in guard.admit(host, port)]
        except Failure as failure:
            raise Unreachable(str(failure), failure.rule or "network") from None

    return Proxy(judge, tally)
