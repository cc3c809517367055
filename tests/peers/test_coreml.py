"""Core ML packages: coremltools loads what is written, and this engine computes from it what torch does."""

import json
import math
import subprocess
import sys

import pytest
import torch
from conftest import HERE
from safetensors.torch import load_file

HEADS = ["distilbert_base", "distilbert_mlm", "distilbert_seqcls", "distilbert_qa", "distilbert_tokcls", "distilbert_mc"]
ENCODERS = ["bert_seqcls", "roberta", "vit"]
VISION = ["mobilenet_v2", "mobilenet_v3_large", "lraspp", "resnet18", "efficientnet_b0", "convnext_tiny"]


@pytest.fixture(scope="session")
def coremltools():
    process = subprocess.Popen([sys.executable, HERE / "coreml_load.py"], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

    def check(package):
        process.stdin.write(f"{package}\n")
        process.stdin.flush()
        said = json.loads(process.stdout.readline())
        assert "error" not in said, said["error"]
        return said

    yield check
    process.stdin.close()
    process.wait(60)


def psnr(found, wanted):
    """As the published comparison defines it."""
    rmse = math.sqrt(float(((found - wanted).double() ** 2).mean()))
    return 20 * math.log10((float(wanted.abs().max()) + 1e-5) / (rmse + 1e-10))


def lower(downhaul, models, model, backend, out, *more):
    downhaul.run("lower", models[model] / "model.pt2", "--backend", backend, "--out", out, "--name", model, *more)
    return out / f"{model}_{backend}.mlpackage"


def outputs(downhaul, package, inputs, out):
    downhaul.run("run", package, "--inputs", inputs, "--outputs", out)
    return load_file(out)


def as_torch(found, wanted):
    """From [B, C, 1, S], which the Neural Engine's form gives for wide outputs."""
    return found.squeeze(2).transpose(1, 2) if found.shape != wanted.shape and found.ndim == 4 else found


@pytest.mark.parametrize("backend", ["coreml", "ane"])
@pytest.mark.parametrize("model", HEADS + ENCODERS)
def test_text_and_image_encoders(downhaul, models, coremltools, tmp_path, model, backend):
    half = lower(downhaul, models, model, backend, tmp_path)
    said = coremltools(half)
    assert said["version"] == 6
    assert said["operations"] == json.loads((tmp_path / f"{model}_{backend}.json").read_text())["operations"]["count"]
    whole = lower(downhaul, models, model, backend, tmp_path, "--compute", "fp32")
    coremltools(whole)
    folders = [models[model], *sorted((models[model] / "cases").glob("*"))]
    for folder in folders:
        given = load_file(folder / "inputs.safetensors")
        mask = given.get("attention_mask")
        if mask is not None and not mask.any(-1).all():
            continue  # rows without keys: zeros in torch, an average on the device
        wanted = load_file(folder / "expected.safetensors")
        found = outputs(downhaul, whole, folder / "inputs.safetensors", tmp_path / "out.safetensors")
        assert found.keys() == wanted.keys()
        for name in wanted:
            assert psnr(as_torch(found[name], wanted[name]), wanted[name]) > 100, (folder.name, name)


@pytest.mark.parametrize("model", HEADS)
def test_the_neural_engines_form(downhaul, models, tmp_path, model):
    """Layouts of the outputs, and one attention chain a head with softmax over the keys on axis 1."""
    package = lower(downhaul, models, model, "ane", tmp_path)
    said = json.loads((tmp_path / f"{model}_ane.json").read_text())["operations"]["by_type"]
    assert said["einsum"] == 16 and said["softmax"] == 8 and said["split"] >= 6
    assert "linear" not in said and "matmul" not in said
    shown = json.loads(downhaul.run("inspect", package, "--json"))
    wide = {"distilbert_base": "f16[1,64,1,32]", "distilbert_mlm": "f32[1,1000,1,32]"}
    if model in wide:
        assert shown["files"][0]["outputs"][0]["type"].split("[")[1] == wide[model].split("[")[1]


@pytest.mark.parametrize("model", VISION)
def test_vision(downhaul, models, coremltools, tmp_path, model):
    coremltools(lower(downhaul, models, model, "coreml", tmp_path))
    whole = lower(downhaul, models, model, "coreml", tmp_path, "--compute", "fp32")
    wanted = load_file(models[model] / "expected.safetensors")
    found = outputs(downhaul, whole, models[model] / "inputs.safetensors", tmp_path / "out.safetensors")
    for name in wanted:
        assert (found[name] - wanted[name]).abs().max() <= 1e-4 * max(1, wanted[name].abs().max())


@pytest.mark.parametrize("ios", [15, 16, 17, 18])
def test_versions(downhaul, models, coremltools, tmp_path, ios):
    for backend in ("coreml", "ane"):
        package = lower(downhaul, models, "distilbert_qa", backend, tmp_path, "--ios", ios, "--input-prefix", "input_")
        said = coremltools(package)
        assert said["version"] == ios - 9
        assert said["inputs"] == ["input_input_ids", "input_attention_mask"]
        assert [name for name, _ in said["outputs"]] == ["start_logits", "end_logits"]


def test_primitive_norms(downhaul, models, coremltools, tmp_path):
    lower(downhaul, models, "distilbert_seqcls", "ane", tmp_path)
    fused = json.loads((tmp_path / "distilbert_seqcls_ane.json").read_text())["operations"]["count"]
    package = lower(downhaul, models, "distilbert_seqcls", "ane", tmp_path, "--norm", "primitive", "--compute", "fp32")
    assert coremltools(package)["operations"] == fused + 5 * 8 - 1  # nine for one; no cast at the end
    wanted = load_file(models["distilbert_seqcls"] / "expected.safetensors")["logits"]
    found = outputs(downhaul, package, models["distilbert_seqcls"] / "inputs.safetensors", tmp_path / "out.safetensors")
    assert psnr(found["logits"], wanted) > 100


def test_equal_runs_give_equal_packages(downhaul, models, tmp_path):
    def content(folder):
        package = lower(downhaul, models, "distilbert_seqcls", "ane", folder)
        return {str(p.relative_to(package)): p.read_bytes() for p in package.rglob("*") if p.is_file()}
    assert content(tmp_path / "a") == content(tmp_path / "b")


def test_a_package_lowers_to_a_pte_again(downhaul, models, tmp_path):
    package = lower(downhaul, models, "distilbert_seqcls", "coreml", tmp_path, "--compute", "fp32")
    downhaul.run("lower", package, "--backend", "xnnpack", "--out", tmp_path, "--name", "again")
    wanted = load_file(models["distilbert_seqcls"] / "expected.safetensors")["logits"]
    found = outputs(downhaul, tmp_path / "again_xnnpack.pte", models["distilbert_seqcls"] / "inputs.safetensors",
                    tmp_path / "out.safetensors")
    assert (next(iter(found.values())) - wanted).abs().max() < 1e-4


def test_what_does_not_go_together_is_refused(downhaul, models, tmp_path):
    done = subprocess.run([downhaul.path, "lower", models["distilbert_qa"] / "model.pt2", "--backend", "xnnpack", "--ios", "16",
                           "--out", tmp_path], capture_output=True, text=True)
    assert done.returncode == 2 and "--backend coreml" in done.stderr
    assert "fixed" in downhaul.refuse("lower", models["gpt2_dynamic"] / "model.pt2", "--backend", "coreml", "--out", tmp_path)


# 64 and 16 levels hold normal weights to 31 and 20 dB; two layers of noise leave some 10 dB less.
@pytest.mark.parametrize("weights, least", [("int8", 30), ("palette6", 20), ("palette4", 10)])
def test_compressed_weights(downhaul, models, coremltools, tmp_path, weights, least):
    model = "distilbert_seqcls"
    plain = lower(downhaul, models, model, "ane", tmp_path / "plain", "--ios", 16)
    small = lower(downhaul, models, model, "ane", tmp_path, "--weights", weights)
    assert coremltools(small)["version"] == 7
    share = {"int8": 0.56, "palette6": 0.46, "palette4": 0.34}[weights]  # norms and biases of so small a model stay
    sizes = [(p / "Data/com.apple.CoreML/weights/weight.bin").stat().st_size for p in (plain, small)]
    assert sizes[1] < share * sizes[0], sizes
    wanted = load_file(models[model] / "expected.safetensors")["logits"]
    found = outputs(downhaul, small, models[model] / "inputs.safetensors", tmp_path / "out.safetensors")["logits"].float()
    assert psnr(found, wanted) > least
    done = subprocess.run([downhaul.path, "lower", models[model] / "model.pt2", "--backend", "ane", "--weights", weights,
                           "--ios", "15", "--out", tmp_path], capture_output=True, text=True)
    assert done.returncode == 2 and "--ios 16" in done.stderr
