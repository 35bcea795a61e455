"""A command in a container of its own, for projects that chose an image."""

from __future__ import annotations

import os
from collections.abc import Iterator

from planrunner.safety.sandbox.confinement import Command, Confinement, Refused
from planrunner.safety.sandbox.mounts import TEMPORARY
from planrunner.safety.sandbox.scopes import beneath


def contained(confinement: Confinement, command: Command, docker: str) -> tuple[str, ...]:
    """The call of docker that runs the command in the image. Values of variables are not among the arguments: the
    client takes them from its own environment. Raises Refused where hosts are to be judged one by one."""
    if confinement.network == "judged":
        raise Refused("docker cannot let in some hosts and no others", "choose `profile: bubblewrap`")
    limits = confinement.limits
    bounds = ["--ulimit", "core=0"]
    if limits.memory is not None:
        bounds += ["--memory", str(limits.memory), "--memory-swap", str(limits.memory)]
    if limits.processes is not None:
        bounds += ["--pids-limit", str(limits.processes)]
    if limits.files is not None:
        bounds += ["--ulimit", f"nofile={limits.files}"]
    network = () if confinement.network == "open" else ("--network", "none")
    return (
        *(docker, "run", "--rm", "--interactive", "--init", "--pull", "never", "--name", command.name, *network),
        *("--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges", *bounds),
        *("--user", f"{os.getuid()}:{os.getgid()}", "--tmpfs", f"{TEMPORARY}:size=1g", "--env", f"HOME={TEMPORARY}"),
        *_mounts(confinement),
        *(part for name in sorted(command.env) if name not in ("PATH", "HOME", "TMPDIR") for part in ("--env", name)),
        *("--workdir", command.directory, "--entrypoint", command.arguments[0], confinement.image),
        *command.arguments[1:],
    )


def _mounts(confinement: Confinement) -> Iterator[str]:
    layers: dict[str, str] = {}
    for path in confinement.readable:
        if beneath(path, confinement.root):
            layers[path] = f"{path}:{path}:ro"
    layers |= {path: f"{path}:{path}" for path in confinement.writable}
    layers |= {path: f"{path}:{path}:ro" for path in confinement.guarded if _seen(path, confinement)}
    for path in sorted(layers, key=lambda each: each.count("/")):
        yield from ("--volume", layers[path])
    for path in confinement.denied:
        if _seen(path, confinement):
            yield from ("--tmpfs", f"{path}:ro") if os.path.isdir(path) else ("--volume", f"/dev/null:{path}:ro")
    if confinement.own:
        yield from ("--volume", f"{confinement.own}:{confinement.own}")


def _seen(path: str, confinement: Confinement) -> bool:
    return any(beneath(path, around) for around in (*confinement.readable, *confinement.writable))
