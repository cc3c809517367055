#!/usr/bin/env python3
"""Time and memory of whole `downhaul lower` processes, beside a plain copy of the same file.

    bench/lowering.py --binary build/release/src/cli/downhaul MODEL_DIR... [--runs 7] [--json FILE]

Each MODEL_DIR holds a model_spec.json and the .pt2 that it names. Per model and backend, copies
(`cp --reflink=never`) and lowerings alternate, the page cache warm, and medians are compared:
the goal is lowering <= 1.5 x copy + 50 ms, with at most 32 MiB of memory (ru_maxrss, pages of
mapped files included) above that of `downhaul --version`. With a stock report (stock_BACKEND.json,
as tests/peers/stock_lower.py writes it) in the folder, the stock figures stand beside.
"""
import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time


def run(command):
    """Wall seconds and peak resident bytes of one process."""
    began = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} ended with {process.returncode}")
    return seconds, usage.ru_maxrss * 1024


def measure(binary, model, backend, runs, scratch):
    spec = json.loads((model / "model_spec.json").read_text())
    source = model / spec["exported_program"]
    out = pathlib.Path(tempfile.mkdtemp(dir=scratch))
    copies, lowerings, peaks = [], [], []
    lower = [binary, "lower", "--spec", model / "model_spec.json", "--backend", backend,
             "--out", out]
    copy = ["cp", "--reflink=never", source, out / "copy"]
    run(copy)
    run(lower)
    for _ in range(runs):
        (out / "copy").unlink(missing_ok=True)
        copies.append(run(copy)[0])
        for old in out.glob("*.pte"):
            old.unlink()
        seconds, peak = run(lower)
        lowerings.append(seconds)
        peaks.append(peak)
    size = sum(p.stat().st_size for p in out.glob("*.pte"))
    shutil.rmtree(out)
    row = {
        "model": model.name, "backend": backend, "source_bytes": source.stat().st_size,
        "pte_bytes": size, "copy_ms": statistics.median(copies) * 1e3,
        "lower_ms": statistics.median(lowerings) * 1e3, "peak_rss_bytes": max(peaks),
        "copy_all_ms": [c * 1e3 for c in copies], "lower_all_ms": [s * 1e3 for s in lowerings],
    }
    row["ratio_to_copy"] = row["lower_ms"] / row["copy_ms"]
    row["allowed_ms"] = 1.5 * row["copy_ms"] + 50
    stock = model / f"stock_{backend}.json"
    if stock.exists():
        report = json.loads(stock.read_text())
        total = report.get("process_seconds")
        if total:
            row["stock_seconds"] = total
            row["stock_over_ours"] = total * 1e3 / row["lower_ms"]
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", type=pathlib.Path)
    parser.add_argument("--binary", default="build/release/src/cli/downhaul")
    parser.add_argument("--backends", default="xnnpack,portable")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--scratch", help="folder for the results (default: beside the models)")
    parser.add_argument("--json", type=pathlib.Path)
    opts = parser.parse_args()
    own = min(run([opts.binary, "--version"])[1] for _ in range(3))
    rows = []
    print(f"{'model':24} {'backend':9} {'copy ms':>9} {'lower ms':>9} {'allowed':>9} {'x copy':>7} "
          f"{'MiB over own':>12} {'stock x':>8}")
    for model in opts.models:
        for backend in opts.backends.split(","):
            row = measure(opts.binary, model, backend, opts.runs, opts.scratch or model)
            row["rss_above_own_mib"] = (row["peak_rss_bytes"] - own) / 2**20
            rows.append(row)
            stock = f"{row['stock_over_ours']:8.0f}" if "stock_over_ours" in row else "       -"
            print(f"{row['model']:24} {backend:9} {row['copy_ms']:9.1f} {row['lower_ms']:9.1f} "
                  f"{row['allowed_ms']:9.1f} {row['ratio_to_copy']:7.2f} "
                  f"{row['rss_above_own_mib']:12.1f} {stock}", flush=True)
    if opts.json:
        opts.json.write_text(json.dumps({"own_rss_bytes": own, "rows": rows}, indent=2) + "\n")


if __name__ == "__main__":
    main()
