#!/usr/bin/env python3
"""Holds one model in one runtime, and runs it when told: a line of JSON in, a line of JSON out.

{"do": "load", "runtime": NAME, "outputs": FILE.npz, ...job}   -> figures of load and first run
{"do": "run", "settle": S, "times": N}   S runs untimed, then N timed -> wall and processor time
{"do": "memory"}                         -> resident bytes, now and at most
"""
import json
import os
import pathlib
import resource
import sys
import time
import warnings

warnings.filterwarnings("ignore")
sys.path.insert(0, str(pathlib.Path(__file__).parent))


def status_bytes():
    """Resident bytes of this process: now, of these those without a file, and the most so far."""
    fields = dict(line.split(":", 1) for line in open("/proc/self/status") if ":" in line)
    return {key: int(fields[name].split()[0]) * 1024
            for key, name in (("rss", "VmRSS"), ("anonymous", "RssAnon"), ("peak", "VmHWM"))}


def processor_seconds():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def load(job):
    import numpy as np
    import runtimes
    global runtime
    runtime = runtimes.RUNTIMES[job["runtime"]]()
    runtime.import_library()
    import safetensors.numpy  # noqa: F401
    before = status_bytes()
    began = time.perf_counter()
    runtime.load(job)
    loaded = time.perf_counter()
    runtime.run()
    done = time.perf_counter()
    np.savez(job["outputs"], *runtime.outputs())
    return {"load_ms": (loaded - began) * 1e3, "first_run_ms": (done - loaded) * 1e3,
            "imported": before, "loaded": status_bytes()}


def run(order):
    for _ in range(order["settle"]):
        runtime.run()
    walls, busy = [], processor_seconds()
    whole = time.perf_counter()
    for _ in range(order["times"]):
        began = time.perf_counter()
        runtime.run()
        walls.append((time.perf_counter() - began) * 1e3)
    return {"ms": walls, "busy": (processor_seconds() - busy) / (time.perf_counter() - whole)}


def main():
    # Whatever a library prints goes to the error stream; the pipe is ours alone.
    pipe = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        order = json.loads(line)
        try:
            answer = {"load": load, "run": run, "memory": lambda _: status_bytes()}[order["do"]](order)
        except Exception as error:  # whatever a runtime cannot do is a row of the table, not the end
            answer = {"error": f"{type(error).__name__}: {error}"[:300]}
        pipe.write(json.dumps(answer) + "\n")
        pipe.flush()


if __name__ == "__main__":
    main()
