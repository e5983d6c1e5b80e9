"""The lab's keeper: parent of every SSH daemon and of the store's, heir of every orphan, and the one who cleans up.

Runs alone as `python -I -S keeper.py LAB OWNER_PID OWNER_TICKS LOCK_FD`. When its owner dies,
or on TERM, it ends everything that it started and everything those started. It changes no
node's state: that is the lab's command line.
"""

import contextlib
import ctypes
import glob
import json
import os
import selectors
import signal
import socket
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import procs

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
OWNER_CHECK_S = 1.0
REQUEST_LIMIT_BYTES = 4096
STORE = "store"  # its directory beside those of the nodes
LIBC = ctypes.CDLL(None, use_errno=True)


class Keeper:
    """One lab's keeper; `serve` returns when the lab is to end."""

    def __init__(self, lab: str, owner: tuple[int, int]) -> None:
        self.lab = lab
        self.owner = owner
        self.ending = False
        self.selector = selectors.DefaultSelector()
        self.selector.register(self._wakeup(), selectors.EVENT_READ, self._drain)

    def serve(self) -> None:
        """Answer requests and reap children until TERM or until the owner is gone."""
        while not self.ending:
            for key, _mask in self.selector.select(OWNER_CHECK_S):
                with contextlib.suppress(OSError, ValueError):
                    key.data(key.fileobj)
            self.reap()
            if self.owner[0] and not procs.is_alive(*self.owner):
                self.ending = True

    def _wakeup(self) -> int:
        # A signal handler alone would not end a wait in select.
        read_end, write_end = os.pipe()
        os.set_blocking(write_end, False)
        os.set_blocking(read_end, False)
        signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
        signal.signal(signal.SIGTERM, self._end)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        return read_end

    def _drain(self, read_end: int) -> None:
        os.read(read_end, 4096)

    def _end(self, _number: int, _frame: object) -> None:
        self.ending = True

    def listen(self) -> None:
        """Open the socket on which the lab's command line asks for daemons."""
        path = os.path.join(self.lab, "keeper.sock")
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        server.bind(path)
        server.listen(16)
        server.setblocking(False)
        self.selector.register(server, selectors.EVENT_READ, self._answer)

    def _answer(self, server: socket.socket) -> None:
        connection, _address = server.accept()
        with connection:
            connection.settimeout(2)
            request = json.loads(connection.recv(REQUEST_LIMIT_BYTES).decode() or "{}")
            try:
                pids = {name: self.start_listener(name, argv) for name, argv in request.items()}
                answer: dict = {"pids": pids}
            except OSError as error:
                answer = {"error": str(error)}
            connection.sendall(json.dumps(answer).encode())

    def start_listener(self, name: str, argv: list[str]) -> int:
        """Start a node's sshd, or the store's rsync; it dies with the keeper, its pid file is there on return."""
        directory, kind = os.path.join(self.lab, "nodes", name), "sshd"
        if name == STORE:
            directory, kind = os.path.join(self.lab, STORE), "rsync"
        log_path = os.path.join(directory, "sshd.log" if kind == "sshd" else "daemon.log")
        log = os.open(log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        pid = os.fork()
        if pid == 0:
            self._become_listener(argv, log)
        os.close(log)
        procs.write_pid_file(os.path.join(directory, "pids"), kind, pid)
        return pid

    def _become_listener(self, argv: list[str], log: int) -> None:
        try:
            os.setsid()
            LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(log, 1)
            os.dup2(log, 2)
            signal.set_wakeup_fd(-1)
            # Python ignores SIGPIPE and exec keeps that; every shell on the node would inherit it.
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD, signal.SIGPIPE):
                signal.signal(number, signal.SIG_DFL)
            environment = {"PATH": "/usr/sbin:/usr/bin:/bin", "FLOTILLA_LAB": self.lab}
            os.execve(argv[0], argv, environment)
        finally:
            os._exit(127)

    def reap(self) -> None:
        """Collect every dead child, own or inherited, so that no zombie looks alive."""
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass

    def end_everything(self) -> dict[int, int]:
        """End all descendants and everything marked with this lab; return what is left."""
        own = os.getpid()
        pids = glob.glob(os.path.join(glob.escape(self.lab), "nodes", "*", "pids"))
        pids.append(os.path.join(self.lab, STORE, "pids"))

        def living() -> dict[int, int]:
            self.reap()
            found = procs.descendants(own) | procs.marked_with(f"FLOTILLA_LAB={self.lab}")
            found.pop(own, None)
            return found

        left = procs.cut_power(pids, living)
        for directory in pids:
            procs.forget_dead(directory)
        return left


def become_keeper(ready: int) -> None:
    """Leave the caller's process group and inherit orphans from now on."""
    os.setsid()
    # A caller may hold signals back; the keeper and every shell on the nodes would inherit that.
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    os.set_inheritable(ready, False)


def run(lab: str, owner: tuple[int, int], ready: int) -> int:
    """Keep the lab until it is to end; the caller goes on once `ready` is written."""
    become_keeper(ready)
    keeper = Keeper(lab, owner)
    keeper.listen()
    procs.write_pid_file(lab, "keeper", os.getpid())
    os.write(ready, b"1")
    os.close(ready)
    keeper.serve()
    left = keeper.end_everything()
    if left:
        print(f"could not end {sorted(left)}", file=sys.stderr)
    return 1 if left else 0


def main() -> int:
    """Become the lab's keeper in the background. Returns when the lab is up or could not come up."""
    lab, owner_pid, owner_ticks, lock_fd = sys.argv[1:5]
    # The block's lock is held by the keeper alone; no daemon may inherit it.
    os.set_inheritable(int(lock_fd), False)
    ready_read, ready_write = os.pipe()
    if os.fork():
        # The caller waits for this process only, so the keeper never becomes its zombie.
        os.close(ready_write)
        os._exit(0 if os.read(ready_read, 1) else 1)
    os.close(ready_read)
    return run(lab, (int(owner_pid), int(owner_ticks)), ready_write)


if __name__ == "__main__":
    sys.exit(main())
