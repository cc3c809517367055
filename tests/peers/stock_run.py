#!/usr/bin/env python3
"""Runs .pte files in the stock ExecuTorch runtime and compares them with expected outputs.

    stock_run.py FILE.pte INPUTS EXPECTED                 one file, one input set
    stock_run.py FILE.pte --folder DIR                    every input set that export_models.py wrote
    stock_run.py --jobs JOBS.json                         [{"pte", "inputs", "expected", "spec"}, ...]
    stock_run.py --serve                                  jobs {"pte", "folder"} from stdin, a line each,
                                                          answered by a line "RESULT [...]" each

Every file is loaded twice, once under each of the runtime's verification modes, and the sets run in
one loaded method. Prints a JSON object per (file, mode, set) and line:

    {"pte", "verification", "set", "max_abs_diff", "outputs": {name: diff}, "argmax_equal"} or "error"

and ends with exit code 1 when a diff is above --tolerance (1e-4) or anything failed. Outputs are
matched with the names of --spec (default: model_spec.json beside the expected file or above it),
else with the order of the keys in the expected file. Inputs likewise. Inputs are row-major; where the
runtime refuses that and takes them channels-last, the result says so ("layout").
"""

import argparse
import json
import logging
import math
import pathlib
import sys
import warnings

MODES = ("Minimal", "InternalConsistency")


def find_spec(path):
    """The model_spec.json that goes with a tensor file: beside it, or one of the folders above."""
    for folder in list(path.resolve().parents)[:3]:
        if (folder / "model_spec.json").exists():
            return json.loads((folder / "model_spec.json").read_text())
    return None


def names(spec, key, tensors):
    """Names of a spec's inputs or outputs, in call order."""
    listed = spec and (spec.get(key) or spec.get(key[:-1]))
    if not listed:
        return list(tensors)
    return [entry["name"] for entry in (listed if isinstance(listed, list) else [listed])]


def difference(got, want):
    """Largest absolute difference; equal infinities and NaN in both places count as equal."""
    import torch
    if got.shape != want.shape:
        raise ValueError(f"shape {list(got.shape)}, expected {list(want.shape)}")
    if got.dtype != want.dtype:
        raise ValueError(f"dtype {got.dtype}, expected {want.dtype}")
    if want.numel() == 0:
        return 0.0
    a, b = got.double(), want.double()
    same = (a == b) | (a.isnan() & b.isnan())
    worst = torch.where(same, 0.0, (a - b).abs()).max().item()
    return math.inf if math.isnan(worst) else worst


class StockFile:
    """A .pte loaded in the stock runtime under one verification mode."""

    def __init__(self, pte, mode):
        from executorch.runtime import Runtime, Verification
        self.program = Runtime.get().load_program(str(pte), verification=getattr(Verification, mode))
        self.method = self.program.load_method("forward")
        if self.method is None:
            raise RuntimeError("no method forward")

    def run(self, inputs):
        import torch
        results = self.method.execute(inputs)
        return [r.clone() if isinstance(r, torch.Tensor) else torch.tensor(r) for r in results]


def channels_last(tensors):
    import torch
    return [t.contiguous(memory_format=torch.channels_last) if t.dim() == 4 else t for t in tensors]


def compare(file, inputs_path, expected_path, spec, layout=None):
    from safetensors.torch import load_file
    named, expected = load_file(inputs_path), load_file(expected_path)
    inputs = [named[n] for n in names(spec, "inputs", named)]
    if layout == "channels_last":
        inputs = channels_last(inputs)
    try:
        results = file.run(inputs)
    except Exception:
        if layout or not any(t.dim() == 4 for t in inputs):
            raise
        results, layout = file.run(channels_last(inputs)), "channels_last"
    wanted = names(spec, "outputs", expected)
    if len(results) != len(wanted):
        raise ValueError(f"{len(results)} outputs, expected {len(wanted)}")
    diffs = {n: difference(got, expected[n]) for n, got in zip(wanted, results)}
    agree = all(got.dim() == 0 or got.numel() == 0 or bool((got.double().argmax(-1) == expected[n].double().argmax(-1)).all())
                for n, got in zip(wanted, results))
    result = {"max_abs_diff": max(diffs.values()), "outputs": diffs, "argmax_equal": agree}
    return result | {"layout": layout} if layout else result


def sets_of(folder):
    """(label, inputs, expected) of a folder that export_models.py wrote."""
    folder = pathlib.Path(folder)
    found = [("sample", folder / "inputs.safetensors", folder / "expected.safetensors")]
    for case in sorted((folder / "cases").glob("*/inputs.safetensors")):
        found.append((case.parent.name, case, case.with_name("expected.safetensors")))
    return found


def run_file(pte, sets, spec=None, modes=MODES, layout=None):
    """Yields a result per mode and set. `sets` as from sets_of(); `layout` of 4-d inputs."""
    for mode in modes:
        base = {"pte": str(pte), "verification": mode}
        try:
            file = StockFile(pte, mode)
        except Exception as e:
            yield base | {"set": None, "error": f"load: {type(e).__name__}: {e}"}
            continue
        for label, inputs, expected in sets:
            try:
                result = compare(file, inputs, expected, spec or find_spec(pathlib.Path(expected)), layout)
            except Exception as e:
                result = {"error": f"{type(e).__name__}: {e}"}
            yield base | {"set": label} | result


def serve():
    """Answers jobs until stdin ends. The caller outlives this process, should a file crash it."""
    for line in sys.stdin:
        job = json.loads(line)
        results = list(run_file(job["pte"], sets_of(job["folder"]), layout=job.get("layout")))
        print("RESULT " + json.dumps(results), flush=True)
    return 0


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("pte", nargs="?")
    p.add_argument("inputs", nargs="?")
    p.add_argument("expected", nargs="?")
    p.add_argument("--folder", type=pathlib.Path)
    p.add_argument("--jobs", type=pathlib.Path)
    p.add_argument("--serve", action="store_true")
    p.add_argument("--spec", type=pathlib.Path)
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--tolerance", type=float, default=1e-4)
    p.add_argument("--summary", action="store_true", help="one line per file and mode: worst of all sets")
    args = p.parse_args()
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    spec = json.loads(args.spec.read_text()) if args.spec else None
    from executorch.extension.pybindings import portable_lib
    portable_lib._unsafe_reset_threadpool(args.threads)
    if args.serve:
        return serve()
    if args.jobs:
        work = [(j["pte"], [("sample", j["inputs"], j["expected"])],
                 json.loads(pathlib.Path(j["spec"]).read_text()) if "spec" in j else spec)
                for j in json.loads(args.jobs.read_text())]
    elif args.pte and args.folder:
        work = [(args.pte, sets_of(args.folder), spec)]
    elif args.pte and args.inputs and args.expected:
        work = [(args.pte, [("sample", args.inputs, args.expected)], spec)]
    else:
        p.error("give a .pte with inputs and expected outputs, or with --folder, or --jobs")

    failed = False
    for pte, sets, its_spec in work:
        worst = {}
        for r in run_file(pte, sets, its_spec):
            bad = "error" in r or not r["max_abs_diff"] <= args.tolerance
            failed |= bad
            if args.summary:
                w = worst.setdefault(r["verification"], {**r, "sets": 0, "failures": []})
                w["sets"] += 1
                if "error" not in r and r["max_abs_diff"] > w.get("max_abs_diff", -1):
                    w.update(r)
                if bad:
                    w["failures"].append(r["set"])
            else:
                print(json.dumps(r), flush=True)
        for w in worst.values():
            print(json.dumps(w), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
