#!/usr/bin/env python3
"""Full-size models through both targets, judged by the stock runtime.

    full_models.py --models DIR --out DIR --binary build/release/src/cli/downhaul
                   [--report FILE] [--backends xnnpack,portable] [--seconds N] [MODEL ...]

Lowers every model that export_models.py knows at full size (exporting what DIR lacks), runs the
files on the models' input sets under both verification modes of the runtime, and prints a table:
how far the outputs are from eager's, and how far the outputs of the stock-made file are where
stock_BACKEND.pte lies beside the model (stock_lower.py makes them).

A file passes when its outputs are within 1e-4 of eager's. Where float32 itself is no more exact
than that, eager is not the measure: there the outputs must be within 1e-4 of the program's in
float64.

The runtime's portable kernels take minutes for a long text: a file that does not get through its
sets in --seconds is judged by those that it got through, the sample first.
"""

import argparse
import json
import logging
import pathlib
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


def in_float64(folder, inputs):
    """The program's outputs in float64, or None where it does not run in another type."""
    import torch
    try:
        module = torch.export.load(folder / "model.pt2").module()
        for node in list(module.graph.nodes):
            if "_assert" in str(node.target) or node.op == "call_module" and "guard" in str(node.target):
                module.graph.erase_node(node)
        module.recompile()
        result = module.double()(*[t.double() if t.is_floating_point() else t for t in inputs])
    except Exception:
        return None
    result = tuple(result.values()) if isinstance(result, dict) else result
    return list(result) if isinstance(result, (tuple, list)) else [result]


def run_sets(pte, folder, seconds):
    """Yields {"mode", "set", "error"} as far as the time goes, the sample first."""
    spec = find_spec(folder / "inputs.safetensors")
    sets = sets_of(folder)
    for mode in MODES:
        began = time.monotonic()
        file = StockFile(pte, mode)
        for label, inputs, expected in sets:
            want = tensors(expected, spec, "outputs")
            got = execute(file, tensors(inputs, spec, "inputs"))
            yield {"mode": mode, "set": label, "error": worst(got, want), "size": max(t.abs().max().item() for t in want)}
            spent = time.monotonic() - began
            if spent > seconds / 2:
                break


def child(args):
    """Runs one file; with --stock, that one on the same sets. Prints a JSON object a line."""
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    folder = args.models
    worst_set = {}
    for result in run_sets(args.child, folder, args.seconds):
        print(json.dumps(result), flush=True)
        if result["error"] >= worst_set.get("error", -1):
            worst_set = result
    spec = find_spec(folder / "inputs.safetensors")
    sets = {label: (i, e) for label, i, e in sets_of(folder)}
    inputs, want = (tensors(p, spec, k) for p, k in zip(sets[worst_set["set"]], ("inputs", "outputs")))
    exact = in_float64(folder, inputs) if worst_set["error"] > TOLERANCE / 2 else None

    def against_float64(outputs):
        if exact is None or len(exact) != len(outputs):
            return None
        return max((a.double() - b).abs().max().item() for a, b in zip(outputs, exact))

    facts = {"worst": worst_set["set"], "eager_float64": against_float64(want)}
    if exact is not None:
        facts["ours_float64"] = against_float64(execute(StockFile(args.child, MODES[0]), inputs))
    print(json.dumps(facts), flush=True)
    if args.stock:
        outputs = execute(StockFile(args.stock, MODES[0]), inputs)
        print(json.dumps({"stock_worst": worst(outputs, want), "stock_float64": against_float64(outputs)}), flush=True)
    return 0


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
    # One run of a method cannot be interrupted from inside.
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        out, err = process.communicate(timeout=args.seconds * 3 + 120)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        row["timeout"] = True
    results = []
    for line in out.splitlines():
        if not line.startswith("{"):
            continue
        fact = json.loads(line)
        if "mode" in fact:
            results.append(fact)
        else:
            row |= fact
    if process.returncode and not row.get("timeout"):
        row["problems"].append(f"runtime: {(err.strip().splitlines() or ['died'])[-1][:300]}")
    row["sets"] = {mode: sum(r["mode"] == mode for r in results) for mode in MODES}
    row["all_sets"] = len(sets_of(folder))
    if results:
        row["error"] = max(r["error"] for r in results)
        row["size"] = max(r["size"] for r in results)
        judged = row["error"]
        if judged > TOLERANCE and row.get("ours_float64") is not None:
            judged = row["ours_float64"]
        if not judged <= TOLERANCE:
            row["problems"].append(f"{judged:.1e} off on {row.get('worst')}")
    elif not row["problems"]:
        row["no_answer"] = True
    if not args.keep:
        pte.unlink()
    return row


def number(value):
    return "" if value is None else f"{value:.1e}"


def table(rows):
    yield ("| model | backend | sites / kernels | MB | lower ms | sets (of) | off eager | on set | eager, ours, stock off float64 | "
           "stock off eager | result |")
    yield "|---|---|--:|--:|--:|--:|--:|---|---|--:|---|"
    for r in rows:
        ran = "/".join(str(n) for n in r.get("sets", {}).values())
        f64 = ", ".join(number(r.get(k)) or "-" for k in ("eager_float64", "ours_float64", "stock_float64"))
        result = "; ".join(r["problems"]) or ("no answer in time" if r.get("no_answer") else "ok")
        yield (f"| {r['model']} | {r['backend']} | {r.get('sites', '')} / {r.get('kernels', '')} | {r.get('mb', 0):.2f} | "
               f"{r['lower_ms']:.0f} | {ran} ({r.get('all_sets', '')}) | {number(r.get('error'))} | "
               f"{r.get('worst', '')} | {f64 if r.get('eager_float64') is not None else ''} | "
               f"{number(r.get('stock_worst'))} | {result} |")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("names", nargs="*", metavar="MODEL")
    p.add_argument("--models", type=pathlib.Path, required=True)
    p.add_argument("--out", type=pathlib.Path)
    p.add_argument("--binary", type=pathlib.Path)
    p.add_argument("--backends", default="xnnpack,portable")
    p.add_argument("--seconds", type=float, default=120, help="for the sets of a file")
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
            f"{sum(r.get('no_answer', False) for r in rows)} without an answer in time, "
            f"at most {max(errors, default=0):.1e} off eager")
    print(said)
    if args.report:
        args.report.write_text("\n".join([said, *table(rows)]) + "\n")
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1) + "\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
