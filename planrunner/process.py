"""What holds for the whole process, set once by the door it was started through."""

from __future__ import annotations

_own: list[bool] = []
_without_plugins: list[bool] = []


def set_own_process() -> None:
    """This process does nothing but what planrunner was called for: loading a plugin keeps the standard streams away
    from it, and a run may change what belongs to the whole process."""
    _own.append(True)


def is_own_process() -> bool:
    """Whether this process is planrunner's alone. Where it is not, a run changes nothing that is the whole process's:
    signals, the garbage collector, and who adopts orphans."""
    return bool(_own)


def disable_plugins() -> None:
    """Registries of this process know the built-in capabilities alone (``--no-plugins``)."""
    _without_plugins.append(True)


def plugins_disabled() -> bool:
    """Whether ``disable_plugins`` was called."""
    return bool(_without_plugins)
