"""Packages that coremltools makes run here and agree with torch: DistilBERT's layers as they stand and in the
published form for the Neural Engine, MobileNetV2 and LR-ASPP."""

import subprocess
import sys

import pytest
from conftest import HERE
from safetensors.torch import load_file

MODELS = {"plain": ["iOS15", "iOS16", "iOS17", "iOS18"], "ane": ["iOS15", "iOS16", "iOS17", "iOS18"],
          "mobilenet_v2": ["iOS15", "iOS17"], "lraspp": ["iOS15", "iOS16"]}
CASES = [(model, target, bits) for model, targets in MODELS.items() for target in targets for bits in (16, 32)]


@pytest.fixture(scope="session")
def packages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("coremltools")
    done = subprocess.run([sys.executable, HERE / "coreml_make.py", folder], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return folder


@pytest.mark.parametrize("model, target, bits", CASES)
def test_runs_as_torch(downhaul, packages, tmp_path, model, target, bits):
    package = packages / f"{model}_{target}_{bits}.mlpackage"
    out = tmp_path / "out.safetensors"
    downhaul.run("run", package, "--inputs", packages / f"{model}.in.safetensors", "--outputs", out)
    wanted = load_file(packages / f"{model}.want.safetensors")["y"]
    found = next(iter(load_file(out).values())).float()
    # Halves hold weights and borders to 2^-11; a dozen layers add up to some of these.
    limit = 1e-2 if bits == 16 else 1e-5
    assert (found - wanted).abs().max() <= limit * wanted.abs().max()
    shown = downhaul.run("inspect", package)
    assert "Core ML package" in shown and "predicted" in shown
