#!/usr/bin/env python3
"""Latency and peak memory of .pte files in the stock ExecuTorch runtime, side by side.

    stock_runtime.py latency --model DIR stock_xnnpack.pte ours_xnnpack.pte
    stock_runtime.py memory  --model DIR stock_xnnpack.pte ours_xnnpack.pte

--model is a folder with model_spec.json and inputs.safetensors; or name them: --spec, --inputs.
The files must be of one model, with the same inputs. The first file is what the others are
compared with.

latency   loads all files in one process per thread count and runs them in turn, round after round
          in rotating order, so that whatever else the machine does falls on all of them alike.
          Prints each file's median and minimum, and its ratio to the first file: the median of the
          rounds' own ratios, with their quartiles.
memory    a fresh process per file: ru_maxrss after load and first run, and how much of it came
          after Python and the runtime were imported. Medians of --repeats processes.

Run it with the peers' python (tools/peers/setup prints its path).
"""

import argparse
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import time


def load_inputs(args):
    from safetensors.torch import load_file
    tensors = load_file(args.inputs)
    spec = json.loads(args.spec.read_text())
    listed = spec.get("inputs") or [spec["input"]]
    return [tensors[entry["name"]] for entry in listed]


def load_method(pte, verification="Minimal"):
    """The program too: the method does not keep it alive."""
    from executorch.runtime import Runtime, Verification
    program = Runtime.get().load_program(str(pte), verification=getattr(Verification, verification))
    return program, program.load_method("forward")


def set_threads(n):
    """Before anything is loaded: a delegate keeps the pool that it was made with."""
    from executorch.extension.pybindings import portable_lib
    portable_lib._unsafe_reset_threadpool(n)
    import torch
    torch.set_num_threads(1)


def rss_bytes():
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def measure_latency(args):
    set_threads(args.threads)
    inputs = load_inputs(args)
    loaded = [load_method(p) for p in args.files]
    began = time.perf_counter()
    for _ in range(args.warmups):
        for _, method in loaded:
            method.execute(inputs)
        if time.perf_counter() - began > args.seconds / 4:
            break
    samples = [[] for _ in loaded]
    began = time.perf_counter()
    for n in range(args.rounds):
        for k in range(len(loaded)):
            k = (k + n) % len(loaded)
            start = time.perf_counter()
            loaded[k][1].execute(inputs)
            samples[k].append((time.perf_counter() - start) * 1e3)
        if n >= 2 and time.perf_counter() - began > args.seconds:
            break
    results = []
    for path, times in zip(args.files, samples):
        ratios = [t / base for t, base in zip(times, samples[0])]
        low, _, high = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else ratios * 3
        results.append({"pte": str(path), "threads": args.threads, "rounds": len(times),
                        "median_ms": statistics.median(times), "min_ms": min(times),
                        "ratio": statistics.median(ratios), "ratio_quartiles": [low, high],
                        "ratio_of_minima": min(times) / min(samples[0])})
    return results


def measure_memory(args):
    set_threads(args.threads)
    inputs = load_inputs(args)
    before = rss_bytes()
    start = time.perf_counter()
    program, method = load_method(args.files[0])
    loaded = time.perf_counter()
    method.execute(inputs)
    ran = time.perf_counter()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"pte": str(args.files[0]), "peak_rss_bytes": peak, "above_imports_bytes": peak - before,
            "load_ms": (loaded - start) * 1e3, "first_run_ms": (ran - loaded) * 1e3}


def child(args, mode, threads, files):
    """Runs a measurement in a fresh process. This one stays small: ru_maxrss is inherited."""
    command = [sys.executable, __file__, mode, "--child", "--threads", str(threads), "--spec", args.spec,
               "--inputs", args.inputs, "--rounds", str(args.rounds), "--warmups", str(args.warmups),
               "--seconds", str(args.seconds), *files]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{mode} of {', '.join(map(str, files))} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("mode", choices=["latency", "memory"])
    p.add_argument("files", nargs="+", type=pathlib.Path)
    p.add_argument("--model", type=pathlib.Path)
    p.add_argument("--spec", type=pathlib.Path)
    p.add_argument("--inputs", type=pathlib.Path)
    p.add_argument("--threads", default="1,2", help="thread counts, separated by commas")
    p.add_argument("--rounds", type=int, default=60)
    p.add_argument("--warmups", type=int, default=3)
    p.add_argument("--seconds", type=float, default=60, help="stop early after so long (3 rounds at least)")
    p.add_argument("--repeats", type=int, default=3, help="processes per file (memory)")
    p.add_argument("--json", action="store_true", help="print JSON, not a table")
    p.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    args = p.parse_args()
    if args.model:
        args.spec = args.spec or args.model / "model_spec.json"
        args.inputs = args.inputs or args.model / "inputs.safetensors"
    if not (args.spec and args.inputs):
        p.error("--model, or --spec and --inputs, are needed")
    if args.child:
        args.threads = int(args.threads)
        print(json.dumps((measure_latency if args.mode == "latency" else measure_memory)(args)))
        return 0

    counts = [int(n) for n in args.threads.split(",")]
    if args.mode == "latency":
        results = [r for n in counts for r in child(args, "latency", n, args.files)]
    else:
        results = []
        for path in args.files:
            runs = [child(args, "memory", counts[0], [path]) for _ in range(args.repeats)]
            results.append({"pte": str(path)} | {key: statistics.median(r[key] for r in runs)
                                                 for key in runs[0] if key != "pte"})
    if args.json:
        print(json.dumps(results, indent=1))
        return 0
    if args.mode == "latency":
        print(f"{'threads':>7} {'median ms':>10} {'min ms':>10} {'ratio':>7} {'quartiles':>15} {'rounds':>6}  file")
        for r in results:
            low, high = r["ratio_quartiles"]
            print(f"{r['threads']:>7} {r['median_ms']:>10.3f} {r['min_ms']:>10.3f} {r['ratio']:>7.3f} "
                  f"{low:>7.3f}-{high:<7.3f} {r['rounds']:>6}  {r['pte']}")
    else:
        print(f"{'peak MB':>9} {'above imports':>14} {'ratio':>7} {'load ms':>9} {'first run ms':>13}  file")
        for r in results:
            print(f"{r['peak_rss_bytes'] / 1e6:>9.1f} {r['above_imports_bytes'] / 1e6:>14.1f} "
                  f"{r['peak_rss_bytes'] / results[0]['peak_rss_bytes']:>7.3f} {r['load_ms']:>9.1f} "
                  f"{r['first_run_ms']:>13.1f}  {r['pte']}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
