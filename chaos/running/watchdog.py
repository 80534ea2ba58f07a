"""The parent of one server process: it ends the server when the process that wanted it is gone.

Run as a script of its own (`python -I watchdog.py OWNER_PID SIGNAL GRACE_S -- command...`), with the standard
library alone, so that it starts in milliseconds and needs nothing of the environment. It lives in a session of
its own: Ctrl-C in the owner's terminal reaches neither it nor the server. The owner holds the other end of its
standard input and sends lines; the end of the input, or another parent than OWNER_PID, means that the owner is
dead, in whatever way. The parent is looked at too, since a process the owner forked may hold the pipe open.

Lines understood: `signal N` (to the server), `detach` (leave the server running and go). It prints the server's
process id once and exits with the server's exit code (128 + signal when a signal ended it).
It does not know what kind of server it runs, and restarts nothing.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time

OWNER_LOOKUP_S = 0.5


def main(arguments: list[str]) -> int:
    """Start the command, obey the owner, and report how the server ended."""
    owner_pid, end_signal, grace_s = int(arguments[0]), int(arguments[1]), float(arguments[2])
    woken, wake = os.pipe()
    for descriptor in (woken, wake):
        os.set_blocking(descriptor, False)
    dismissed: list[int] = []
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    signal.signal(signal.SIGTERM, lambda number, _frame: dismissed.append(number))
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    server = subprocess.Popen(
        arguments[arguments.index("--") + 1 :],
        stdin=subprocess.DEVNULL,
        stdout=sys.stderr,  # standard error is the server's log; standard output belongs to the owner
        start_new_session=True,
    )
    os.write(1, f"{server.pid}\n".encode())
    os.close(1)
    unread = b""
    while server.poll() is None:
        ready, _, _ = select.select([0, woken], [], [], OWNER_LOOKUP_S)
        if woken in ready:
            os.read(woken, 4096)
        received = os.read(0, 4096) if 0 in ready else b""
        if (0 in ready and not received) or os.getppid() != owner_pid or dismissed:
            end(server, end_signal, grace_s)
            break
        *lines, unread = (unread + received).split(b"\n")
        for line in lines:
            if line == b"detach":
                return 0
            server.send_signal(int(line.split()[1]))
    code = server.wait()
    return 128 - code if code < 0 else code


def end(server: subprocess.Popen[bytes], end_signal: int, grace_s: float) -> None:
    """Ask the server to go, then end it and its group by force."""
    server.send_signal(end_signal)
    deadline = time.monotonic() + grace_s
    while server.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    if server.poll() is None:
        os.killpg(server.pid, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
