"""A process made fit for measuring: one BLAS thread, and freed memory that is used again."""

import os
import subprocess
import sys

FAULTS = """
import resource, sys
import numpy as np
from rmt.experiments.executors import settle
if sys.argv[1] == "settled":
    settle()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for step in range(40):
    kept = [np.ones(200_000) for layer in range(6)]  # 10 MB of temporaries a step, all of them freed after it
    del kept
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(how):
    done = subprocess.run([sys.executable, "-c", FAULTS, how], capture_output=True, text=True, check=True)
    return int(done.stdout)


def test_a_settled_process_asks_for_the_memory_of_a_step_once():
    """Pages of 4 KiB: 2400 hold the six arrays. Unsettled, the negative control, nearly all of them come anew each step."""
    if sys.platform.startswith("linux"):  # other C libraries stay as they are
        assert faults("settled") < 2 * 2400
        assert faults("as it was") > 10 * 2400


def test_one_thread_for_every_blas():
    threads = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
    free = {name: value for name, value in os.environ.items() if name not in threads}
    code = "import scipy.linalg, threadpoolctl as t; from rmt.experiments.executors import settle; settle();"
    code += "print({pool['num_threads'] for pool in t.threadpool_info() if pool['user_api'] == 'blas'})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=free)
    assert done.stdout.strip() == "{1}"
