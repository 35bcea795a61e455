"""Programs by the words that start them: which pattern of a policy a command fits, which file such a pattern means,
which programs start others, and which packages an installer names.

A list of packages counts by its file: `pip install -r requirements.txt` installs `requirements.txt`, `npm ci`
`package.json`. An install that cannot be read installs ``UNKNOWN``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence

from planrunner.plan.patterns import UNKNOWN, Loose, may_become, words_match, words_may_match
from planrunner.plan.templated import holds_template, is_template
from planrunner.records import Struct

SHELLS = frozenset("sh bash dash ash ksh mksh zsh fish busybox su".split())
CARRIERS = frozenset(
    "env sudo doas nohup timeout nice ionice setsid stdbuf time exec command builtin xargs parallel chroot watch flock "
    "unshare strace taskset caffeinate".split()
)
"""Programs that start the one which their arguments name."""
DECLARING = frozenset("export local readonly".split())
"""Built-in commands that take assignments."""

SYSTEM = frozenset("/bin /sbin /usr/bin /usr/sbin /usr/local/bin /usr/local/sbin".split())
"""Folders whose programs are meant by a bare name: no plan writes there."""

LAUNCHERS = frozenset(
    "chpst chrt choom dbus-launch dbus-run-session enable entr eatmydata expect fakechroot fakeroot firejail gdb hash "
    "linux32 linux64 ltrace nsenter numactl pkexec prlimit proot proxychains proxychains4 rlwrap run-parts runuser "
    "screen script setarch setpriv sg softlimit start-stop-daemon strace systemd-inhibit systemd-run tmux torsocks "
    "uname26 unbuffer valgrind x86_64 xvfb-run".split()
)
"""Programs that do so for a policy, beside ``CARRIERS``."""

_RENAMING = frozenset(". alias enable eval hash source ssh trap".split())
"""What else runs what its arguments say, or gives it another name."""

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


def without_global_options(words: tuple[str, ...]) -> tuple[str, ...]:
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
    if is_template(program):
        return patterns, words
    if not every:
        named = [_headed(each, os.path.basename(_head(each))) for each in patterns]
        return named, (os.path.basename(program), *words[1:])
    if "/" not in program:
        return patterns, words
    meant = [_for(each, program) for each in patterns]
    return [each for each in meant if each], (_plain(program), *words[1:])


def names_program_elsewhere(commands: Sequence[Sequence[str]], elsewhere: bool) -> bool:
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


_STARTING = ("-exec", "-ok")
"""What the actions that start a program begin with."""
_ACTIONS = ("-exec", "-execdir", "-ok", "-okdir")
_TAKING = frozenset(
    "-amin -anewer -atime -cmin -cnewer -ctime -D -fls -fprint -fprint0 -fstype -gid -group -ilname -iname -inum "
    "-ipath -iregex -iwholename -links -lname -maxdepth -mindepth -mmin -mtime -name -newer -path -perm -printf -regex "
    "-regextype -samefile -size -type -uid -used -user -wholename -xtype".split()
)
"""What takes the next word, whatever that says."""


def starts_others(words: Sequence[str]) -> bool | None:
    """Whether one of the arguments starts a program; None where a word that is not known may be such an action."""
    if any(word.startswith(_STARTING) for word in words):
        return True
    taken, sure = False, True
    for word in words:
        if isinstance(word, Loose):
            if UNKNOWN in word or any(may_become(word, each) for each in _ACTIONS):
                return None
            taken, sure = False, sure and not any(may_become(word, each) for each in _TAKING)
        elif taken:
            taken = False
        elif is_template(word) and _may_start(re.split(r"\{[{%]", word)[0]):
            return None
        else:
            taken = sure and word in _TAKING
    return False


def _may_start(begins: str) -> bool:
    return any(each.startswith(begins) for each in _ACTIONS)


class _Installer(Struct):
    """``verbs`` are the words behind the program that install what follows; ``taking`` are options whose value names no
    package, ``lists`` those whose value is one, or a list; ``alone`` is the list that is meant without names."""

    verbs: tuple[str, ...]
    taking: frozenset[str] = frozenset()
    lists: frozenset[str] = frozenset()
    alone: str = ""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_PIP = _Installer(
    ("install", "download", "wheel"),
    _words(
        "-c --constraint -i --index-url --extra-index-url -t --target -f --find-links -d --dest -w --wheel-dir "
        "--prefix --root --src --platform --python-version --python -p --proxy --cache-dir --timeout --retries "
        "--trusted-host --upgrade-strategy --no-binary --only-binary --report --log --cert --group --extra --optional"
    ),
    _words("-r --requirement --requirements -e --editable --with"),
)
_NODE = _Installer(
    ("install", "i", "add", "ci", "exec", "dlx", "x"),
    _words("--prefix -C --cwd -w --workspace --registry --filter --tag --cache --loglevel"),
    _words("-p --package"),
    "package.json",
)
_ROOT = _words("-t --target-release -o --option -c --config-file --repo --enablerepo --disablerepo -X --repository")
_INSTALLERS = {
    "pip": _PIP,
    "uv": _PIP._replace(verbs=("pip install", "add", "tool install", "tool run", "sync"), alone="pyproject.toml"),
    "uvx": _PIP._replace(verbs=("",)),
    "pipx": _PIP._replace(verbs=("install", "run", "inject")),
    "poetry": _PIP._replace(verbs=("add", "install"), alone="pyproject.toml"),
    "pdm": _PIP._replace(verbs=("add", "install", "sync"), alone="pyproject.toml"),
    "conda": _Installer(("install", "create"), _words("-n --name -p --prefix -c --channel"), _words("--file -f")),
    "npm": _NODE,
    "pnpm": _NODE,
    "yarn": _NODE._replace(verbs=("add", "install", "global add", "dlx")),
    "bun": _NODE,
    "npx": _NODE._replace(verbs=("",), alone=""),
    "gem": _Installer(("install",), _words("-v --version -i --install-dir --source"), alone="Gemfile"),
    "bundle": _Installer(("install", "add"), _words("-v --version --source --path"), alone="Gemfile"),
    "cargo": _Installer(
        ("install", "add"), _words("--version --root --features -F --rev --branch --tag"), _words("--git --path")
    ),
    "go": _Installer(("install", "get")),
    "apt-get": _Installer(("install", "build-dep"), _ROOT),
    "apk": _Installer(("add",), _ROOT),
    "dnf": _Installer(("install", "groupinstall"), _ROOT),
    "brew": _Installer(("install",), alone="Brewfile"),
    "composer": _Installer(("require", "install"), _words("-d --working-dir"), alone="composer.json"),
}
_ALIKE = {
    "pip3": "pip",
    "apt": "apt-get",
    "mamba": "conda",
    "micromamba": "conda",
    "yum": "dnf",
    "pnpx": "npx",
    "bunx": "npx",
}
_FIRST_ALONE = frozenset(("npx", "uvx", "pipx"))
"""Programs that take one package and hand it the words behind."""

_UNREAD = re.compile(
    rf"(?<![\w.-])(?:{'|'.join(map(re.escape, sorted({*_INSTALLERS, *_ALIKE} - {'npx', 'uvx', 'pnpx', 'bunx'})))})"
    r"(?:\d[\d.]*)?\s+(?:[-\w./=]+\s+){0,4}?(?:install|i|add|ci|get|require|sync)\b|(?<![\w.-])(?:npx|uvx|pnpx|bunx)\s"
)


def installed(commands: Sequence[Sequence[str]] | None, text: str) -> Iterator[str]:
    """The packages that commands install, each by its name without a version, or the list or address that names them.
    Where the commands cannot be told (None), ``text`` is searched for an install."""
    if commands is None:
        yield from _unread(text)
        return
    for words in commands:
        if words:
            yield from _of_command(tuple(words))


def _unread(text: str) -> Iterator[str]:
    if _UNREAD.search(text):
        yield UNKNOWN


def _of_command(words: tuple[str, ...]) -> Iterator[str]:
    program = os.path.basename(words[0])
    if program in CARRIERS or program in SHELLS or program in LAUNCHERS:
        for at in range(1, len(words)):
            if _installer(words[at:]) is not None:
                yield from _of_command(words[at:])
                return
        yield from _unread(" ".join(words[1:]))
        return
    named = _installer(words)
    if named is not None:
        installer, rest = named
        first = program in _FIRST_ALONE or rest[:1] == ("x",)
        names = list(_named(installer, rest))
        yield from names[:1] if first else names or ([installer.alone] if installer.alone else [])


def _installer(words: tuple[str, ...]) -> tuple[_Installer, tuple[str, ...]] | None:
    """Which installer a command is, and the words behind its verb."""
    program = os.path.basename(words[0])
    if re.fullmatch(r"python[\d.]*|py", program):
        if words[1:2] != ("-m",) or len(words) < 3:
            return None
        return _installer(words[2:])
    program = re.sub(r"^pip[\d.]+$", "pip", program)
    installer = _INSTALLERS.get(_ALIKE.get(program, program))
    if installer is None:
        return None
    words = without_global_options(words)
    at = 1
    while installer.verbs != ("",) and at < len(words) and words[at].startswith("-"):
        at += 2 if words[at] in installer.taking else 1
    for verb in installer.verbs:
        parts = tuple(verb.split())
        if words[at : at + len(parts)] == parts:
            return installer, words[at + len(parts) :]
    return None


def _named(installer: _Installer, words: Sequence[str]) -> Iterator[str]:
    waiting = iter(words)
    for word in waiting:
        option, given, value = word.partition("=")
        if option in installer.lists:
            yield package(value if given else next(waiting, UNKNOWN))
        elif word in installer.taking:
            next(waiting, None)
        elif word == "--":
            continue
        elif not word.startswith("-"):
            yield package(word)


def package(word: str) -> str:
    """The name of a package without its version and extras; an address or a path as it is."""
    if UNKNOWN in word or "://" in word or word.startswith((".", "/", "~")):
        return UNKNOWN if UNKNOWN in word else word
    scope = re.match(r"@[\w.-]+/[\w.-]+", word)
    found = scope or re.match(r"\s*[A-Za-z0-9][A-Za-z0-9._/-]*", word)
    return found[0].strip() if found else UNKNOWN


def words_fit(patterns: Sequence[str], words: tuple[str, ...], every: bool) -> bool | None:
    """Whether a command of these words fits a pattern (None: a word that is not known may decide it); with ``every``
    all that it runs has to."""
    if words:
        if not every and launches(words):
            return True
        patterns, words = comparable(patterns, words, every)
        if not every and (plain := without_global_options(words)) != words:
            answers = (words_fit(patterns, plain, every), _as_written(patterns, words, every))
            return True if True in answers else None if None in answers else False
    return _as_written(patterns, words, every)


def _as_written(patterns: Sequence[str], words: tuple[str, ...], every: bool) -> bool | None:
    if not every and (carries := _carries(words)) is not False:
        return carries
    known = not any(map(holds_template, words))
    if known and any(words_match(pattern, words) for pattern in patterns):
        return True
    if known and (every or not any(isinstance(word, Loose) for word in words)):
        return False  # what allows a pattern of files allows what it is written as
    words = tuple(word if isinstance(word, Loose) or not holds_template(word) else "*" for word in words)
    return None if any(words_may_match(pattern, words) for pattern in patterns) else False


def _carries(words: tuple[str, ...]) -> bool | None:
    """Whether a command runs another that its arguments name (None: a word that is not known may say so): it is judged
    like a script that cannot be read."""
    if words[:1] == ("find",):
        return starts_others(words[1:])
    return bool(words) and (words[0] in CARRIERS or words[0] in SHELLS or words[0] in _RENAMING)
