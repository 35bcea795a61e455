"""What generated Python may not do, or only when a person has seen it: the rules of the scan.

Each name that code can reach belongs to at most one rule. A module stands for everything in it, and the longest name
that fits decides, so that ``importlib.metadata`` is harmless though ``importlib`` is not.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class Rule(NamedTuple):
    """``verdict`` is what holds where the operator says nothing: ``deny``, ``ask`` (a person has to see the code) or
    ``allow`` (told, and no more); ``why`` is the clause that people read."""

    verdict: str
    why: str


RULES: dict[str, Rule] = {
    "eval": Rule("deny", "runs text as code"),
    "import": Rule("deny", "imports a module whose name is computed"),
    "dunder": Rule("deny", "accesses the internals of Python, a way out of sandboxes"),
    "introspect": Rule("deny", "inspects the running process"),
    "native": Rule("deny", "leaves Python for machine code or raw memory"),
    "unpickle": Rule("deny", "unpickles data, which can run any code"),
    "shell": Rule("deny", "hands text to a shell"),
    "hidden": Rule("deny", "contains characters that disguise it"),
    "write-outside": Rule("deny", "writes outside the working directory"),
    "unreadable": Rule("deny", "cannot be read as Python"),
    "process": Rule("ask", "starts a process"),
    "network": Rule("ask", "uses the network"),
    "read-outside": Rule("ask", "names a place outside the working directory"),
    "delete": Rule("ask", "removes or moves files, or changes who may use them"),
    "environ": Rule("ask", "reads or changes the environment"),
    "dynamic": Rule("ask", "uses names that are known only at run time"),
    "install": Rule("ask", "installs software or changes where modules come from"),
    "system": Rule("ask", "acts on other processes, users or limits"),
    "write": Rule("allow", "writes a file whose name is known only at run time"),
}
"""The rules of the scan by name; in messages and in the journal each is ``scan.NAME``."""

_NAMES = {
    "eval": "eval exec compile code codeop",
    "import": "__import__ importlib imp runpy zipimport pkgutil",
    "introspect": """globals breakpoint __builtins__ builtins gc inspect.currentframe inspect.stack
        inspect.trace sys._getframe sys._current_frames sys.modules sys.settrace sys.setprofile sys.addaudithook
        sys.meta_path sys.path_hooks sys.exc_info threading.settrace threading.setprofile faulthandler traceback.walk_tb
        types.CodeType types.FunctionType opcode dis""",
    "native": "ctypes _ctypes cffi mmap _posixsubprocess os.memfd_create sys.setdlopenflags dl",
    "unpickle": """pickle cPickle _pickle marshal shelve dill cloudpickle jsonpickle joblib.load yaml.load
        yaml.load_all yaml.full_load yaml.full_load_all yaml.unsafe_load yaml.unsafe_load_all yaml.UnsafeLoader
        yaml.FullLoader yaml.Loader pandas.read_pickle numpy.load torch.load""",
    "shell": "os.system os.popen posix.system posix.popen subprocess.getoutput subprocess.getstatusoutput "
    "asyncio.create_subprocess_shell commands",
    "process": """subprocess pty multiprocessing concurrent.futures.ProcessPoolExecutor asyncio.create_subprocess_exec
        os.execl os.execle os.execlp os.execlpe os.execv os.execve os.execvp os.execvpe os.fork os.forkpty
        os.posix_spawn os.posix_spawnp os.spawnl os.spawnle os.spawnlp os.spawnlpe os.spawnv os.spawnve os.spawnvp
        os.spawnvpe posix pexpect sh plumbum invoke fabric webbrowser""",
    "network": """socket _socket ssl socketserver http.client http.server urllib.request urllib3 requests httpx httpx2
        aiohttp websockets websocket ftplib smtplib smtpd poplib imaplib nntplib telnetlib xmlrpc paramiko asyncssh
        asyncio.open_connection asyncio.start_server asyncio.open_unix_connection asyncio.start_unix_server boto3
        botocore google.cloud azure grpc redis pymongo psycopg psycopg2 pymysql dns scapy pycurl twisted tornado trio
        openai anthropic git docker kubernetes""",
    "delete": """shutil.rmtree shutil.move shutil.chown os.remove os.unlink os.rmdir os.removedirs os.rename os.renames
        os.replace os.chmod os.lchmod os.fchmod os.chown os.lchown os.fchown os.symlink os.link os.truncate os.mknod
        os.mkfifo""",
    "environ": "os.environ os.environb os.getenv os.getenvb os.putenv os.unsetenv getpass keyring dotenv",
    "dynamic": "vars locals",
    "install": """pip ensurepip setuptools distutils venv site sitecustomize usercustomize sys.path sys.executable
        easy_install""",
    "system": """signal resource os.kill os.killpg os.setuid os.seteuid os.setgid os.setegid os.setreuid os.setregid
        os.setresuid os.setresgid os.setgroups os.setsid os.setpgid os.chroot os.fchdir os.chdir os.nice os.ptrace
        os.unshare os.setns pwd grp spwd crypt os._exit os.abort os.dup2 os.pipe atexit""",
    "": "importlib.metadata importlib.resources google.protobuf os.path",
}

BY_NAME: dict[str, str] = {name: rule for rule, names in _NAMES.items() for name in names.split()}
"""A dotted name to its rule; empty: harmless, though a shorter name is not."""

MIXED = frozenset("os sys io shutil pathlib asyncio inspect types yaml threading urllib concurrent http".split())
"""Modules that are harmless as such and hold something that is not: they are not handed about as values."""

ESCAPES = frozenset(
    """__class__ __bases__ __base__ __mro__ mro __subclasses__ __globals__ __builtins__ __code__ __closure__ __self__
    __func__ __wrapped__ __getattribute__ __reduce__ __reduce_ex__ __loader__ __spec__ __import__ __subclasshook__
    __weakref__ __kwdefaults__ __defaults__ __objclass__ f_globals f_locals f_builtins f_back f_code tb_frame tb_next
    gi_frame gi_code cr_frame cr_code ag_frame ag_code co_code co_consts func_globals""".split()
)
"""Attributes by which code gets from any object to everything there is."""

BUILTINS = frozenset("eval exec compile __import__ globals breakpoint __builtins__ vars locals".split())
"""Names that code has without importing anything."""

REMOVES = frozenset("unlink rmdir symlink_to hardlink_to chmod lchmod".split())
"""Methods of paths that belong to the rule ``delete``, whatever they are called on."""

LOADS = frozenset("load_extension enable_load_extension".split())
"""Methods of databases that belong to the rule ``native``, and the function of SQL that does the same."""

CARRIED = MIXED | frozenset("_thread builtins ctypes gc importlib marshal pickle posix runpy socket subprocess".split())
"""Modules that other modules hold as attributes: ``shutil.os`` is ``os``."""

OPENS = frozenset("open io.open os.open codecs.open pathlib.Path gzip.open bz2.open lzma.open".split())
"""What takes a path and may write to it."""

TAKES_PATHS = OPENS | frozenset(
    """pathlib.PurePath os.listdir os.scandir os.walk os.stat os.mkdir os.makedirs os.path.join os.path.expanduser
    os.path.exists shutil.copy shutil.copy2 shutil.copyfile shutil.copytree shutil.make_archive shutil.unpack_archive
    glob.glob glob.iglob sqlite3.connect tarfile.open zipfile.ZipFile os.readlink fileinput.input linecache.getline
    linecache.getlines linecache.updatecache linecache.checkcache tempfile.mkdtemp""".split()
)
"""What takes a path."""

WRITES = frozenset("write_text write_bytes touch mkdir".split())
"""Methods of a path that write to it."""


def rule_of(name: str) -> str:
    """The rule that a dotted name belongs to; empty where it belongs to none."""
    while name:
        if name in BY_NAME:
            return BY_NAME[name]
        name = name.rpartition(".")[0]
    return ""


def canonical(name: str) -> str:
    """A dotted name by the module that it is taken from in the end: ``os.path.os.system`` is ``os.system``."""
    parts = name.split(".")
    taken = (".".join(parts[at:]) for at in range(len(parts) - 1, 0, -1) if parts[at] in CARRIED)
    return next((each for each in taken if each in MIXED or rule_of(each)), name)


def is_one_template(written: Any) -> bool:
    """Whether a text is one template and nothing else: then nothing is filled into code, the value is the code."""
    text = written.strip() if isinstance(written, str) else ""
    return text.startswith("{{") and text.endswith("}}") and text.count("{{") == 1 and "{%" not in text
