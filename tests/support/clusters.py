"""A Dask cluster on this machine."""

import subprocess
import sys
from pathlib import Path

# The cluster lives in a process of its own, as it does for a user.
CLUSTER = """
import sys
from distributed import LocalCluster
if __name__ == "__main__":
    with LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None,
                      host="127.0.0.1") as cluster:
        pids = [worker.pid for worker in cluster.workers.values()]
        print(cluster.scheduler_address, *pids, flush=True)
        sys.stdin.read()
"""


Cluster = tuple["subprocess.Popen[str]", str, list[int]]


def start_cluster(script: Path) -> Cluster:
    """Start two workers; return the process, the address of the scheduler and the workers' ids."""
    script.write_text(CLUSTER, encoding="utf-8")
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen([sys.executable, str(script)], text=True, **pipes)
    assert process.stdout is not None
    address, *pids = process.stdout.readline().split()
    return process, address, [int(pid) for pid in pids]
