"""What mpirun calls to start its daemon on another machine: ask the member beside it, and end as the daemon does.

Run as ``python -I -S _launch_shim.py HOST WORD...``; ``jetq.service.desk`` answers, at the socket ``launch`` in the
folder that JETQ_LAUNCH names. It is on the way of every start, once for each machine and all at once, so it loads
nothing: the client of the ledger takes 0.4 s to load, the module socket alone 20 ms, its half in C none.
"""

import os
import sys
from _socket import AF_UNIX, SHUT_WR, SOCK_STREAM, socket

if __name__ == "__main__":
    if not os.environ.get("JETQ_LAUNCH"):
        sys.exit("jetq: mpirun calls this on its own, in a gang; start one with `jetq gang`")
    os.chdir(os.environ["JETQ_LAUNCH"])  # a socket's own path may be of 107 bytes at most
    desk = socket(AF_UNIX, SOCK_STREAM)
    try:
        desk.connect("launch")
        desk.sendall(b"\0".join(os.fsencode(word) for word in sys.argv[1:]))
        desk.shutdown(SHUT_WR)
        answer = b""
        while piece := desk.recv(65536):
            answer += piece
    except OSError as exc:
        sys.exit(f"jetq: the member of this gang does not answer ({exc}); it is ending")
    code, _, said = answer.partition(b"\n")  # nothing at all: the member ends, and its gang with it
    os.write(2, said)
    os._exit(int(code or b"1"))
