#!/usr/bin/env python3
"""Speed and memory in one go: lowering against a copy of the source, then latency and peak memory of
the results in the stock runtime, beside the stock-made files.

    all.py --models DIR --out DIR --binary build/release/src/cli/downhaul [--report FILE]

DIR holds full-size models (tests/peers/export_models.py --size full); what is missing is exported,
and stock files that are missing are made (tests/peers/stock_lower.py). Run it with the peers'
python on a quiet machine; ratios are of one run each. Where only parts of it can be quiet, --under
names a command that each measurement (less than a minute, with --seconds 12) is run under.

The stock portable file of a transformer transposes every weight in every inference, and portable
convolutions are slow: seconds an inference, so these are run once.
"""

import argparse
import json
import pathlib
import shlex
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
PEERS = HERE.parent / "tests" / "peers"
LOWERED = ["distilbert_fillmask", "gpt2", "gpt2_dynamic", "lraspp", "mobilenet_v2"]
COMPARED = ["distilbert_fillmask", "gpt2", "lraspp", "mobilenet_v2"]
# Latency of the result over that of the stock-made file's: at most.
GOALS = {("distilbert_fillmask", "xnnpack"): 0.50, ("gpt2", "xnnpack"): 0.70,
         ("distilbert_fillmask", "portable"): 0.50}
VISION = ["lraspp", "mobilenet_v2"]
VISION_MS = 300  # for a whole lowering
PORTABLE_ROUNDS = {"mobilenet_v2": 5}  # the others take seconds: once
MAX_RSS_MIB = 32


class Failed(Exception):
    """A measurement; the others go on."""


def python(*args, under=()):
    done = subprocess.run([*under, sys.executable, *map(str, args)], capture_output=True, text=True)
    if done.returncode:
        print(done.stderr[-2000:], file=sys.stderr)
        raise Failed(f"{pathlib.Path(args[0]).name} {' '.join(map(str, args[1:2]))} ended with {done.returncode}")
    return done.stdout


def ensure(folder, names):
    missing = [n for n in names if not (folder / n / "model_spec.json").exists()]
    if missing:
        python(PEERS / "export_models.py", "--out", folder, "--size", "full", *missing)


def stock(folder, backend):
    pte = folder / f"stock_{backend}.pte"
    if not pte.exists():
        python(PEERS / "stock_lower.py", folder, "--backend", backend)
    return pte


def ours(args, folder, backend):
    subprocess.run([args.binary, "lower", "--spec", folder / "model_spec.json", "--backend", backend, "--out", args.out],
                   check=True, capture_output=True)
    return args.out / f"{json.loads((folder / 'model_spec.json').read_text())['name']}_{backend}.pte"


def compare(args, mode, folder, backend, *options):
    pair = [stock(folder, backend), ours(args, folder, backend)]
    try:
        return json.loads(python(HERE / "stock_runtime.py", mode, "--json", "--model", folder, *options, *pair,
                                 under=args.under))
    finally:
        pair[1].unlink()


def lowering(args, lines):
    """Lines of a table; the number of goals missed."""
    out = args.out / "lowering.json"
    rows, missed = [], 0
    for m in LOWERED:
        try:
            python(HERE / "lowering.py", args.models / m, "--binary", args.binary, "--runs", args.runs, "--json", out,
                   "--scratch", args.out, under=args.under)
            rows += json.loads(out.read_text())["rows"]
        except Failed as failed:
            rows.append({"model": m, "failed": failed})
    lines += ["### Lowering, whole process", "",
              "| model | backend | copy ms | lower ms | allowed ms | x copy | MiB above own | x faster than stock | |",
              "|---|---|--:|--:|--:|--:|--:|--:|---|"]
    for r in rows:
        if "failed" in r:
            missed += 1
            lines.append(f"| {r['model']} | | | | | | | | MISSED: {r['failed']} |")
            continue
        r["allowed_ms"] = r["allowed_ms"] if r["model"] not in VISION else VISION_MS
        ok = r["lower_ms"] <= r["allowed_ms"] and r["rss_above_own_mib"] <= MAX_RSS_MIB
        missed += not ok
        faster = f"{r['stock_over_ours']:.0f}" if "stock_over_ours" in r else ""
        lines.append(f"| {r['model']} | {r['backend']} | {r['copy_ms']:.1f} | {r['lower_ms']:.1f} | {r['allowed_ms']:.1f} | "
                     f"{r['ratio_to_copy']:.2f} | {r['rss_above_own_mib']:.1f} | {faster} | {'ok' if ok else 'MISSED'} |")
    return missed


def latency(args, lines):
    missed = 0
    lines += ["", "### Latency in the stock runtime, ours / stock-made, interleaved in one process", "",
              "| model | backend | threads | stock ms | ours ms | ratio | quartiles | goal | |", "|---|---|--:|--:|--:|--:|---|--:|---|"]
    cases = [(m, "xnnpack", n, ["--seconds", args.seconds]) for m in COMPARED for n in (1, 2)]
    cases += [(m, "portable", 1, ["--rounds", PORTABLE_ROUNDS.get(m, 1), "--warmups", 0]) for m in COMPARED]
    for name, backend, threads, options in cases:
        if backend not in args.backends.split(","):
            continue
        goal = GOALS.get((name, backend), 1.0)
        try:
            results = compare(args, "latency", args.models / name, backend, "--threads", threads, *options)
        except Failed as failed:
            missed += 1
            lines.append(f"| {name} | {backend} | {threads} | | | | | {goal:.2f} | MISSED: {failed} |")
            continue
        for base, own in zip(results[::2], results[1::2]):
            low, high = own["ratio_quartiles"]
            # Files that do the same take turns in being ahead.
            ok = own["ratio"] <= goal or low <= goal == 1.0
            missed += not ok
            lines.append(f"| {name} | {backend} | {own['threads']} | {base['median_ms']:.2f} | {own['median_ms']:.2f} | "
                         f"{own['ratio']:.3f} | {low:.3f}-{high:.3f} | {goal:.2f} | {'ok' if ok else 'MISSED'} |")
    return missed


def sizes(args, lines):
    """Portable files: kernel calls and bytes."""
    missed = 0
    lines += ["", "### Portable files", "",
              "| model | stock kernel calls | ours | stock MB | ours MB | |", "|---|--:|--:|--:|--:|---|"]
    for m in COMPARED:
        base = json.loads(stock(args.models / m, "portable").with_suffix(".json").read_text())
        pte = ours(args, args.models / m, "portable")
        kernels = json.loads(pte.with_suffix(".json").read_text())["delegation"]["kernel_calls_outside"]
        size = pte.stat().st_size
        pte.unlink()
        ok = kernels < base["kernel_calls"] and size < base["pte_bytes"]
        missed += not ok
        lines.append(f"| {m} | {base['kernel_calls']} | {kernels} | {base['pte_bytes'] / 1e6:.2f} | {size / 1e6:.2f} | "
                     f"{'ok' if ok else 'MISSED'} |")
    return missed


def memory(args, lines):
    missed = 0
    lines += ["", "### Peak memory of load and first run in the stock runtime", "",
              "| model | stock MB | ours MB | ratio | |", "|---|--:|--:|--:|---|"]
    for m in COMPARED:
        try:
            base, own = compare(args, "memory", args.models / m, "xnnpack", "--threads", 1, "--repeats", 1)
        except Failed as failed:
            missed += 1
            lines.append(f"| {m} | | | | MISSED: {failed} |")
            continue
        ratio = own["peak_rss_bytes"] / base["peak_rss_bytes"]
        missed += ratio > 1.005
        lines.append(f"| {m} | {base['peak_rss_bytes'] / 1e6:.1f} | {own['peak_rss_bytes'] / 1e6:.1f} | {ratio:.3f} | "
                     f"{'ok' if ratio <= 1.005 else 'MISSED'} |")
    return missed


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--models", type=pathlib.Path, required=True)
    p.add_argument("--out", type=pathlib.Path, required=True)
    p.add_argument("--binary", type=pathlib.Path, required=True)
    p.add_argument("--runs", type=int, default=7, help="lowerings of each model")
    p.add_argument("--seconds", type=float, default=30, help="for each model and number of threads")
    p.add_argument("--under", type=shlex.split, default=[], metavar="COMMAND", help="run each measurement under it")
    p.add_argument("--backends", default="xnnpack,portable", help="whose latency to measure")
    p.add_argument("--only", default="lowering,sizes,latency,memory")
    p.add_argument("--report", type=pathlib.Path, help="Markdown: a summary line, then the tables")
    args = p.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    ensure(args.models, LOWERED)
    lines, missed = [], 0
    for name, measure in (("lowering", lowering), ("sizes", sizes), ("latency", latency), ("memory", memory)):
        if name in args.only.split(","):
            missed += measure(args, lines)
    said = f"{missed} goals missed, of {missed + sum(line.endswith('| ok |') for line in lines)}"
    print("\n".join([said, "", *lines]))
    if args.report:
        args.report.write_text("\n".join([said, *lines]) + "\n")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
