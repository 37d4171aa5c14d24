"""Programs that use several threads, whatever number the tests themselves may use."""

import os
import subprocess
import sys

THREADS = 4
_OWN = ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS")


def printed_by(program: str) -> list[str]:
    """Run a program in a process that may start THREADS threads; the words it prints."""
    environment = {**os.environ, **dict.fromkeys(_OWN, str(THREADS))}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()
