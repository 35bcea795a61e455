"""What a confined process must not be able to do, tried from inside. It is started as a script with an order as JSON
(what lies outside and where), imports nothing of planrunner, and prints the name of each probe with what it came to:
nothing where the sandbox held, else what got out. What can only be seen from outside is judged there.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import json
import os
import platform
import signal
import socket
import stat
import sys
import time
from collections.abc import Callable
from typing import Any

_C = ctypes.CDLL(None, use_errno=True)
_X86 = platform.machine() == "x86_64"
_TIOCSTI = 0x5412


def main() -> None:
    order = json.loads(sys.argv[1])
    names = set(order["only"] or PROBES).difference(order["left_out"])
    results = {name: _tried(probe, order) for name, probe in PROBES.items() if name in names}
    sys.stdout.write(json.dumps(results) + "\n")
    sys.stdout.flush()


def _tried(probe: Callable[[Any], str], order: Any) -> str:
    try:
        return probe(order)
    except OSError:
        return ""
    except Exception as error:  # a probe that breaks has shown nothing
        return f"the probe broke: {type(error).__name__}: {error}"


def _call(number_x86: int, number_arm: int, *arguments: Any) -> int:
    """A system call; minus the number of the error where it fails."""
    done = int(_C.syscall(number_x86 if _X86 else number_arm, *arguments))
    return -ctypes.get_errno() if done < 0 else done


def _refused(done: int, what: str) -> str:
    return "" if done < 0 else what


# Network


def _connects(family: int, address: Any) -> str:
    with socket.socket(family) as client:
        client.settimeout(2)
        client.connect(address)
    return f"connected to {address!r}"


def connect_ipv4(order: Any) -> str:
    return _connects(socket.AF_INET, ("127.0.0.1", order["port"]))


def connect_ipv6(order: Any) -> str:
    return _connects(socket.AF_INET6, ("::1", order["port6"])) if order["port6"] else ""


def connect_abstract(order: Any) -> str:
    return _connects(socket.AF_UNIX, "\0" + order["abstract"])


def connect_socket_file(order: Any) -> str:
    return _connects(socket.AF_UNIX, order["socket"])


def send_datagram(order: Any) -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.sendto(b"probe", ("127.0.0.1", order["port"]))
    return ""  # whether it arrived is seen outside


def look_up_name(order: Any) -> str:
    try:
        addresses = socket.getaddrinfo("example.com", 80)
    except OSError:
        return ""
    return f"example.com is {addresses[0][4][0]}"


def raw_socket(order: Any) -> str:
    socket.socket(socket.AF_PACKET, socket.SOCK_RAW).close()
    return "opened a socket for packets"


# Processes


def trace_outside(order: Any) -> str:
    done = _C.ptrace(16, order["victim"], None, None)  # PTRACE_ATTACH
    return "" if done < 0 else "attached to a process outside"


def read_environment(order: Any) -> str:
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/environ", "rb") as file:
                    if order["token"].encode() in file.read():
                        return f"process {name} shows a secret of the engine"
            except OSError:
                continue
    return ""


def own_environment(order: Any) -> str:
    names = [name for name, value in os.environ.items() if order["token"] in value]
    return f"{names[0]} holds a secret of the engine" if names else ""


def signal_outside(order: Any) -> str:
    os.kill(order["victim"], 0)
    with open(f"/proc/{order['victim']}/cmdline", "rb") as file:  # a number may mean another process here
        return "a process outside can be sent signals" if order["mark"].encode() in file.read() else ""


def signal_everybody(order: Any) -> str:
    if os.readlink("/proc/self/ns/pid") == order["namespace"]:
        return signal_outside(order)  # here it would reach a process that the sandbox failed to keep away
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    os.kill(-1, signal.SIGUSR1)
    return ""  # who was hit is seen outside


def inherited_descriptors(order: Any) -> str:
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2:
            try:
                target = os.readlink(f"/proc/self/fd/{name}")
            except OSError:
                continue  # the one that listed them
            if "/proc/" not in target:
                return f"descriptor {name} leads to {target}"
    return ""


def daemon(order: Any) -> str:
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            null = os.open(os.devnull, os.O_RDWR)
            for number in range(3):
                os.dup2(null, number)
            code = f"import time; time.sleep(30)  # {order['daemon']}"
            os.execve(sys.executable, [sys.executable, "-I", "-S", "-c", code], {})  # noqa: S606 - a daemon it has to be
        os._exit(0)
    time.sleep(0.2)
    return ""  # whether it lives on is seen outside


# Kernel


def mount(order: Any) -> str:
    return _refused(_C.mount(b"none", b"/tmp", b"tmpfs", 0, None), "mounted a file system")


def unmount(order: Any) -> str:
    for path in (order["state"], "/proc", "/dev"):
        if _C.umount2(path.encode(), 2) == 0:
            return f"unmounted {path}"
    return ""


def user_namespace(order: Any) -> str:
    pid = os.fork()
    if pid == 0:
        os._exit(0 if _C.unshare(0x10000000) == 0 else 1)
    return "made a namespace of users" if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0 else ""


def io_uring(order: Any) -> str:
    return _refused(_call(425, 425, 1, ctypes.create_string_buffer(256)), "set up io_uring")


def keyring(order: Any) -> str:
    return _refused(_call(250, 219, 0, -3, 1), "reached a keyring of the kernel")


def bpf(order: Any) -> str:
    attributes = (ctypes.c_uint32 * 16)(2, 4, 4, 1)  # a map: array, key, value, entries
    return _refused(_call(321, 280, 0, ctypes.byref(attributes), 64), "made a map of bpf")


def chroot(order: Any) -> str:
    return _refused(_C.chroot(b"/usr"), "changed the root")


def device_node(order: Any) -> str:
    path = os.path.join(order["workspace"], "probe-device")
    os.mknod(path, stat.S_IFBLK | 0o600, os.makedev(8, 0))
    os.unlink(path)
    return "made a device"


def memory_device(order: Any) -> str:
    for path in ("/dev/mem", "/dev/kmsg", "/dev/sda", "/dev/vda", "/proc/kcore", "/proc/kmsg"):
        try:
            os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
        except OSError:
            continue
        return f"opened {path}"
    return ""


def kernel_settings(order: Any) -> str:
    for path in ("/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/sys/kernel/uevent_helper"):
        try:
            os.close(os.open(path, os.O_WRONLY))
        except OSError:
            continue
        return f"{path} can be written"
    return ""


def privileges(order: Any) -> str:
    with open("/proc/self/status", encoding="ascii") as file:
        lines = dict(line.rstrip("\n").split(":", 1) for line in file)
    if int(lines["CapEff"], 16) or int(lines["CapPrm"], 16):
        return "holds capabilities of the kernel"
    return "" if lines["NoNewPrivs"].strip() == "1" else "programs with the setuid bit give it more rights"


def terminal(order: Any) -> str:
    for path in ("/dev/tty", "/proc/self/fd/0"):
        try:
            handle = os.open(path, os.O_RDWR | os.O_NOCTTY)
            fcntl.ioctl(handle, _TIOCSTI, b"x")
        except OSError:
            continue
        return "typed into a terminal"
    master, slave = os.openpty()
    try:
        fcntl.ioctl(slave, _TIOCSTI, b"x")
    except OSError as error:
        return "" if error.errno in (errno.EPERM, errno.EIO) else f"typing fails with {error}"
    finally:
        os.close(master)
    return "can type into terminals"


# Files


def _writes(path: str) -> str:
    name = os.path.join(path, "planrunner-probe")
    os.close(os.open(name, os.O_CREAT | os.O_WRONLY, 0o600))
    os.unlink(name)
    return f"wrote {name}"


def write_etc(order: Any) -> str:
    return _writes("/etc")


def write_usr(order: Any) -> str:
    return _writes("/usr")


def write_home(order: Any) -> str:
    os.close(os.open(order["home_file"], os.O_CREAT | os.O_WRONLY, 0o600))
    return ""  # a folder of that name may be made for the sandbox: whether it is the home is seen outside


def read_home(order: Any) -> str:
    with open(order["secret_file"], encoding="utf-8") as file:
        return "read a file of the home directory" if order["token"] in file.read() else ""


def read_shadow(order: Any) -> str:
    os.close(os.open("/etc/shadow", os.O_RDONLY))
    return "opened /etc/shadow"


def change_modes(order: Any) -> str:
    os.chmod("/etc/passwd", os.stat("/etc/passwd").st_mode)
    return "changed the mode of /etc/passwd"


def write_state(order: Any) -> str:
    return _writes(order["state"])


def read_journal(order: Any) -> str:
    os.close(os.open(order["journal"], os.O_RDONLY))
    return "read the journal"


def write_hooks(order: Any) -> str:
    return _writes(os.path.join(order["workspace"], ".git", "hooks"))


def replace_repository(order: Any) -> str:
    path = os.path.join(order["workspace"], ".git")
    os.rename(path, path + "-probe")
    os.rename(path + "-probe", path)
    return "took the repository away"


def widen_policy(order: Any) -> str:
    os.close(os.open(os.path.join(order["workspace"], "planrunner.yaml"), os.O_WRONLY))
    return "opened planrunner.yaml to write"


def link_out(order: Any) -> str:
    link = os.path.join(order["workspace"], "probe-link")
    os.symlink(order["outside"], link)
    try:
        return _writes(link)
    finally:
        os.unlink(link)


def read_through_link(order: Any) -> str:
    with open(os.path.join(order["workspace"], "assets", "secret"), encoding="utf-8") as file:
        return "read a file outside through a link" if order["token"] in file.read() else ""


def read_denied_through_link(order: Any) -> str:
    with open(os.path.join(order["workspace"], "alias", "key"), encoding="utf-8") as file:
        return "read a denied file through a link" if order["token"] in file.read() else ""


def write_planrunner(order: Any) -> str:
    return _writes(os.path.dirname(os.path.abspath(__file__)))


PROBES: dict[str, Callable[[Any], str]] = {
    probe.__name__: probe
    for probe in (
        *(connect_ipv4, connect_ipv6, connect_abstract, connect_socket_file, send_datagram, look_up_name, raw_socket),
        *(trace_outside, read_environment, own_environment, signal_outside, signal_everybody, inherited_descriptors),
        *(mount, unmount, user_namespace, io_uring, keyring, bpf, chroot, device_node, memory_device),
        *(kernel_settings, privileges, terminal, write_etc, write_usr, write_home, read_home, read_shadow),
        *(change_modes, write_state, read_journal, write_hooks, replace_repository, widen_policy, link_out),
        *(read_through_link, read_denied_through_link, write_planrunner, daemon),
    )
}

if __name__ == "__main__":
    main()
