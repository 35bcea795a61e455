"""The facts of the world that conditions may read before a task starts, each with its kind and what it says."""

from __future__ import annotations

FACTS: dict[str, tuple[str, str]] = {
    "disk.free": ("size", "room for this user on the disk of the working directory"),
    "host.cpus": ("number", "processors that planrunner may use"),
    "host.load": ("number", "the load average of the last minute"),
    "host.memory": ("size", "main memory that is still available"),
    "host.os": ("string", "the operating system in small letters, such as `linux`"),
    "memory.has_space": ("size", "room for the state directory of planrunner on its disk"),
    "network.online": ("bool", "whether a default route leads out through an interface that is up"),
}
ROOTS = frozenset(name.partition(".")[0] for name in FACTS)
