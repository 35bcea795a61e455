"""Stand-ins for docker, podman and kubectl, for machines that have no engine and no cluster.

    python plans/playbooks/parts/deploy/recording_clients.py FOLDER

puts three programs of these names into FOLDER. Each of them is strict: it takes the options it knows and no others, in
the place where they belong, and answers out of `FOLDER/world.json`, where images and objects are kept. What
it was asked goes to `FOLDER/calls.jsonl`, a line for each call: arguments, standard input, environment. They show that
the right things are asked; what a real engine would do about it they do not show.

Where `world.json` has `"controlled": true` an image holds the files of its folder, and a Deployment is ready when a
program beside them has written so into its status; `kubectl rollout status` waits for that.
"""

from __future__ import annotations

import fcntl
import json
import os
import site
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from importlib import import_module
from typing import Any

NAMES = ("docker", "podman", "kubectl")
GLOBAL = {"kubectl": {"--context", "--namespace"}}

# For each command: options with a value, options without, and how many words stand behind `--` (None: any number).
COMMANDS: dict[str, tuple[str, str, tuple[int, int | None]]] = {
    "docker image inspect": ("", "", (1, 1)),
    "docker image tag": ("", "", (2, 2)),
    "docker image rm": ("", "--force", (1, 1)),
    "docker image save": ("--output", "", (1, 1)),
    "docker image load": ("--input", "", (0, 0)),
    "docker push": ("--digestfile", "", (1, 1)),
    "docker build": (
        "--tag --label --file --build-arg --secret --target --platform --network",
        "--pull --no-cache",
        (1, 1),
    ),
    "docker rm": ("", "--force --volumes", (1, 1)),
    "docker run": (
        (
            "--name --label --pull --network --cap-drop --security-opt --memory --cpus --pids-limit --user --workdir "
            "--entrypoint --env --mount"
        ),
        "--rm --init --read-only --interactive",
        (1, None),
    ),
    "kubectl get": ("--filename --output --selector", "--ignore-not-found", (0, 2)),
    "kubectl create": ("--filename --output --field-manager --dry-run --validate", "", (0, 0)),
    "kubectl diff": ("--filename --field-manager", "--server-side --force-conflicts", (0, 0)),
    "kubectl apply": ("--filename --output --field-manager --dry-run", "--server-side --force-conflicts", (0, 0)),
    "kubectl replace": ("--filename --field-manager", "", (0, 0)),
    "kubectl delete": ("--filename --wait", "--ignore-not-found", (0, 0)),
    "kubectl rollout status": ("--watch --timeout", "", (1, 1)),
    "kubectl rollout undo": ("--to-revision", "", (1, 1)),
}


def read(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()


def write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def copied(value: Any) -> Any:
    return json.loads(json.dumps(value))


class Refused(Exception):
    """The client ends with a code and a message."""

    def __init__(self, message: str, code: int = 1, out: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.out = out


class Asked:
    """A call as it was understood."""

    def __init__(self, program: str, arguments: list[str]) -> None:
        rest = list(arguments)
        self.globals: dict[str, str] = {}
        while rest and rest[0] in GLOBAL.get(program, ()):
            self.globals[rest[0]] = rest[1]
            del rest[:2]
        family = "docker" if program == "podman" else program
        words = next((n for n in (2, 1) if f"{family} {' '.join(rest[:n])}" in COMMANDS), 0)
        if not words:
            raise Refused(f"unknown command: {' '.join(arguments[:3])}", 2)
        self.command = f"{family} {' '.join(rest[:words])}"
        self.options: dict[str, list[str]] = {}
        self.words: list[str] = []
        self._read(rest[words:])

    def _read(self, rest: list[str]) -> None:
        valued, plain, (fewest, most) = COMMANDS[self.command]
        while rest and rest[0] != "--":
            name, equals, value = rest.pop(0).partition("=")
            if name in plain.split() and not equals:
                value = "true"
            elif name in valued.split():
                value = value if equals else rest.pop(0) if rest else ""
            else:
                raise Refused(f"unknown flag: {name}", 2)
            self.options.setdefault(name, []).append(value)
        self.words = rest[1:]
        if len(self.words) < fewest or (most is not None and len(self.words) > most):
            raise Refused(f"`{self.command}` takes {fewest} to {most} words after `--`, not {len(self.words)}", 2)

    def one(self, name: str) -> str:
        return self.options.get(name, [""])[-1]

    def has(self, name: str) -> bool:
        return name in self.options


class NotYet(Exception):
    """A rollout is not complete; what is asked has to be asked again."""


def answer(asked: Asked, stdin: str, world: dict[str, Any]) -> str:
    """What a call prints; the world is changed in place."""
    program, _, verb = asked.command.partition(" ")
    act: dict[str, Any] = {"docker": docker, "kubectl": kubectl}
    return str(act[program](verb, asked, stdin, world))


# Images and containers


def docker(verb: str, asked: Asked, stdin: str, world: dict[str, Any]) -> str:
    images: dict[str, Any] = world.setdefault("images", {})
    if verb == "image inspect":
        found = image(images, asked.words[0])
        return json.dumps([{"Id": found, "Size": 42, **images[found]}])
    if verb == "build":
        return build(asked, images, bool(world.get("controlled")))
    if verb == "image tag":
        name(images, image(images, asked.words[0]), asked.words[1])
    elif verb == "image rm":
        return remove(images, asked)
    elif verb == "image save":
        found = image(images, asked.words[0])
        write(asked.one("--output"), json.dumps({found: images[found]}))
    elif verb == "image load":
        for found, data in json.loads(read(asked.one("--input"))).items():
            images[found] = {**data, "RepoTags": []}
            for tag in data["RepoTags"]:
                name(images, found, tag)
    elif verb == "push":
        digest = "sha256:" + sha256(image(images, asked.words[0]).encode()).hexdigest()
        if asked.has("--digestfile"):
            write(asked.one("--digestfile"), digest)
        return f"latest: digest: {digest} size: 42\n"
    elif verb == "rm":
        world.setdefault("containers", {}).pop(asked.words[0], None)
    elif verb == "run":
        return run(asked, stdin, world)
    return ""


def full(tag: str) -> str:
    return tag if ":" in tag.rpartition("/")[2] or tag.startswith("sha256:") else f"{tag}:latest"


def image(images: dict[str, Any], wanted: str) -> str:
    if wanted in images:
        return wanted
    found = next((key for key, data in images.items() if full(wanted) in data["RepoTags"]), "")
    if not found:
        raise Refused(f"Error: No such image: {wanted}", 1, "[]\n")
    return found


def name(images: dict[str, Any], key: str, tag: str) -> None:
    for data in images.values():
        data["RepoTags"] = [each for each in data["RepoTags"] if each != full(tag)]
    images[key]["RepoTags"].append(full(tag))


def build(asked: Asked, images: dict[str, Any], whole: bool) -> str:
    labels = dict(label.split("=", 1) for label in asked.options.get("--label", []))
    given = {each: os.environ[each] for each in asked.options.get("--build-arg", [])}
    file = read(asked.one("--file") or f"{asked.words[0]}/Dockerfile")
    if "RUN false" in file:
        raise Refused("The command '/bin/sh -c false' returned a non-zero code: 1", 1, "Step 2/2 : RUN false\n")
    files = {"Files": files_of(asked.words[0])} if whole else {}
    key = "sha256:" + sha256(json.dumps([file, labels, given, files]).encode()).hexdigest()
    images.setdefault(key, {"RepoTags": [], "Config": {"Labels": labels}, **files})
    name(images, key, asked.one("--tag"))
    return f"Successfully built {key[7:19]}\n"


def files_of(folder: str) -> dict[str, str]:
    return {entry.name: read(entry.path) for entry in sorted(os.scandir(folder), key=str) if entry.is_file()}


def remove(images: dict[str, Any], asked: Asked) -> str:
    wanted = asked.words[0]
    key = image(images, wanted)
    tags = images[key]["RepoTags"]
    if wanted == key and len(tags) > 1 and not asked.has("--force"):
        raise Refused(f"conflict: unable to delete {key[7:19]} (must be forced) - it has several names")
    left = [] if wanted == key else [tag for tag in tags if tag != full(wanted)]
    images[key]["RepoTags"] = left
    if not left:
        del images[key]
    return f"Untagged: {wanted}\n"


def run(asked: Asked, stdin: str, world: dict[str, Any]) -> str:
    if asked.words[0] not in ("alpine:3", *(tag for data in world["images"].values() for tag in data["RepoTags"])):
        raise Refused(f"docker: Error response from daemon: pull access denied for {asked.words[0]}", 125)
    containers = world.setdefault("containers", {})
    if asked.one("--name") in containers:
        raise Refused("docker: Error response from daemon: Conflict. The container name is already in use", 125)
    told = asked.words[1:]
    if told[:1] == ["echo"]:
        return " ".join(told[1:]) + "\n"
    if told[:1] == ["env"]:
        return "".join(f"{each}={os.environ[each]}\n" for each in asked.options.get("--env", []))
    if told[:1] == ["cat"]:
        return stdin
    if told[:1] == ["sleep"]:
        containers[asked.one("--name")] = "running"
        raise Sleeping(float(told[1]))
    raise Refused("nothing of the kind in this image", 127 if told else 0)


class Sleeping(Exception):
    """The container runs for a while; the world is put down before."""


# Objects of a cluster


def kubectl(verb: str, asked: Asked, stdin: str, world: dict[str, Any]) -> str:
    objects: dict[str, Any] = world.setdefault("objects", {})
    space = asked.globals.get("--namespace", "default")
    given = parsed(stdin) if asked.one("--filename") == "-" else []
    for each in given:
        each.setdefault("metadata", {}).setdefault("namespace", space)
    if verb == "create" and asked.one("--dry-run") == "client":
        return listed(given)
    if verb == "get":
        return listed(found(objects, asked, given, space))
    if verb == "diff":
        lines = [line for each in given for line in difference(objects.get(key_of(each)), each)]
        if lines:
            raise Refused("", 1, "".join(f"{line}\n" for line in lines))
    elif verb in ("apply", "create", "replace"):
        world = copied(world) if asked.one("--dry-run") == "server" else world
        return listed([store(world, each, asked.one("--field-manager"), verb) for each in given])
    elif verb == "delete":
        for each in given:
            objects.pop(key_of(each), None)
    elif verb == "rollout status":
        held = objects[only(objects, asked.words[0], space)]
        if "stall" in held["metadata"].get("labels", {}):
            raise Refused("error: timed out waiting for the condition")
        if world.get("controlled") and not is_complete(held):
            raise NotYet
        return f"{asked.words[0]} successfully rolled out\n"
    elif verb == "rollout undo":
        return roll_back(world, only(objects, asked.words[0], space), int(asked.one("--to-revision")))
    return ""


def is_complete(held: dict[str, Any]) -> bool:
    status, wanted = held.get("status", {}), held["spec"].get("replicas", 1)
    ready = min(status.get("updatedReplicas", 0), status.get("availableReplicas", 0))
    return bool(status.get("observedGeneration") == held["metadata"]["generation"] and ready >= wanted)


def parsed(stdin: str) -> list[dict[str, Any]]:
    try:
        documents = [json.loads(stdin)]
    except ValueError:
        site.main()  # the programs start without what is installed, which only this needs
        yaml = import_module("ruamel.yaml").YAML(typ="safe")
        documents = [json.loads(json.dumps(document)) for document in yaml.load_all(stdin) if document]
    return [each for one in documents for each in (one["items"] if one["kind"] == "List" else [one])]


def key_of(each: dict[str, Any]) -> str:
    return f"{each['kind']}/{each['metadata'].get('namespace', 'default')}/{each['metadata']['name']}"


def only(objects: dict[str, Any], word: str, space: str) -> str:
    kind, _, called = word.partition("/")
    wanted = f"{kind.partition('.')[0]}/{space}/{called}".lower()
    match = next((key for key in objects if key.lower() == wanted), "")
    if not match:
        raise Refused(f'Error from server (NotFound): {word} "{called}" not found')
    return match


def found(objects: dict[str, Any], asked: Asked, given: list[Any], space: str) -> list[dict[str, Any]]:
    if given:
        return [objects[key_of(each)] for each in given if key_of(each) in objects]
    kind = asked.words[0] if "/" not in asked.words[0] else asked.words[0].partition("/")[0]
    called = asked.words[0].partition("/")[2] or (asked.words[1] if len(asked.words) > 1 else "")
    label = dict([asked.one("--selector").split("=")]) if asked.has("--selector") else {}
    kinds = {kind.partition(".")[0], kind.partition(".")[0].removesuffix("s")}
    return [
        each
        for key, each in sorted(objects.items())
        if key.lower().split("/")[:2] in [[one, space] for one in kinds]
        and called in ("", each["metadata"]["name"])
        and label.items() <= each["metadata"].get("labels", {}).items()
    ]


def listed(objects: list[dict[str, Any]]) -> str:
    shown = copied(objects)
    if len(shown) < 2:
        return json.dumps(shown[0]) if shown else ""
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": shown})


def difference(old: dict[str, Any] | None, new: dict[str, Any]) -> list[str]:
    if old is not None and all(old.get(part) == new[part] for part in new if part != "metadata"):
        return []
    return [f"+++ {key_of(new)}", *(f"+{part}: {json.dumps(new[part])}" for part in sorted(new) if part != "metadata")]


def store(world: dict[str, Any], new: dict[str, Any], manager: str, verb: str) -> dict[str, Any]:
    objects, key = world["objects"], key_of(new)
    old = objects.get(key)
    if verb == "create" and old is not None:
        raise Refused(f"Error from server (AlreadyExists): {key} already exists")
    if verb == "replace" and (
        old is None or new["metadata"].get("resourceVersion") != old["metadata"]["resourceVersion"]
    ):
        raise Refused("Error from server (Conflict): the object has been modified")
    clock = world["clock"] = world.get("clock", 0) + 1
    meta = {**(old or {}).get("metadata", {}), **new["metadata"]} if verb == "apply" else dict(new["metadata"])
    same = old is not None and verb == "apply" and not difference(old, new)
    if same:
        return dict(old or {})
    meta |= {
        "uid": (old or {}).get("metadata", {}).get("uid", f"uid-{clock}"),
        "resourceVersion": str(clock),
        "generation": (old or {}).get("metadata", {}).get("generation", 0) + 1,
        "creationTimestamp": (old or {}).get("metadata", {}).get("creationTimestamp", stamp(clock)),
    }
    whole = {**(old or {}), **new, "metadata": meta} if verb == "apply" else {**new, "metadata": meta}
    if new["kind"] == "Deployment":
        number = len(world.setdefault("rollouts", {}).setdefault(key, [])) + 1
        world["rollouts"][key].append(copied(whole["spec"]))
        meta["annotations"] = {**meta.get("annotations", {}), "deployment.kubernetes.io/revision": str(number)}
        count = whole["spec"].get("replicas", 1)
        ready = dict.fromkeys(("updatedReplicas", "availableReplicas", "readyReplicas"), count)
        if not world.get("controlled"):
            whole["status"] = {"observedGeneration": meta["generation"], **ready}
        elif old is not None:
            whole["status"] = old.get("status", {})
    objects[key] = whole
    return whole


def roll_back(world: dict[str, Any], key: str, revision: int) -> str:
    specs = world["rollouts"][key]
    if len(specs) < 2 or revision > len(specs):
        raise Refused("error: no rollout history found")
    held = copied(world["objects"][key])
    held["spec"] = copied(specs[revision - 1] if revision else specs[-2])
    store(world, held, "kubectl-rollout", "replace")
    return f"{key} rolled back\n"


def stamp(clock: int) -> str:
    return f"2026-01-01T{clock // 3600:02}:{clock // 60 % 60:02}:{clock % 60:02}Z"


# The programs


@contextmanager
def locked(folder: str) -> Iterator[None]:
    """The world and the calls for one program alone."""
    with open(f"{folder}/lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def main(folder: str, program: str, *arguments: str) -> int:
    stdin = "" if sys.stdin.isatty() else sys.stdin.read()
    with locked(folder), open(f"{folder}/calls.jsonl", "a", encoding="utf-8") as calls:
        line = {"program": program, "arguments": list(arguments), "stdin": stdin, "env": dict(os.environ)}
        calls.write(json.dumps(line) + "\n")
    started = time.monotonic()
    while True:
        try:
            return asked_once(folder, program, arguments, stdin)
        except NotYet:
            limit = next((word[10:-1] for word in arguments if word.startswith("--timeout=")), "300")
            if time.monotonic() - started > float(limit):
                print("error: timed out waiting for the condition", file=sys.stderr)
                return 1
            time.sleep(0.05)


def asked_once(folder: str, program: str, arguments: tuple[str, ...], stdin: str) -> int:
    """Answer out of the world, and put it down as it is then. Raises NotYet, with nothing changed."""
    with locked(folder):
        path = f"{folder}/world.json"
        world = json.loads(read(path)) if os.path.exists(path) else {}
        code, pause = 0, float(world.get("pause", 0))
        try:
            asked = Asked(program, list(arguments))
            fault = world.get("faults", {}).get(f"{asked.command}")
            if fault:
                raise Refused(fault, 1)
            print(answer(asked, stdin, world), end="")
        except Sleeping as sleeping:
            pause = sleeping.args[0]
        except Refused as refused:
            print(refused.out, end="")
            print(refused, file=sys.stderr)
            code = refused.code
        write(f"{path}.new", json.dumps(world))
        os.replace(f"{path}.new", path)
    time.sleep(pause)
    return code


def install(folder: str) -> None:
    """Put the programs into a folder that is then first on the PATH."""
    os.makedirs(folder, exist_ok=True)
    home = os.path.abspath(folder)
    write(f"{home}/recording_clients.py", read(__file__))
    start = (
        "import sys; sys.path.insert(0, sys.argv[1]); import recording_clients as r; sys.exit(r.main(*sys.argv[1:]))"
    )
    for program in NAMES:
        path = f"{home}/{program}"
        write(path, f'#!/bin/sh\nexec "{sys.executable}" -I -S -c "{start}" "{home}" {program} "$@"\n')
        os.chmod(path, 0o755)  # noqa: S103 - a program


if __name__ == "__main__":
    install(sys.argv[1])
