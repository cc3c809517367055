"""The sample segmenter: torch's scores from the same weights, and the right object cut out."""

import json
import subprocess
import sys

import numpy
import pytest
import torch
from conftest import ROOT
from PIL import Image
from safetensors.torch import load_file

SAMPLE = ROOT / "samples" / "segmentation"
LABELS = json.loads((SAMPLE / "labels.json").read_text())


@pytest.fixture(scope="module")
def lowered(downhaul, tmp_path_factory):
    out = tmp_path_factory.mktemp("lowered")
    downhaul.run("lower", "--spec", SAMPLE / "model_spec.json", "--backend", "xnnpack", "--out", out)
    return out / "segmentation_xnnpack.pte"


@pytest.mark.parametrize("name", ["dog", "car"])
def test_the_object_is_cut_out(downhaul, lowered, tmp_path, name):
    said = json.loads(downhaul.run("segment", lowered, SAMPLE / f"{name}.jpg", "--spec", SAMPLE / "model_spec.json",
                                   "--out", tmp_path, "--json"))
    assert name in json.dumps(said)
    found = numpy.asarray(Image.open(tmp_path / "mask.png")) > 127
    true = numpy.asarray(Image.open(SAMPLE / f"{name}_mask.png")) == LABELS.index(name)
    iou = (found & true).sum() / (found | true).sum()
    assert iou > 0.75  # 0.87 and 0.83 as trained
    assert Image.open(tmp_path / "cutout.png").mode == "RGBA"


def test_scores_are_torchs(downhaul, lowered, tmp_path):
    program = f"""
import sys
sys.path[:0] = [{str(SAMPLE)!r}, {str(SAMPLE.parent / "vision")!r}]
import torch, train
from safetensors.torch import load_file, save_file
model = train.Segmenter().eval()
weights = {{k: v.float() for k, v in load_file({str(SAMPLE / "model.safetensors")!r}).items()}}
missing = model.net.load_state_dict(weights, strict=False)
assert not missing.unexpected_keys and all(k.endswith("num_batches_tracked") for k in missing.missing_keys)
torch.manual_seed(1)
x = torch.randn(1, 3, train.SIDE, train.SIDE)
with torch.inference_mode():
    save_file({{"image": x}}, {str(tmp_path / "in.safetensors")!r})
    save_file({{"out": model(x)}}, {str(tmp_path / "want.safetensors")!r})
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    downhaul.run("run", lowered, "--inputs", tmp_path / "in.safetensors", "--outputs", tmp_path / "out.safetensors")
    want = load_file(tmp_path / "want.safetensors")["out"]
    found = next(iter(load_file(tmp_path / "out.safetensors").values()))
    assert (found - want).abs().max() < 1e-4 * max(1, want.abs().max())
    assert torch.equal(found.argmax(1), want.argmax(1)) or (found.argmax(1) == want.argmax(1)).float().mean() > 0.9999
