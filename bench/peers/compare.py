#!/usr/bin/env python3
"""Times the runtimes beside each other on the same weights and inputs.

    compare.py --cache DIR --out DIR MODEL_DIR... [--threads 1,2] [--rounds 30] [--runtimes A,B]

Run it with the python that bench/peers/setup prints, after prepare.py; or use bench/peers/run, which
does everything. Writes results.json, results.csv, results.md and ratios.png into the output folder.

How it is kept honest
  * Every runtime has a process of its own, with the thread count given to it in its own way and
    everything else at its defaults. All take turns, one timed run each per round, in an order that
    rotates; whatever else the machine does falls on all of them alike.
  * Whoever is not at turn is stopped (SIGSTOP), so that threads of a pool that still spin after
    their run cannot take a core from the next. This is why no spinning had to be switched off.
  * Before each timed run come --settle untimed ones (1 by default): the others have emptied the
    caches meanwhile, and what is asked is the latency of steady use.
  * "busy" is processor time over wall time of the timed runs: at most the thread count, else
    somebody uses more threads than were given.
  * Outputs of the first run are compared with torch eager's (largest absolute difference).
"""
import argparse
import datetime
import json
import os
import pathlib
import platform
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile

import numpy as np

import report
from runtimes import F32_PEERS, RUNTIMES

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent


class Worker:
    def __init__(self, runtime, log):
        self.runtime = runtime
        self.process = subprocess.Popen([sys.executable, HERE / "worker.py"], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=log, text=True,
                                        env={**os.environ, "PYTHONPATH": str(HERE)})

    def ask(self, **order):
        """Lets the process run until it has answered. None when it has ended."""
        self.process.send_signal(signal.SIGCONT)
        try:
            self.process.stdin.write(json.dumps(order) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        self.process.send_signal(signal.SIGSTOP)
        return json.loads(line) if line else {"error": "the process ended"}

    def end(self):
        self.process.kill()
        self.process.wait()


def difference(path, reference):
    """(largest absolute difference, largest absolute value of the reference)"""
    got, want = np.load(path), np.load(reference)
    if len(got.files) != len(want.files):
        return float("nan")
    worst = 0.0
    for a, b in zip(got.files, want.files, strict=True):
        if got[a].shape != want[b].shape:
            return float("nan")
        worst = max(worst, float(np.max(np.abs(got[a].astype(np.float64) - want[b]), initial=0)))
    return worst


def quiet(command):
    """Starts a command that holds the machine quiet; it says a line once it does."""
    if not command:
        return None
    process = subprocess.Popen(shlex.split(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               text=True)
    process.stdout.readline()
    return process


def measure(folder, threads, args, scratch, log):
    """Rows of one model with one thread count."""
    job = {"folder": str(folder), "cache": str(args.cache / folder.name), "threads": threads,
           "library": str(args.library)}
    rows, workers = [], []
    for runtime in args.runtimes:
        worker = Worker(runtime, log)
        outputs = scratch / f"{len(rows)}.npz"
        answer = worker.ask(do="load", runtime=runtime, outputs=str(outputs), **job)
        row = {"model": folder.name, "runtime": runtime, "threads": threads}
        rows.append(row)
        if "error" in answer:
            row["error"] = answer["error"]
            worker.end()
            continue
        row.update(load_ms=answer["load_ms"], first_run_ms=answer["first_run_ms"], outputs=outputs,
                   samples_ms=[], busy_samples=[])
        workers.append((worker, row))
        worker.ask(do="run", settle=args.warmups, times=0)
    reference = next((r["outputs"] for r in rows if r["runtime"] == "torch eager" and "outputs" in r),
                     None)
    for row in rows:
        if "outputs" in row:
            row["max_abs"] = difference(row.pop("outputs"), reference) if reference else None
    holder = quiet(args.hold_quiet)
    for number in range(args.rounds):
        turn = number % len(workers)
        for worker, row in workers[turn:] + workers[:turn]:
            answer = worker.ask(do="run", settle=args.settle, times=1)
            if "error" in answer:
                row["error"] = answer["error"]
                continue
            row["samples_ms"] += answer["ms"]
            row["busy_samples"].append(answer["busy"])
    if holder:
        holder.stdin.close()
        holder.wait()
    for worker, _ in workers:
        worker.end()
    for row in rows:
        samples = row.get("samples_ms")
        if not samples:
            continue
        quartiles = statistics.quantiles(samples, n=4) if len(samples) > 1 else [samples[0]] * 3
        row.update(median_ms=statistics.median(samples), q1_ms=quartiles[0], q3_ms=quartiles[2],
                   min_ms=min(samples), max_ms=max(samples), runs=len(samples),
                   busy=statistics.median(row.pop("busy_samples")))
    fastest = min((r["median_ms"] for r in rows if r["runtime"] in F32_PEERS and "median_ms" in r),
                  default=None)
    for row in rows:
        if fastest and "median_ms" in row:
            row["ratio"] = row["median_ms"] / fastest
    return rows


def measure_alone(folder, runtime, args, scratch, log):
    """Load to first output and memory, each repeat in a fresh process; medians."""
    answers = []
    for _ in range(args.repeats):
        worker = Worker(runtime, log)
        first = worker.ask(do="load", runtime=runtime, outputs=str(scratch / "alone.npz"),
                           folder=str(folder), cache=str(args.cache / folder.name), threads=1,
                           library=str(args.library))
        if "error" in first:
            worker.end()
            return {"model": folder.name, "runtime": runtime, "error": first["error"]}
        worker.ask(do="run", settle=0, times=5)
        answers.append((first, worker.ask(do="memory")))
        worker.end()

    def median(value):
        return statistics.median(value(first, last) for first, last in answers)
    return {
        "model": folder.name, "runtime": runtime, "repeats": len(answers),
        "load_ms": median(lambda f, _: f["load_ms"]),
        "first_run_ms": median(lambda f, _: f["first_run_ms"]),
        "load_to_first_output_ms": median(lambda f, _: f["load_ms"] + f["first_run_ms"]),
        "imported_rss_bytes": median(lambda f, _: f["imported"]["rss"]),
        "steady_rss_bytes": median(lambda _, m: m["rss"]),
        "peak_rss_bytes": median(lambda _, m: m["peak"]),
        "steady_above_imported_bytes": median(lambda f, m: m["rss"] - f["imported"]["rss"]),
        "peak_above_imported_bytes": median(lambda f, m: m["peak"] - f["imported"]["rss"]),
    }


def versions():
    from importlib import metadata
    names = ("torch", "executorch", "onnxruntime", "openvino", "onnx", "transformers", "torchvision",
             "numpy")
    found = {}
    for name in names:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            pass
    return found


def machine():
    info = {"system": platform.platform(), "python": platform.python_version(), "cpus": os.cpu_count()}
    for line in open("/proc/cpuinfo"):
        key, _, value = line.partition(":")
        if key.strip() == "model name":
            info["cpu"] = value.strip()
        if key.strip() == "flags":
            wanted = ("avx2", "fma", "avx512f", "avx512_vnni", "avx512_bf16", "amx_bf16")
            info["instructions"] = [f for f in wanted if f in value.split()]
    return info


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", type=pathlib.Path)
    parser.add_argument("--cache", type=pathlib.Path, required=True, help="what prepare.py made")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--library", type=pathlib.Path, default=ROOT / "build/release/libdownhaul.so")
    parser.add_argument("--runtimes", default=",".join(RUNTIMES), help="names, separated by commas")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--warmups", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=30, help="0: latency is not measured")
    parser.add_argument("--settle", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=3,
                        help="fresh processes for load and memory; 0: not measured")
    parser.add_argument("--hold-quiet", metavar="COMMAND",
                        help="a command that keeps the machine quiet: it prints a line when it does, "
                             "and ends when its input is closed")
    args = parser.parse_args()
    args.runtimes = args.runtimes.split(",")
    if unknown := [r for r in args.runtimes if r not in RUNTIMES]:
        parser.error(f"no runtime {unknown[0]!r}; there are: {', '.join(RUNTIMES)}")
    args.library = args.library.resolve()
    args.out.mkdir(parents=True, exist_ok=True)
    result = {"date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
              "machine": machine(), "versions": versions(), "rounds": args.rounds,
              "settle": args.settle, "latency": [], "alone": []}
    with open(args.out / "log.txt", "w") as log, tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        # A build that goes on meanwhile must not exchange what is measured.
        args.library = pathlib.Path(shutil.copy(args.library, scratch))
        for folder in args.models if args.rounds else []:
            for threads in map(int, args.threads.split(",")):
                rows = measure(folder, threads, args, scratch, log)
                result["latency"] += rows
                print(report.latency_table(rows), flush=True)
                (args.out / "results.json").write_text(json.dumps(result, indent=1) + "\n")
        if args.repeats:
            for folder in args.models:
                holder = quiet(args.hold_quiet)
                for runtime in args.runtimes:
                    # Compiling from source is no load that could be compared.
                    if runtime != "torch.compile":
                        result["alone"].append(measure_alone(folder, runtime, args, scratch, log))
                if holder:
                    holder.stdin.close()
                    holder.wait()
            print(report.alone_table(result["alone"]), flush=True)
    (args.out / "results.json").write_text(json.dumps(result, indent=1) + "\n")
    report.write(result, args.out)


if __name__ == "__main__":
    main()
