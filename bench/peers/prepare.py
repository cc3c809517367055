#!/usr/bin/env python3
"""Makes what the runtimes load, from one model.pt2 each; what exists is kept.

    prepare.py --cache DIR [--binary build/release/src/cli/downhaul] MODEL_DIR...

CACHE/NAME/ then holds model.onnx (for ONNX Runtime and OpenVINO), stock_xnnpack.pte, and
ours_xnnpack.pte and ours_portable.pte, which are made anew each time.
"""
import argparse
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent

EXPORT_ONNX = """
import sys, warnings
warnings.filterwarnings("ignore")
import torch
program = torch.export.load(sys.argv[1])
torch.onnx.export(program, (), sys.argv[2], dynamo=True, external_data=True, optimize=True,
                  verbose=False)
"""


def make_onnx(source, cache):
    if (cache / "model.onnx").exists():
        return
    work = cache / "onnx.partial"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    subprocess.run([sys.executable, "-c", EXPORT_ONNX, source, work / "model.onnx"], check=True)
    for file in sorted(work.iterdir(), reverse=True):  # the weights before what refers to them
        file.rename(cache / file.name)
    work.rmdir()


def make_stock(source, cache):
    if (cache / "stock_xnnpack.pte").exists():
        return
    beside = source.parent / "stock_xnnpack.pte"
    if beside.exists():
        (cache / "stock_xnnpack.pte").symlink_to(beside.resolve())
        return
    subprocess.run([sys.executable, ROOT / "tests/peers/stock_lower.py", source, "--backend", "xnnpack",
                    "--out", cache], check=True, stdout=subprocess.DEVNULL)


def make_ours(source, cache, binary):
    for backend in ("xnnpack", "portable"):
        out = cache / "lowering"
        shutil.rmtree(out, ignore_errors=True)
        subprocess.run([binary, "lower", source, "--backend", backend, "--out", out], check=True,
                       stdout=subprocess.DEVNULL)
        (file,) = out.glob("*.pte")
        file.rename(cache / f"ours_{backend}.pte")
        shutil.rmtree(out)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", type=pathlib.Path)
    parser.add_argument("--cache", type=pathlib.Path, required=True)
    parser.add_argument("--binary", default=ROOT / "build/release/src/cli/downhaul")
    args = parser.parse_args()
    for folder in args.models:
        cache = args.cache / folder.name
        cache.mkdir(parents=True, exist_ok=True)
        source = folder / "model.pt2"
        for what, make in (("ONNX", make_onnx), ("stock .pte", make_stock)):
            try:
                make(source, cache)
            except subprocess.CalledProcessError as error:
                print(f"{folder.name}: no {what}: {error}", file=sys.stderr)
        make_ours(source, cache, args.binary)
        print(f"{folder.name}: prepared", flush=True)


if __name__ == "__main__":
    main()
