"""The profiles of the shell: the section ``cli_profiles`` of the settings."""

from __future__ import annotations

from typing import Any

from planrunner.errors import UsageError
from planrunner.plan.nearest import meant, nearest
from planrunner.records import Struct
from planrunner.safety.roster import named
from planrunner.safety.trust import own_settings

Json = Any


class ShellProfile(Struct):
    """How a shell begins. ``profile`` is the profile of the settings that its commands use, empty for their own choice;
    ``aliases`` are words and the lines that they stand for; ``start`` are lines that are carried out at the beginning;
    ``session`` is the session that is opened, empty for one named after the profile."""

    name: str = ""
    description: str = ""
    profile: str = ""
    aliases: tuple[tuple[str, str], ...] = ()
    start: tuple[str, ...] = ()
    session: str = ""
    default: bool = False


def shell_profiles(directory: str) -> dict[str, ShellProfile]:
    """The profiles of a project by name, the default one first; none where its settings come from outside, since a
    profile carries lines out by itself. Raises as ``read_data``."""
    section = named(own_settings(directory).get("cli_profiles"))
    made = {name: _profile(name, said or {}) for name, said in section.items()}
    return dict(sorted(made.items(), key=lambda item: not item[1].default))


def chosen(profiles: dict[str, ShellProfile], wanted: str) -> ShellProfile:
    """The profile with that name; without a name the default one, or a plain one where none is the default. Raises
    UsageError with the nearest name."""
    if wanted:
        if wanted not in profiles:
            listed = ", ".join(profiles) or "it has none"
            raise UsageError(
                f"the shell has no profile `{wanted}`{meant(nearest(wanted, profiles))}",
                f"`cli_profiles` of planrunner.yaml: {listed}",
            )
        return profiles[wanted]
    first = next(iter(profiles.values()), None)
    return first if first is not None and first.default else ShellProfile()


def _profile(name: str, said: dict[str, Json]) -> ShellProfile:
    return ShellProfile(
        name,
        str(said.get("description", "")),
        str(said.get("profile", "")),
        tuple((said.get("aliases") or {}).items()),
        tuple(said.get("start") or ()),
        str(said.get("session", "")),
        bool(said.get("default", False)),
    )
