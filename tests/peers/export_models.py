#!/usr/bin/env python3
"""Exports the test models as .pt2, with inputs and the outputs that torch gives for them.

    export_models.py --out DIR                          every model, tiny
    export_models.py --out DIR --size full lraspp gpt2_dynamic distilbert_fillmask_decomposed
    export_models.py --list

A name may end in variants: _eager (attention spelled out), _dynamic (bounded sequence length),
_unwrapped (segmentation returning torchvision's dictionary), _decomposed (run_decompositions()
before saving). The options of the same names apply them to every model asked for.

Each model's folder holds
    model.pt2
    model_spec.json              names, shapes and dtypes of inputs and outputs in call order
    inputs.safetensors           the sample inputs, by name
    expected.safetensors         what the eager model returns for them, by name
    cases/NNN_LABEL/             further input sets: inputs.safetensors and expected.safetensors
    checkpoint/                  config.json and model.safetensors (--checkpoint, transformers only)
"""

import argparse
import json
import logging
import os
import pathlib
import re
import shutil
import sys
import time
import warnings

warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)  # torch and its friends warn about each other's versions
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
sys.path.insert(0, str(pathlib.Path(__file__).parent))

import torch  # noqa: E402
from safetensors.torch import save_file  # noqa: E402

import model_zoo  # noqa: E402
from model_zoo.common import SEED, Options, import_torchvision  # noqa: E402

VARIANTS = ("eager", "dynamic", "unwrapped", "decomposed")


def split_name(full_name, known):
    """'gpt2_dynamic' -> ('gpt2', {'dynamic'}); None when there is no such model."""
    name, variants = full_name, set()
    while name not in known:
        stem, _, last = name.rpartition("_")
        if not stem or last not in VARIANTS:
            return None
        name = stem
        variants.add(last)
    return name, variants


def as_tuple(result):
    if isinstance(result, dict):
        return tuple(result.values())
    return result if isinstance(result, tuple) else (result,)


def save_tensors(tensors, path):
    save_file({k: v.detach().clone(memory_format=torch.contiguous_format) for k, v in tensors.items()}, path)


def describe(tensor):
    return {"shape": list(tensor.shape), "dtype": str(tensor.dtype).removeprefix("torch.")}


def export(case, decomposed, traces):
    program = torch.export.export(case.module, tuple(case.inputs.values()), dynamic_shapes=case.dynamic)
    if decomposed:
        program = program.run_decompositions()
    if not traces:  # they hold the exporting machine's paths, and are most of the archive's text
        for module in program.graph_module.modules():
            for node in module.graph.nodes if isinstance(module, torch.fx.GraphModule) else ():
                node.meta.pop("stack_trace", None)
    return program


def write_set(case, inputs, folder, replay):
    """Writes an input set and eager's outputs for it; returns those by name."""
    folder.mkdir(parents=True, exist_ok=True)
    values = tuple(inputs.values())
    copies = tuple(v.clone() for v in values)
    result = as_tuple(case.module(*values))
    for before, after in zip(copies, values, strict=True):
        assert torch.equal(before, after), "the model writes to its input"
    if replay is not None:
        for got, want in zip(as_tuple(replay(*copies)), result, strict=True):
            torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)
    outputs = dict(zip(case.outputs, result, strict=True))
    save_tensors(inputs, folder / "inputs.safetensors")
    save_tensors(outputs, folder / "expected.safetensors")
    return outputs


def write_model(name, case, folder, opts, decomposed, checkpoint=False, traces=False):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    case.module.eval()
    with torch.inference_mode():
        program = export(case, decomposed, traces)
        torch.export.save(program, folder / "model.pt2")
        replay = program.module()
        outputs = write_set(case, case.inputs, folder, replay)
        for n, (label, inputs) in enumerate(case.more.items()):
            # Running every set twice is for the sizes where it is cheap.
            write_set(case, inputs, folder / "cases" / f"{n:03d}_{label}", replay if opts.tiny else None)
    spec = {
        "name": name, "size": opts.size, "seed": SEED, "torch_version": torch.__version__,
        "exported_program": "model.pt2", **case.extra,
        "inputs": [{"name": k, **describe(v), **case.notes.get(k, {})} for k, v in case.inputs.items()],
        "outputs": [{"name": k, **describe(v)} for k, v in outputs.items()],
    }
    if case.dynamic:
        spec["dynamic"] = {k: {str(axis): [d.min, d.max] for axis, d in dims.items()}
                           for k, dims in case.dynamic.items()}
    if checkpoint and hasattr(case.checkpoint, "save_pretrained"):
        case.checkpoint.save_pretrained(folder / "checkpoint")
        spec["weights"] = "checkpoint"
    (folder / "model_spec.json").write_text(json.dumps(spec, indent=2) + "\n")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("models", nargs="*", help="names, with variants; none: all")
    p.add_argument("--out", type=pathlib.Path)
    p.add_argument("--size", choices=["tiny", "full"], default="tiny")
    p.add_argument("--attention", choices=["sdpa", "eager"], default="sdpa")
    p.add_argument("--dynamic", action="store_true")
    p.add_argument("--unwrapped", action="store_true")
    p.add_argument("--decomposed", action="store_true")
    p.add_argument("--seq-len", type=int, help="sequence length of text models")
    p.add_argument("--batch", type=int, default=1)
    p.add_argument("--threads", type=int, default=1, help="threads that torch may use")
    p.add_argument("--checkpoint", action="store_true", help="also write the checkpoint folder")
    p.add_argument("--traces", action="store_true", help="keep stack traces in the archive")
    p.add_argument("--list", action="store_true", help="print the names and stop")
    args = p.parse_args()

    known = model_zoo.builders()
    if args.list:
        print("\n".join(known))
        return 0
    if args.out is None:
        p.error("--out is needed")
    asked = [n for arg in args.models for n in re.split(r"[,\s]+", arg) if n] or list(known)
    parsed = {n: split_name(n, known) for n in asked}
    unknown = [n for n, found in parsed.items() if found is None]
    if unknown:
        p.error(f"no such model: {', '.join(unknown)} (--list prints the names)")

    torch.set_num_threads(args.threads)
    import_torchvision()
    flags = {v for v in ("dynamic", "unwrapped", "decomposed") if getattr(args, v)}
    if args.attention == "eager":
        flags.add("eager")
    for base, variants in parsed.values():
        began = time.monotonic()
        variants = variants | flags
        opts = Options(args.size, "eager" if "eager" in variants else "sdpa", "dynamic" in variants,
                       "unwrapped" in variants, args.seq_len, args.batch)
        name = "_".join([base, *(v for v in VARIANTS if v in variants)])
        torch.manual_seed(SEED)
        write_model(name, known[base](opts), args.out / name, opts, "decomposed" in variants,
                    args.checkpoint, args.traces)
        print(f"{name}: {time.monotonic() - began:.1f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
