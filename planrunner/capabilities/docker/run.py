"""``docker.run``: a command in a container that is gone afterwards."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NamedTuple, NotRequired, TypedDict

from planrunner.capabilities.clients import Request, bounded, call, inside, refused, variables, word
from planrunner.capabilities.contract import Context, Doc, Failure, Preview, capability, size
from planrunner.capabilities.docker.images import LABEL, Engine, engine_of, key_of, reference, request

_TARGET = r"/[A-Za-z0-9_./+@-]*"
_USER = r"[A-Za-z0-9_][A-Za-z0-9_.-]*(:[A-Za-z0-9_][A-Za-z0-9_.-]*)?"
_NETWORK = r"[A-Za-z0-9][A-Za-z0-9_.-]*"
_STOP = 1.2
"""Seconds that taking a container away may take when the attempt is stopped."""


class Ran(NamedTuple):
    exit_code: Annotated[int, Doc("exit code of the command")]
    stdout: Annotated[str, Doc("its standard output, the end where it is long")]
    stderr: Annotated[str, Doc("its standard error, the end where it is long")]
    container: Annotated[str, Doc("the name the container had")]
    engine: Annotated[str, Doc("the engine it ran on")]


class Mount(TypedDict):
    """A folder of the working directory at a place in the container."""

    source: Annotated[str, Doc("", form="file-mounted")]
    target: str
    write: NotRequired[bool]


class _Inputs(NamedTuple):
    image: str
    command: list[str]
    options: dict[str, Any]


def _name(context: Context) -> str:
    """The same for an attempt that is issued again after a crash: what the first one left is found by it."""
    return f"planrunner-{key_of(context)[:16]}-{context.call.attempt}"


def _request(context: Context, engine: str, inputs: _Inputs) -> Request:
    options = inputs.options
    env = variables(options.get("env") or {}, "env")
    stdin = str(options.get("stdin") or "").encode()
    arguments = ["run", "--rm", "--name", _name(context), "--label", f"{LABEL}={key_of(context)}"]
    arguments += ["--init"] * (engine == "docker")  # podman brings none along everywhere
    arguments += ["--pull", word(options["pull"], "pull", "missing|always|never")]
    arguments += ["--network", word(options["network"], "network", _NETWORK)]
    arguments += ["--cap-drop", "ALL", "--security-opt", "no-new-privileges", *_limits(options)]
    arguments += ["--read-only"] * bool(options.get("read_only")) + ["--interactive"] * bool(stdin)
    for name, pattern in (("user", _USER), ("workdir", _TARGET)):
        if options.get(name):
            arguments += [f"--{name}", word(options[name], name, pattern)]
    if options.get("entrypoint"):
        arguments += ["--entrypoint", word(options["entrypoint"], "entrypoint")]
    for name in sorted(env):
        arguments += ["--env", name]
    for mount in options.get("mounts") or ():
        if not isinstance(mount, dict) or not {"source", "target"} <= mount.keys() <= {"source", "target", "write"}:
            raise Failure("`mounts`: expected maps of `source`, `target` and perhaps `write: true`")
        write = mount.get("write") is True
        source = inside(context, mount["source"], "mounts.source", "write" if write else "read")
        if any(sign in source for sign in ',"\n'):
            raise Failure(
                f"`mounts`: {mount['source']!r} has a comma or a quote, which no client takes", rule="clients.value"
            )
        target = word(mount["target"], "mounts.target", _TARGET)
        arguments += ["--mount", (f"type=bind,source={source},target={target}" + ("" if write else ",readonly"))]
    command: list[Any] = inputs.command
    if not all(isinstance(part, str) and "\0" not in part for part in command):
        raise Failure("`command`: expected a list of texts")
    chosen = reference(inputs.image, "image")  # a dash behind it is the command's own affair
    return request(engine, *arguments, "--", chosen, *command, env=env, stdin=stdin, loud=True)


def _limits(options: dict[str, Any]) -> list[str]:
    arguments: list[str] = []
    try:
        if options.get("memory"):
            arguments += ["--memory", str(size(options["memory"]))]
    except ValueError as error:
        raise Failure(f"`memory`: {error}") from None
    if options.get("cpus"):
        arguments += ["--cpus", f"{float(options['cpus']):g}"]
    if options.get("pids"):
        arguments += ["--pids-limit", str(int(options["pids"]))]
    return arguments


def _preview(
    context: Context, image: str, command: list[str] | None = None, engine: Engine = "", **options: Any
) -> Preview:
    client = engine_of(context, engine)
    asked = _request(context, client, _Inputs(image, command or [], {**_DEFAULTS, **options}))
    return Preview(f"run {image} on {client}, network {options.get('network', 'none')}", calls=(asked.shown,))


_DEFAULTS: dict[str, Any] = {"network": "none", "pull": "missing", "memory": "1GiB", "cpus": 2, "pids": 512}


@capability(
    "docker.run",
    risks=(
        "runs a program of an image",
        "network: fetches the image where it is missing, and more if `network` says so",
        "changes files in mounts that are writable",
    ),
    preview=_preview,
    irreversible=True,
    own=("container", "engine"),
    preconditions=("program docker|podman engine",),
)
def run(
    context: Context,
    image: Annotated[str, Doc("the image, by name, digest or id", use="image")],
    command: Annotated[
        list[str] | None, Doc("program and arguments; default: what the image says", use="command")
    ] = None,
    env: Annotated[dict[str, Any] | None, Doc("variables of the container, by name")] = None,
    mounts: Annotated[
        list[Mount] | None, Doc("folders of the working directory: maps of source, target, `write: true`")
    ] = None,
    stdin: Annotated[str, Doc("what the program reads from its standard input")] = "",
    network: Annotated[str, Doc("none, or a network that the engine has, such as bridge")] = "none",
    memory: Annotated[int | str, Doc("limit; empty: none", quantity="size")] = "1GiB",
    cpus: Annotated[float, Doc("limit; 0: none")] = 2,
    pids: Annotated[int, Doc("how many processes there may be; 0: no limit")] = 512,
    user: Annotated[str, Doc("user, or user:group, inside the container")] = "",
    workdir: Annotated[str, Doc("working directory inside the container")] = "",
    entrypoint: Annotated[str, Doc("program in place of the image's own", use="command")] = "",
    read_only: Annotated[bool, Doc("the container may not write outside its mounts")] = False,
    pull: Annotated[Literal["missing", "always", "never"], Doc("when the image is fetched")] = "missing",
    engine: Annotated[Engine, Doc("docker or podman; default: the first of them on the PATH")] = "",
) -> Ran:
    """Run a command in a new container: without network, capabilities and new privileges unless asked for.

    The values of `env` never stand among the arguments. The container is named after the attempt; it is taken away when
    the command ends, when the attempt is stopped, and, if a crash left it behind, before the attempt is made again. An
    exit code other than 0 fails the task.
    """
    client = engine_of(context, engine)
    options = {
        "env": env, "mounts": mounts, "stdin": stdin, "network": network, "memory": memory, "cpus": cpus, "pids": pids,
        "user": user, "workdir": workdir, "entrypoint": entrypoint, "read_only": read_only, "pull": pull,
    }  # fmt: skip
    asked = _request(context, client, _Inputs(image, command or [], options))
    name = _name(context)
    _take_away(context, client, name)
    try:
        ended = call(context, asked, fine=range(256))
    except BaseException:
        _take_away(context._replace(cancelled=lambda: False), client, name, _STOP)
        raise
    ran = Ran(ended.code, bounded(ended.text), bounded(ended.stderr.decode("utf-8", "replace")), name, client)
    if ended.code:
        failure = refused(asked, ended)
        if ended.code != 125:  # 125 is the client's own code, every other one the command's
            failure = Failure(f"the command in the container ended with {ended.code}: {ended.said}".rstrip(": "))
        failure.outputs = ran._asdict()
        raise failure
    return ran


def _take_away(context: Context, engine: str, name: str, timeout: float | None = None) -> None:
    """Remove a container whatever it does; none of that name is fine."""
    asked = request(engine, "rm", "--force", "--volumes", "--", name, timeout=timeout)
    try:
        call(context, asked, fine=(0, 1))
    except Failure as failure:
        if failure.failure == "cancelled":
            raise
