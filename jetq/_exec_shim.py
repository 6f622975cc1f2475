"""Tie this process to its parent, then become the program that was asked for.

Run as ``python -I -S _exec_shim.py PARENT_PID SIGNAL PROGRAM ARG...`` by ``jetq.process.spawn``. It imports nothing of
jetq, so that it costs some 15 ms. The kernel sends the signal when the *thread* that started us ends: spawn from a
thread that lives as long as the child may.
"""

import ctypes
import os
import signal
import sys

#: prctl(2): the signal a process gets when its parent thread ends.
PR_SET_PDEATHSIG = 1

if __name__ == "__main__":
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(sys.argv[2]))
    if os.getppid() != int(sys.argv[1]):  # the parent ended before the tie was made
        os._exit(1)
    # What Python ignores and what the parent blocked would be inherited by the program.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    os.execv(sys.argv[3], sys.argv[3:])
