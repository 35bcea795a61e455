"""What shuts processes in on this machine, and whether it holds."""

from __future__ import annotations

from typing import NamedTuple

from planrunner.safety.sandbox import presence
from planrunner.safety.sandbox.confinement import Kind
from planrunner.safety.sandbox.presence import obstacle
from planrunner.safety.sandbox.selftest import Probe, try_out


class Report(NamedTuple):
    """``available`` says of each profile why it does not work here ("": it does), ``kind`` which one was tried ("":
    none works), ``probes`` what that came to; ``advice`` is for people where more could hold."""

    available: dict[str, str]
    kind: str
    probes: tuple[Probe, ...]
    advice: str = ""

    @property
    def holds(self) -> bool:
        return bool(self.probes) and all(probe.held for probe in self.probes)


def examine_sandbox() -> Report:
    """Try the strictest profile that works here and shuts a process in without an image."""
    version = presence.landlock()
    little = f"version {presence.LEAST_ABI} is needed, the kernel has {version or 'none'}"
    why = presence.bubblewrap()[1]
    available = {
        "bubblewrap": why,
        "landlock": "" if version >= presence.LEAST_ABI else little,
        "docker": presence.docker()[1],
    }
    kinds: tuple[Kind, ...] = ("bubblewrap", "landlock")
    kind = next((one for one in kinds if not available[one]), None)
    if kind is None:
        return Report(available, "", (), f"nothing here can shut processes in: {obstacle(why).cure}")
    try:
        probes = tuple(try_out(kind))
    except OSError as error:
        return Report(available, kind, (), f"the sandbox could not be tried: {error}")
    out = [probe.name for probe in probes if not probe.held]
    if out:
        return Report(available, kind, probes, f"{kind} does not hold: {', '.join(out)}")
    return Report(available, kind, probes, f"bubblewrap would shut in more: {obstacle(why).cure}" if why else "")
