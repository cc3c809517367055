"""What half floats do to DistilBERT in the form for the Neural Engine: PSNR to transformers in f32, by
the published formula, over all six heads with random weights, norms and biases; placement."""

import json
import math

import pytest
import torch
from model_zoo.common import import_torchvision
from safetensors.torch import load_file, save_file

HEADS = {
    "base": "DistilBertModel",
    "mlm": "DistilBertForMaskedLM",
    "seqcls": "DistilBertForSequenceClassification",
    "qa": "DistilBertForQuestionAnswering",
    "tokcls": "DistilBertForTokenClassification",
    "mc": "DistilBertForMultipleChoice",
}


def psnr(found, wanted):
    rmse = math.sqrt(float(((found - wanted).double() ** 2).mean()))
    return 20 * math.log10((float(wanted.abs().max()) + 1e-5) / (rmse + 1e-10))


def checkpoint(head, folder):
    import_torchvision()  # transformers does
    import transformers

    torch.manual_seed(1)
    config = transformers.DistilBertConfig(vocab_size=1000, n_layers=2, n_heads=4, dim=64, hidden_dim=128,
                                           max_position_embeddings=64, num_labels=9 if head == "tokcls" else 2,
                                           attn_implementation="eager")
    model = getattr(transformers, HEADS[head])(config).eval()
    g = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for name, p in model.named_parameters():  # so that the order of norm and bias shows
            if p.ndim == 1:
                r = torch.rand(p.shape, generator=g)
                p.copy_(0.5 + r if name.lower().endswith("norm.weight") else 0.2 * (r - 0.5))
    model.save_pretrained(folder)
    return model


def outputs_of(model, ids, mask):
    with torch.no_grad():
        result = model(input_ids=ids, attention_mask=mask)
    return [v for v in result.values() if torch.is_tensor(v)]


@pytest.mark.parametrize("head", HEADS)
def test_half_floats_stay_close_to_transformers(downhaul, tmp_path, head):
    model = checkpoint(head, tmp_path / "checkpoint")
    downhaul.run("lower", tmp_path / "checkpoint", "--head", head, "--seq-len", 32, "--batch", 2, "--backend", "ane",
                 "--name", head, "--out", tmp_path)
    package = tmp_path / f"{head}_ane.mlpackage"
    shape = (2, 4, 32) if head == "mc" else (2, 32)
    ids = torch.randint(1, 1000, shape, generator=torch.Generator().manual_seed(3))
    mask = torch.ones(shape, dtype=torch.long)
    ids[..., 24:], mask[..., 24:] = 0, 0
    save_file({"input_ids": ids.int(), "attention_mask": mask.int()}, tmp_path / "in.safetensors")
    found = {}
    for precision in ("fp16", "fp32"):
        said = json.loads(downhaul.run("run", package, "--inputs", tmp_path / "in.safetensors", "--precision", precision,
                                       "--outputs", tmp_path / "out.safetensors", "--json"))
        tensors = load_file(tmp_path / "out.safetensors")
        found[precision] = [tensors[o["name"]].float() for o in said["outputs"]]
    for index, wanted in enumerate(outputs_of(model, ids, mask)):
        def close(precision):
            t = found[precision][index]
            return psnr(t.squeeze(2).transpose(1, 2) if t.ndim == 4 else t, wanted)
        assert close("fp16") > 60, close("fp16")
        assert close("fp32") > close("fp16"), "the weights are half floats in both"


def test_the_placement_of_a_package_is_predicted(downhaul, tmp_path):
    checkpoint("seqcls", tmp_path / "checkpoint")
    downhaul.run("lower", tmp_path / "checkpoint", "--head", "seqcls", "--seq-len", 32, "--backend", "ane", "--name", "m",
                 "--out", tmp_path)
    shown = json.loads(downhaul.run("inspect", tmp_path / "m_ane.mlpackage", "--json"))["files"][0]["placement"]
    written = json.loads((tmp_path / "m_ane.json").read_text())
    assert shown == written["placement"]
    assert shown["predicted"] is True and shown["operations"] == written["operations"]["count"]
    off = [o for o in shown["placement"] if o["unit"] != "ANE"]
    assert sorted(o["type"] for o in off) == ["add", "gather"] and all(o["rule"] == 2 for o in off)
    assert shown["ane"] == shown["operations"] - 2 and shown["copies"] == 3  # embeddings, keys of two layers
    assert "published reference: 602 ANE / 606" in downhaul.run("inspect", tmp_path / "m_ane.mlpackage")


def test_packages_of_half_floats_lower_to_one_delegate(downhaul, models, tmp_path):
    for model, backend in (("distilbert_seqcls", "ane"), ("mobilenet_v2", "coreml")):
        downhaul.run("lower", models[model] / "model.pt2", "--backend", backend, "--out", tmp_path, "--name", model)
        said = json.loads(downhaul.run("lower", tmp_path / f"{model}_{backend}.mlpackage", "--backend", "xnnpack",
                                       "--out", tmp_path, "--name", "again", "--json"))
        assert said["delegation"]["delegate_call_sites"] == 1
        # The same weights: what they lose as half floats is not the delegate's.
        found = []
        for file in (f"{model}_{backend}.mlpackage", "again_xnnpack.pte"):
            downhaul.run("run", tmp_path / file, "--inputs", models[model] / "inputs.safetensors",
                         "--outputs", tmp_path / "out.safetensors")
            found.append(next(iter(load_file(tmp_path / "out.safetensors").values())))
        assert psnr(*found) > 100
