"""The credentials of a project as a run needs them."""

from __future__ import annotations

import os

from planrunner.errors import PlanInvalid, UsageError
from planrunner.machine.statuses import FINAL_STOPS
from planrunner.record import TYPE_CHECKING

if TYPE_CHECKING:
    from planrunner.engine.vault import Vault
    from planrunner.machine.state import State


def vault_of(state: State, directory: str) -> Vault | None:
    """The secrets of a run, those that its tasks declare looked up; None where the project lists no credentials. Raises
    as ``read_credentials``, but for a run that only ends: that it does whatever the file says."""
    from planrunner.safety.credentials import read_credentials  # late: few projects have the file

    try:
        credentials = read_credentials(directory)
    except (PlanInvalid, UsageError):
        if state.stop_reason not in FINAL_STOPS:
            raise
        return None
    if not credentials:
        return None
    from planrunner.engine.vault import Vault  # late: few projects list any
    from planrunner.plan.wishes import every_secret

    vault = Vault(credentials, os.environ)
    vault.know(sorted(every_secret(state.plan.tasks)))
    return vault


def without_hidden(names: tuple[str, ...], directory: str) -> tuple[str, ...]:
    """Names of environment variables that templates read, without those that credentials come from."""
    from planrunner.safety.credentials import read_credentials  # late, as above

    hidden = {each.env_var for each in read_credentials(directory).values()}
    return tuple(name for name in names if name not in hidden)
