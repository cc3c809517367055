#!/usr/bin/env python3
"""Full-size models through both targets, judged by the stock runtime.

    full_models.py --models DIR --out DIR --binary build/release/src/cli/downhaul
                   [--report FILE] [--backends xnnpack,portable] [--seconds N] [MODEL ...]

Lowers every model that export_models.py knows at full size (exporting what DIR lacks), runs the
files on the models' input sets under both verification modes of the runtime, and prints a table:
how far the outputs are from eager's, and how far the outputs of the stock-made file are where
stock_BACKEND.pte lies beside the model (stock_lower.py makes them).

A file passes when its outputs are within 1e-4 of eager's on every set. Where eager is more than
half of that away from the same program in float64, it is no measure to that digit: there a file
passes within 1e-4 of float64 too, and the table says so ("float64" instead of "ok"). A second
table has both distances, ours and the stock file's, for every set where ours is more than half
of the tolerance from eager.

The runtime's portable convolutions take seconds to minutes: a file that does not get through its
sets in --seconds of processor time is judged by those that it got through, the sample first.
"""

import argparse
import json
import logging
import math
import pathlib
import resource
import signal
import subprocess
import sys
import time
import warnings

from stock_run import MODES, StockFile, channels_last, difference, find_spec, names, sets_of

HERE = pathlib.Path(__file__).parent
TOLERANCE = 1e-4
MODELS = ["distilbert_fillmask", "distilbert_fillmask_eager", "distilbert_base", "distilbert_mlm", "distilbert_seqcls",
          "distilbert_qa", "distilbert_tokcls", "distilbert_mc", "gpt2", "gpt2_dynamic", "bert_minilm", "roberta",
          "vit", "vit_b_16", "mobilenet_v2", "mobilenet_v3_large", "mobilenet_v3_small", "resnet18", "resnet50",
          "efficientnet_b0", "lraspp", "lraspp_unwrapped", "deeplabv3_mobilenet_v3",
          "deeplabv3_mobilenet_v3_unwrapped", "convnext_tiny", "swin_t"]


def execute(file, inputs):
    try:
        return file.run(inputs)
    except Exception:
        if not any(t.dim() == 4 for t in inputs):
            raise
        return file.run(channels_last(inputs))


def worst(got, want):
    return max(difference(a, b) for a, b in zip(got, want, strict=True))


def tensors(path, spec, key):
    from safetensors.torch import load_file
    loaded = load_file(path)
    return [loaded[n] for n in names(spec, key, loaded)]


class InFloat64:
    """The program in float64, where it runs in another type."""

    def __init__(self, folder):
        import torch
        self.module = torch.export.load(folder / "model.pt2").module()
        for node in list(self.module.graph.nodes):
            if "_assert" in str(node.target) or node.op == "call_module" and "guard" in str(node.target):
                self.module.graph.erase_node(node)
        self.module.recompile()
        self.module.double()

    def run(self, inputs):
        """The outputs, or None."""
        try:
            result = self.module(*[t.double() if t.is_floating_point() else t for t in inputs])
        except Exception:
            return None
        result = tuple(result.values()) if isinstance(result, dict) else result
        return list(result) if isinstance(result, (tuple, list)) else [result]


def run_sets(pte, folder, seconds):
    """Yields {"mode", "set", "error", "size"} as far as the time goes, the sample first."""
    spec = find_spec(folder / "inputs.safetensors")
    sets = sets_of(folder)
    for mode in MODES:
        file = StockFile(pte, mode)
        began = time.process_time()
        for label, inputs, expected in sets:
            want = tensors(expected, spec, "outputs")
            got = execute(file, tensors(inputs, spec, "inputs"))
            size = max(t.abs().max().item() for t in want)
            yield {"mode": mode, "set": label, "error": worst(got, want), "size": size}
            if time.process_time() - began > seconds / 2:
                break


def details(args, errors):
    """Yields for the worst set, and every other far from eager, how far each side is from the others."""
    folder = args.models
    spec = find_spec(folder / "inputs.safetensors")
    sets = {label: (i, e) for label, i, e in sets_of(folder)}
    most = max(errors, key=errors.get)
    ours = StockFile(args.child, MODES[0])
    stock = StockFile(args.stock, MODES[0]) if args.stock else None
    exact = None
    for label in sorted(errors, key=errors.get, reverse=True):
        far = errors[label] > TOLERANCE / 2
        if not far and (label != most or stock is None):
            continue
        inputs, want = (tensors(p, spec, k) for p, k in zip(sets[label], ("inputs", "outputs")))
        facts = {"detail": label, "error": errors[label]}
        outputs = execute(stock, inputs) if stock else None
        if stock:
            facts["stock_error"] = worst(outputs, want)
        if far:
            exact = exact or InFloat64(folder)
            reference = exact.run(inputs)
            for side, values in (("eager", want), ("ours", execute(ours, inputs)), ("stock", outputs)):
                if values is not None and reference is not None and len(values) == len(reference):
                    facts[f"{side}_float64"] = max((a.double() - b).abs().max().item()
                                                   for a, b in zip(values, reference))
        yield facts


def child(args):
    """Runs one file; with --stock, that one too where ours is worst. Prints a JSON object a line."""
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    errors = {}
    for result in run_sets(args.child, args.models, args.seconds):
        print(json.dumps(result), flush=True)
        errors[result["set"]] = max(errors.get(result["set"], 0), result["error"])
    for facts in details(args, errors):
        print(json.dumps(facts), flush=True)
    return 0


def judge(errors, facts):
    """(sets that fail, sets that pass by float64 alone) of the errors by set."""
    failing, by_float64 = [], []
    for label, error in errors.items():
        if error <= TOLERANCE:
            continue
        f = facts.get(label, {})
        eager_is_no_measure = f.get("eager_float64", 0) > TOLERANCE / 2
        near_float64 = f.get("ours_float64", math.inf) <= TOLERANCE
        (by_float64 if eager_is_no_measure and near_float64 else failing).append(label)
    return failing, by_float64


def limit_processor(seconds):
    # A busy machine makes no file slower in this time, and no run of a method can be interrupted from inside.
    resource.setrlimit(resource.RLIMIT_CPU, (int(seconds), int(seconds) + 5))


def measure(args, model, backend):
    folder = args.models / model
    row = {"model": model, "backend": backend, "problems": []}
    began = time.monotonic()
    lowered = subprocess.run([args.binary, "lower", "--spec", folder / "model_spec.json", "--backend", backend,
                              "--out", args.out], capture_output=True, text=True)
    row["lower_ms"] = (time.monotonic() - began) * 1e3
    if lowered.returncode:
        row["problems"].append(f"lower: {lowered.stderr.strip()[:300]}")
        return row
    pte = args.out / f"{json.loads((folder / 'model_spec.json').read_text())['name']}_{backend}.pte"
    meta = json.loads(pte.with_suffix(".json").read_text())
    row |= {"mb": pte.stat().st_size / 1e6, "sites": meta["delegation"]["delegate_call_sites"],
            "kernels": meta["delegation"]["kernel_calls_outside"]}
    command = [sys.executable, __file__, "--child", pte, "--models", folder, "--seconds", str(args.seconds)]
    stock = folder / f"stock_{backend}.pte"
    if stock.exists() and backend == "xnnpack":
        command += ["--stock", stock]
    limit = args.seconds * 3 + 120
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               preexec_fn=lambda: limit_processor(limit))
    try:
        out, err = process.communicate(timeout=limit * 10)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        row["problems"].append("runtime: hangs")
    results, facts = [], {}
    for line in out.splitlines():
        if line.startswith("{"):
            fact = json.loads(line)
            if "mode" in fact:
                results.append(fact)
            else:
                facts[fact.pop("detail")] = fact
    if process.returncode not in (0, -signal.SIGXCPU) and not row["problems"]:
        row["problems"].append(f"runtime: {(err.strip().splitlines() or ['died'])[-1][:300]}")
    row["sets"] = {mode: sum(r["mode"] == mode for r in results) for mode in MODES}
    row["all_sets"] = len(sets_of(folder))
    row["far"] = {label: f for label, f in facts.items() if f["error"] > TOLERANCE / 2}
    if results:
        errors = {}
        for r in results:
            errors[r["set"]] = max(errors.get(r["set"], 0), r["error"])
        row["worst"] = max(errors, key=errors.get)
        row["error"] = errors[row["worst"]]
        row["stock_error"] = facts.get(row["worst"], {}).get("stock_error")
        row["size"] = max(r["size"] for r in results)
        failing, row["by_float64"] = judge(errors, facts)
        row["problems"] += [f"{errors[label]:.1e} off on {label}" for label in failing]
    elif not row["problems"]:
        row["no_answer"] = True
    if not args.keep:
        pte.unlink()
    return row


def number(value):
    return "" if value is None else f"{value:.1e}"


def verdict(row):
    if row["problems"]:
        return "; ".join(row["problems"])
    if row.get("no_answer"):
        return "no answer in time"
    return "float64" if row["by_float64"] else "ok"


def table(rows):
    yield ("| model | backend | sites / kernels | MB | lower ms | sets (of) | largest output | off eager | on set | "
           "stock off eager there | result |")
    yield "|---|---|--:|--:|--:|--:|--:|--:|---|--:|---|"
    for r in rows:
        ran = "/".join(str(n) for n in r.get("sets", {}).values())
        size = f"{r['size']:.3g}" if "size" in r else ""
        yield (f"| {r['model']} | {r['backend']} | {r.get('sites', '')} / {r.get('kernels', '')} | "
               f"{r.get('mb', 0):.2f} | {r['lower_ms']:.0f} | {ran} ({r.get('all_sets', '')}) | {size} | "
               f"{number(r.get('error'))} | "
               f"{r.get('worst', '')} | {number(r.get('stock_error'))} | {verdict(r)} |")


def far_table(rows):
    yield ("| model | backend | set | off eager | stock off eager | eager off float64 | ours off float64 | "
           "stock off float64 |")
    yield "|---|---|---|--:|--:|--:|--:|--:|"
    columns = ("error", "stock_error", "eager_float64", "ours_float64", "stock_float64")
    for r in rows:
        for label, facts in r.get("far", {}).items():
            yield " | ".join([f"| {r['model']}", r["backend"], label, *(number(facts.get(c)) for c in columns)]) + " |"


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("names", nargs="*", metavar="MODEL")
    p.add_argument("--models", type=pathlib.Path, required=True)
    p.add_argument("--out", type=pathlib.Path)
    p.add_argument("--binary", type=pathlib.Path)
    p.add_argument("--backends", default="xnnpack,portable")
    p.add_argument("--seconds", type=float, default=60, help="of processor time for the sets of a file")
    p.add_argument("--report", type=pathlib.Path, help="Markdown: a summary line, then the table")
    p.add_argument("--json", type=pathlib.Path)
    p.add_argument("--keep", action="store_true", help="keep the lowered files")
    p.add_argument("--child", type=pathlib.Path, help=argparse.SUPPRESS)
    p.add_argument("--stock", type=pathlib.Path, help=argparse.SUPPRESS)
    args = p.parse_args()
    if args.child:
        return child(args)
    if not (args.out and args.binary):
        p.error("--out and --binary are needed")
    args.out.mkdir(parents=True, exist_ok=True)
    wanted = args.names or MODELS
    missing = [m for m in wanted if not (args.models / m / "model_spec.json").exists()]
    if missing:
        subprocess.run([sys.executable, HERE / "export_models.py", "--out", args.models, "--size", "full", *missing],
                       check=True)
    rows = []
    for model in wanted:
        for backend in args.backends.split(","):
            rows.append(measure(args, model, backend))
            print(list(table(rows[-1:]))[-1], flush=True)
    failed = [r for r in rows if r["problems"]]
    errors = [r["error"] for r in rows if "error" in r]
    said = (f"{len(rows)} files of {len(wanted)} models, {len(failed)} failed, "
            f"{sum(bool(r.get('by_float64')) for r in rows)} passed by float64 alone, "
            f"{sum(r.get('no_answer', False) for r in rows)} without an answer in time, "
            f"at most {max(errors, default=0):.1e} off eager")
    print(said)
    if args.report:
        lines = [said, *table(rows)]
        if any(r.get("far") for r in rows):
            lines += ["", f"Sets on which a file is more than {TOLERANCE / 2:.0e} from eager:", "", *far_table(rows)]
        args.report.write_text("\n".join(lines) + "\n")
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1) + "\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
