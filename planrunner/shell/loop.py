"""The shell: lines are carried out one by one, by the commands of the command line and a few of its own."""

from __future__ import annotations

import os
import re
import shlex
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from planrunner.app.follow.summaries import recent
from planrunner.app.history.replay import history
from planrunner.app.history.show import look
from planrunner.app.queue.asking import items
from planrunner.caller import PROFILE_VARIABLE
from planrunner.errors import INTERRUPTED, OK, NotFound, PlanrunnerError, UsageError
from planrunner.escapes import harmless
from planrunner.plan.nearest import nearest
from planrunner.records import Struct
from planrunner.shell.attach import attach, awaited
from planrunner.shell.editing import Edit, Editor
from planrunner.shell.profiles import ShellProfile, chosen, shell_profiles
from planrunner.shell.recording import Recording
from planrunner.shell.session import MAIN, Session, sessions
from planrunner.shell.stepper import Stepper
from planrunner.views.terminal import Terminal, plural


class Found(Struct):
    """A candidate of completion: what stands for the word, what it is, and whether files are wanted instead."""

    value: str
    text: str = ""
    files: bool = False


class Commands(Struct):
    """The command line, as its door hands it in: ``run`` carries a command out and gives its exit code, ``complete``
    gives candidates for a word after others, ``table`` the names of commands with their help."""

    run: Callable[[Sequence[str]], int]
    complete: Callable[[Sequence[str], str], list[Found]]
    table: tuple[tuple[str, str], ...]


class Place(NamedTuple):
    """Where a shell is: the directory of the project, its state directory, and the terminal that it writes to."""

    root: str
    state: str
    screen: Terminal


Ask = Callable[[str], str]
"""Asks for a line after a prompt. Raises EOFError at the end of input, KeyboardInterrupt for Ctrl-C."""

OWN: tuple[tuple[str, str], ...] = (
    ("attach [RUN]", "show a run live; Ctrl-C leaves it, and it continues"),
    ("step [RUN]", "step through a recorded run, with breakpoints"),
    ("edit-last [RUN]", "edit the plan of a run, check it, and continue with it"),
    ("use RUN", "choose the run that commands mean when they name none"),
    ("queue [PLAN …]", "list the queue, or add a run of PLAN to it"),
    ("run-queue", "run what waits in the queue until all runs are over or wait for people"),
    ("queue-status", "show what runs and waits"),
    ("history [N]", "list the last N lines of this session"),
    ("again [N]", "carry out the last line again, or line N"),
    ("session [NAME]", "list the sessions, or go to one"),
    ("profile [NAME]", "list the profiles of the shell, or take one"),
    ("help [COMMAND]", "list the commands, or explain one"),
    ("exit", "leave; the session is kept"),
)
"""The commands of the shell itself, each with what it does."""

_SYNONYMS = {"sessions": "session", "?": "help", "quit": "exit"}
_OWN = (*dict.fromkeys(usage.split()[0] for usage, _ in OWN), *_SYNONYMS)
"""The words for them: ``edit-last`` is ``Shell.do_edit_last``."""
_AT_HAND = ("show", "logs", "events", "resume", "retry", "pause")
"""Commands that mean the run at hand where no run follows."""
_RUN = re.compile(r"last|\d{8}(-.*)?")
_DEEPEST = 10
"""Aliases of aliases."""
_LISTED = 20
_PARTS_OF_QUEUE = ("list", "add", "cancel", "pause", "resume")


class Shell:
    """A session at work. ``over`` is set by ``exit``; ``code`` is the exit code of the last line."""

    __slots__ = ("_ask", "_place", "code", "commands", "over", "profile", "session", "stepper")

    def __init__(self, place: Place, commands: Commands, ask: Ask, profile: ShellProfile, session: str = "") -> None:
        """Raises as ``Session``."""
        self._place = place
        self._ask = ask
        self.commands = commands
        self.session = Session(place.state, session or profile.session or profile.name or MAIN)
        self.stepper: Stepper | None = None
        self.over = False
        self.code = OK
        self.profile = profile
        self._take(profile)

    @property
    def prompt(self) -> str:
        """What stands before the line."""
        if self.stepper is not None:
            return self.stepper.prompt
        return f"{os.path.basename(self._place.root)}> "

    @property
    def aliases(self) -> dict[str, str]:
        return dict(self.profile.aliases)

    def greet(self) -> None:
        """Say where the shell is, then carry out the lines that its profile begins with."""
        session = self.session
        kept = f", {plural(len(session.lines), 'line')} kept" if session.lines else ""
        under = f", profile {self.profile.name}" if self.profile.name else ""
        self.say(f"planrunner shell in {self._place.root}: session {session.name}{kept}{under}; `help` lists commands")
        for line in self.profile.start:
            self.say(f"{self.prompt}{harmless(line)}")
            self.carry_out(line)

    def carry_out(self, line: str) -> int:
        """Carry a line out, say what goes wrong, and keep it in the session; its exit code."""
        if self.stepper is not None:
            self.code = self._guarded(lambda: self._stepped(line))
            return self.code
        if not line.strip():
            return self.code
        self.code = self._guarded(lambda: self._done(line.strip(), 0))
        self._guarded(lambda: self._kept(line))
        return self.code

    def say(self, text: str) -> None:
        self._place.screen.write(f"{text}\n")

    def newest(self) -> str:
        """The id of the run that was asked for last, in the queue or begun; empty where there is none."""
        state = self._place.state
        begun = [(run.created, run.run) for run in recent(state, limit=1)]
        queued = [(each.enqueued, each.run) for each in items(("waiting", "starting"), state=state)]
        return max((*begun, *queued), default=(0.0, ""))[1]

    def _kept(self, line: str) -> int:
        if not line.startswith(" "):
            self.session.add(line.strip(), self.code)
        return OK

    def _guarded(self, act: Callable[[], int]) -> int:
        """The exit code of an act; what goes wrong is told in a sentence."""
        try:
            return act()
        except PlanrunnerError as error:
            self.say(f"error: {harmless(error.message)}")
            if error.hint:
                self.say(f"  {harmless(error.hint)}")
            return error.exit_code
        except KeyboardInterrupt:
            self.say("interrupted")
            return INTERRUPTED

    def _done(self, line: str, depth: int) -> int:
        words = _words(line)
        name, arguments = words[0].removeprefix("/"), words[1:]
        if name == "planrunner" and arguments:
            name, arguments = arguments[0], arguments[1:]
        if name in self.aliases:
            if depth == _DEEPEST:
                raise UsageError(f"the alias `{name}` leads back to itself")
            rest = " ".join(map(shlex.quote, arguments))
            return self._done(f"{self.aliases[name]} {rest}".strip(), depth + 1)
        if name in _OWN:
            own: Callable[[Sequence[str]], int] = getattr(self, f"do_{_SYNONYMS.get(name, name).replace('-', '_')}")
            return own(arguments)
        if not any(name == known for known, _ in self.commands.table) and not name.startswith("-"):
            close = nearest(name, [*(known for known, _ in self.commands.table), *_OWN, *self.aliases])
            meant = f", did you mean `{close}`?" if close is not None else ""
            raise UsageError(f"no command `{name}`{meant}", "`help` lists the commands")
        if name in _AT_HAND and self.session.run and not _names_run(arguments):
            arguments = [self.session.run, *arguments]
        return self._run([name, *arguments])

    def _run(self, words: Sequence[str]) -> int:
        """A command of the command line. A run that it began is the one at hand from then on."""
        before = self.newest()
        code = self.commands.run(words)
        if (after := self.newest()) != before:
            self.session.choose(after)
        return code

    def _at_hand(self, arguments: Sequence[str], usage: str) -> str:
        """The run that is meant. Raises UsageError for more than one word."""
        if len(arguments) > 1:
            raise UsageError("one run at most", usage)
        return arguments[0] if arguments else self.session.run or "last"

    def do_attach(self, arguments: Sequence[str]) -> int:
        run = self._at_hand(arguments, "attach [RUN]")
        try:
            run = awaited(run, self._place.state, self.say)
            self.session.choose(run)
            return attach(run, self._place.state, self._place.screen)
        except KeyboardInterrupt:
            self.say(f"\nleft run {run}; `attach` shows it again")
            return OK

    def do_step(self, arguments: Sequence[str]) -> int:
        recording = Recording(history(self._at_hand(arguments, "step [RUN]"), self._place.state))
        self.stepper = Stepper(recording, self._place.screen, self.session.keep_breakpoints)
        for left in self.stepper.restore(self.session.breakpoints):
            self.say(left)
        entries = len(recording.entries)
        self.say(f"run {recording.run_id}: {entries:,} entries; `help` lists what to type, `quit` leaves")
        return OK

    def _stepped(self, line: str) -> int:
        assert self.stepper is not None
        for text in self.stepper.do(line):
            self.say(text)
        if self.stepper.over:
            self.stepper = None
        return OK

    def do_edit_last(self, arguments: Sequence[str]) -> int:
        looked = look(self._at_hand(arguments, "edit-last [RUN]"), self._place.state)
        words = Editor(self.commands.run, self._ask, self.say).edit(Edit.of(looked))
        return self._run(words) if words else OK

    def do_use(self, arguments: Sequence[str]) -> int:
        if not arguments:
            raise UsageError("`use` needs a run", "use RUN")
        self.session.choose(look(self._at_hand(arguments, "use RUN"), self._place.state).row.run)
        return self._run(["show", self.session.run])

    def do_queue(self, arguments: Sequence[str]) -> int:
        is_plan = arguments and not arguments[0].startswith("-") and arguments[0] not in _PARTS_OF_QUEUE
        return self._run(["queue", *(["add"] if is_plan else []), *arguments])

    def do_run_queue(self, arguments: Sequence[str]) -> int:
        return self._run(["worker", "--until-waiting", *arguments])

    def do_queue_status(self, arguments: Sequence[str]) -> int:
        return self._run(["queue", "list", *arguments])

    def do_history(self, arguments: Sequence[str]) -> int:
        count = _number(arguments, "history [N]") or _LISTED
        lines = self.session.lines
        for number in range(max(0, len(lines) - count), len(lines)):
            line = lines[number]
            moment = time.strftime("%Y-%m-%d %H:%M", time.localtime(line.at))
            self.say(f"{number + 1:>5}  {moment}  {line.code:>3}  {harmless(line.text)}")
        return OK

    def do_again(self, arguments: Sequence[str]) -> int:
        lines = [line for line in self.session.lines if line.text.split()[0].removeprefix("/") != "again"]
        number = _number(arguments, "again [N]")
        if number:
            lines = self.session.lines[number - 1 : number]
        if not lines:
            raise NotFound("there is no such line in this session", "`history` lists them")
        self.say(f"{self.prompt}{harmless(lines[-1].text)}")
        return self._done(lines[-1].text, 1)

    def do_session(self, arguments: Sequence[str]) -> int:
        if arguments:
            self.session = Session(self._place.state, arguments[0])
            self.say(f"session {self.session.name}, {plural(len(self.session.lines), 'line')} kept")
            return OK
        for name in dict.fromkeys((self.session.name, *sessions(self._place.state))):
            self.say(f"{'*' if name == self.session.name else ' '} {harmless(name)}")
        return OK

    def do_profile(self, arguments: Sequence[str]) -> int:
        profiles = shell_profiles(self._place.root)
        if arguments:
            self._take(chosen(profiles, arguments[0]))
            self.say(f"profile {self.profile.name}")
            return OK
        if not profiles:
            self.say("the project has no profile for the shell: `cli_profiles` of planrunner.yaml")
        for each in profiles.values():
            mark = "*" if each.name == self.profile.name else " "
            self.say(f"{mark} {each.name}  {each.description}".rstrip())
        return OK

    def _take(self, profile: ShellProfile) -> None:
        """Let a profile hold: its aliases, and the profile of the settings for commands from here on. Raises UsageError
        for an alias with the name of a command, which would hide it."""
        for name, _ in profile.aliases:
            if name in _OWN or any(name == known for known, _ in self.commands.table):
                raise UsageError(
                    f"the alias `{name}` of the profile `{profile.name}` has the name of a command", "rename the alias"
                )
        if profile.profile:
            os.environ[PROFILE_VARIABLE] = profile.profile
        elif self.profile.profile:
            os.environ.pop(PROFILE_VARIABLE, None)
        self.profile = profile

    def do_help(self, arguments: Sequence[str]) -> int:
        own = {usage.split()[0]: (usage, text) for usage, text in OWN}
        if arguments and arguments[0] in own:
            self.say("{}: {}".format(*own[arguments[0]]))
            return OK
        if arguments:
            return self.commands.run([*arguments, "--help"])
        self.say("commands of planrunner (`help COMMAND` explains one):")
        for name, text in self.commands.table:
            self.say(f"  {name:<16} {text}")
        self.say("commands of the shell:")
        for usage, text in OWN:
            self.say(f"  {usage:<16} {text}")
        for name, line in self.profile.aliases:
            self.say(f"  {name:<16} {harmless(line)}")
        return OK

    def do_exit(self, arguments: Sequence[str]) -> int:
        self.over = True
        return self.code


def _words(line: str) -> list[str]:
    try:
        return shlex.split(line)
    except ValueError as error:
        raise UsageError(f"the line cannot be split into words: {str(error).lower()}") from None


def _names_run(arguments: Sequence[str]) -> bool:
    """Whether a run is among the words, or a word that may be one: the first, or what looks like the id of a run."""
    return bool(arguments) and (arguments[0][:1] != "-" or any(map(_RUN.fullmatch, arguments)))


def _number(arguments: Sequence[str], usage: str) -> int:
    """The number that is given, 0 without one. Raises UsageError."""
    if not arguments:
        return 0
    if len(arguments) > 1 or not arguments[0].isdecimal() or len(arguments[0]) > 9 or int(arguments[0]) == 0:
        raise UsageError(f"`{' '.join(arguments)}` is not a number from 1 on", usage)
    return int(arguments[0])
