"""Programs by the words that start them: which file a pattern of a policy means, and which programs start others."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

SYSTEM = frozenset("/bin /sbin /usr/bin /usr/sbin /usr/local/bin /usr/local/sbin".split())
"""Folders whose programs are meant by a bare name: no plan writes there."""

LAUNCHERS = frozenset(
    "chpst chrt choom dbus-launch dbus-run-session enable entr eatmydata expect fakechroot fakeroot firejail gdb hash "
    "linux32 linux64 ltrace nsenter numactl pkexec prlimit proot proxychains proxychains4 rlwrap run-parts runuser "
    "screen script setarch setpriv sg softlimit start-stop-daemon strace systemd-inhibit systemd-run tmux torsocks "
    "uname26 unbuffer valgrind x86_64 xvfb-run".split()
)
"""Programs that start the one which their arguments name, beside those that every reader of shell text knows
(``shellcommand.CARRIERS``)."""

_MOVING = frozenset(("cd", "pushd", "popd"))


_BEFORE = {
    "git": "-C -c --git-dir --work-tree --namespace --super-prefix --config-env --exec-path --attr-source",
    "docker": "-H --host -c --context --config -l --log-level --tlscacert --tlscert --tlskey",
    "podman": "--url --connection -c --identity --log-level --root --runroot --storage-driver",
    "kubectl": "-n --namespace --context --cluster --user --kubeconfig -s --server --token --as --request-timeout",
    "helm": "-n --namespace --kube-context --kubeconfig --registry-config --repository-cache",
    "aws": "--profile --region --endpoint-url --output --query",
    "gcloud": "--project --account --configuration --format",
    "npm": "--prefix -C -w --workspace",
    "cargo": "-C --config --color -Z",
    "systemctl": "-H --host -M --machine -t --type",
    "terraform": "",
}
"""Programs with verbs, and those of their options before the verb that take the next word."""


def bare(words: tuple[str, ...]) -> tuple[str, ...]:
    """A command without the options between its program and its verb: ``git -C . push`` pushes."""
    name = os.path.basename(words[0]) if words else ""
    if name not in _BEFORE:
        return words
    taking, at = _BEFORE[name].split(), 1
    while at < len(words) and words[at].startswith("-"):
        at += 2 if words[at] in taking else 1
    return (words[0], *words[at:])


def launches(words: Sequence[str]) -> bool:
    """Whether a program runs what its arguments say, or gives it another name."""
    name = os.path.basename(words[0])
    if name == "git" and any(re.match(r"(?:-c|--config-env=)?alias\.", word, re.IGNORECASE) for word in words[1:]):
        return True
    return name in LAUNCHERS or name.startswith(("ld-linux", "ld-musl", "ld.so"))


def comparable(patterns: Sequence[str], words: tuple[str, ...], every: bool) -> tuple[Sequence[str], tuple[str, ...]]:
    """Patterns and the words of a command with their programs named alike. What denies or asks (``every`` is False) is
    about a program of that name wherever it lies; what allows is about the file that it names: by a bare name the one
    of the system, by a path no other."""
    program = words[0]
    if "{{" in program or "{%" in program:
        return patterns, words
    if not every:
        named = [_headed(each, os.path.basename(_head(each))) for each in patterns]
        return named, (os.path.basename(program), *words[1:])
    if "/" not in program:
        return patterns, words
    meant = [_for(each, program) for each in patterns]
    return [each for each in meant if each], (_plain(program), *words[1:])


def astray(commands: Sequence[Sequence[str]], elsewhere: bool) -> bool:
    """Whether a script names a program by a relative path that does not begin where the run works: its task works
    ``elsewhere``, or the script goes there itself. What allows such a path means the file below the run's directory."""
    moves = elsewhere or any(os.path.basename(words[0]) in _MOVING for words in commands if words)
    return moves and any("/" in words[0] and not words[0].startswith("/") for words in commands if words)


def _for(pattern: str, program: str) -> str:
    """A pattern that allows, for a program that is named by a path; empty where it does not mean that one."""
    head = _head(pattern)
    if head == "*":
        return pattern
    if "/" in head:
        return _headed(pattern, _plain(head)) if ".." not in program.split("/") or head == program else ""
    folder = os.path.dirname(program)
    return _headed(pattern, f"{folder}/{head}") if folder in SYSTEM else ""


def _head(pattern: str) -> str:
    return (pattern.split() or [""])[0]


def _headed(pattern: str, head: str) -> str:
    return " ".join([head, *pattern.split()[1:]])


def _plain(path: str) -> str:
    return path.removeprefix("./")
