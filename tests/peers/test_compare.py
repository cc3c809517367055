"""`downhaul compare`: files that agree, files that do not, and where that begins."""

import json
import pathlib
import struct
import subprocess

import numpy
import pytest
import torch

from test_cli import refused, run


def poked(pte, tensor, index, value, out):
    """A copy of `pte` in which one element of the constant with the bytes of `tensor` is `value`."""
    data = bytearray(pte.read_bytes())
    wanted = tensor.detach().numpy().tobytes()
    at = data.find(wanted)
    assert at >= 0 and data.find(wanted, at + 1) < 0, "the tensor is not in the file exactly once"
    data[at + 4 * index:at + 4 * index + 4] = struct.pack("<f", value)
    out.write_bytes(data)
    return out


@pytest.fixture(scope="session")
def weights(models):
    """model -> its parameters by name, without equal ones."""
    def load(name):
        program = torch.export.load(models[name] / "model.pt2")
        return {key: value.detach() for key, value in program.state_dict.items() if value.dtype == torch.float32}
    return load


@pytest.mark.parametrize("backend", ["portable", "xnnpack"])
@pytest.mark.parametrize("model", ["distilbert_fillmask", "gpt2", "lraspp", "mobilenet_v2"])
def test_lowered_files_differ_by_rounding_only(model, backend, models, lowered):
    folder = models[model]
    done = run("compare", folder / "model.pt2", lowered(model, backend), "--inputs",
               folder / "inputs.safetensors", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert report["verdict"] in ("equal", "rounding")
    assert len(report["sets"]) == 3, "random, structured and given inputs"
    for inputs in report["sets"]:
        for output in inputs["outputs"]:
            assert output["relative"] <= output["tolerance"]
            assert output["argmax_equal"] == output["argmax_rows"]
            if model == "lraspp":
                assert output["mask_iou_lowest"] == 1
    assert report["first_divergence"] is None


def test_figures_are_those_of_numpy(models, lowered, tmp_path):
    """Against outputs that `run` writes; the formulas as the report states them."""
    folder = models["mobilenet_v2"]
    files = [folder / "model.pt2", lowered("mobilenet_v2", "xnnpack")]
    outputs = []
    for i, file in enumerate(files):
        out = tmp_path / f"{i}.safetensors"
        assert run("run", file, "--random", 1, "--outputs", out, "--reference").returncode == 0
        from safetensors.numpy import load_file
        outputs.append(next(iter(load_file(out).values())).astype(numpy.float64))
    a, b = outputs
    report = json.loads(run("compare", *files, "--json", "--reference").stdout)
    figures = report["sets"][0]["outputs"][0]
    assert figures["max_abs"] == pytest.approx(numpy.abs(a - b).max())
    assert figures["mean_abs"] == pytest.approx(numpy.abs(a - b).mean())
    assert figures["relative"] == pytest.approx(numpy.abs(a - b).max() / numpy.abs(a).max())
    assert figures["psnr_db"] == pytest.approx(
        10 * numpy.log10((a.max() - a.min()) ** 2 / ((a - b) ** 2).mean()))
    assert figures["cosine"] == pytest.approx((a * b).sum() / numpy.sqrt((a * a).sum() * (b * b).sum()))


CASES = [("distilbert_fillmask", "layer.0.ffn.lin1.bias"), ("distilbert_fillmask", "layer.1.attention.q_lin.bias"),
         ("gpt2", "h.1.ln_2.bias"), ("gpt2", "h.0.mlp.c_proj.bias")]


@pytest.mark.parametrize("backend", ["portable", "xnnpack"])
@pytest.mark.parametrize("model,name", CASES)
def test_a_changed_bias_is_found(model, name, backend, models, lowered, weights, tmp_path):
    folder = models[model]
    good = lowered(model, backend)
    state = weights(model)
    key = next(k for k in state if k.endswith(name))
    bad = poked(good, state[key], 3, float(state[key][3]) + 0.75, tmp_path / "bad.pte")
    for first in (good, folder / "model.pt2"):
        done = run("compare", first, bad, "--inputs", folder / "inputs.safetensors", "--json")
        assert done.returncode == 3, done.stdout + done.stderr
        report = json.loads(done.stdout)
        assert [s["verdict"] for s in report["sets"]] == ["DIFFERENT"] * 3
        found = report["first_divergence"]
        assert found["b"] is not None, found
        text = json.dumps(found)
        assert key in text or "bias" in " ".join(found["weights"]), text
        assert found["difference"] == pytest.approx(0.75, rel=0.05), text
    said = run("compare", good, bad).stdout
    assert "first operator that diverges" in said and "by shape, order and numeric agreement" in said


@pytest.mark.parametrize("backend", ["portable", "xnnpack"])
@pytest.mark.parametrize("model,name", CASES[1:3])
def test_a_changed_bias_of_a_stock_file_is_found(model, name, backend, models, lowered, weights, tmp_path):
    """Against the program it was made of, and against our lowering, whose graph has other nodes."""
    folder = models[model]
    state = weights(model)
    key = next(k for k in state if k.endswith(name))
    bad = poked(models.stock(model, backend), state[key], 3, float(state[key][3]) + 0.75, tmp_path / "bad.pte")
    for first in (folder / "model.pt2", models.stock(model, backend), lowered(model, backend)):
        done = run("compare", first, bad, "--json")
        assert done.returncode == 3, done.stdout + done.stderr
        found = json.loads(done.stdout)["first_divergence"]
        assert found["b"] is not None and found["difference"] == pytest.approx(0.75, rel=0.05), found
        assert key in json.dumps(found) or "bias" in " ".join(found["weights"]), found


@pytest.mark.parametrize("backend", ["portable", "xnnpack"])
def test_names_that_a_file_carries_are_used(backend, models, downhaul, weights, tmp_path):
    folder = models["distilbert_fillmask"]
    good = downhaul.lower(folder, backend, tmp_path, "--embed-nodes")
    key = next(k for k in weights("distilbert_fillmask") if k.endswith("layer.0.ffn.lin2.bias"))
    tensor = weights("distilbert_fillmask")[key]
    bad = poked(good, tensor, 5, float(tensor[5]) + 0.75, tmp_path / "bad.pte")
    done = run("compare", folder / "model.pt2", bad, "--json")
    assert done.returncode == 3, done.stderr
    found = json.loads(done.stdout)["first_divergence"]
    assert found["matched_by_name"] > found["matched_by_value"], found
    assert "layer.0.ffn.lin2" in found["a"]["origin"] and "layer.0.ffn.lin2" in found["b"]["origin"]
    assert run("compare", folder / "model.pt2", good).returncode == 0


def test_lowering_verifies_its_own_file(models, downhaul, tmp_path):
    spec = models["mobilenet_v2"] / "model_spec.json"
    for backend in ("portable", "xnnpack"):
        done = run("lower", "--spec", spec, "--backend", backend, "--out", tmp_path, "--verify")
        assert done.returncode == 0, done.stderr
        assert "the files differ by rounding only" in done.stdout or "bit for bit" in done.stdout
        meta = json.loads((tmp_path / f"mobilenet_v2_{backend}.json").read_text())
        assert meta["verification"]["verdict"] in ("equal", "rounding")


PICK = """graph pick {
  input %x: f32[1,4,8]
  input %ids: i64[1,4]
  const %top: f32[1,4,8] = [0,0,0,0,0,0,0,0, 0,0,0,0,0,0,0,0, 0,0,0,0,0,0,0,0, inf,0,0,0,0,0,0,0]
  const %w: f32[8,8] = random 1
  const %one: i64[] = [1]
  %m = eq(%ids, %one)
  %c = cast(%m, dtype=i64)
  %i = argmax(%c, dim=1)
  %f = add(%x, %top)
  %g = tanh(%f)
  %h = div(%f, %g)
  %p = batched_select(%h, %i)
  %y = linear(%p, %w)
  return %y
}
"""


def test_a_lowering_that_changes_results_is_kept_and_said(downhaul, tmp_path):
    """The one difference that is accepted: where a row is picked by a one-hot product inside the
    delegate, an infinity in another row becomes NaN. --exact-select avoids it."""
    tool = pathlib.Path(downhaul.path).parent.parent / "targets" / "lower_text"
    (tmp_path / "pick.dh").write_text(PICK)
    subprocess.run([tool, tmp_path / "pick.dh", tmp_path, "--portable"], check=True)
    source = tmp_path / "pick" / "model.pte"
    done = run("lower", source, "--backend", "xnnpack", "--out", tmp_path, "--verify")
    refused(done, 3, "it was kept", "model_xnnpack.pte")
    assert (tmp_path / "model_xnnpack.pte").exists()
    meta = json.loads((tmp_path / "model_xnnpack.json").read_text())
    assert meta["verification"]["verdict"] == "DIFFERENT"
    exact = run("lower", source, "--backend", "xnnpack", "--out", tmp_path, "--verify", "--exact-select")
    assert exact.returncode == 0, exact.stdout + exact.stderr


def test_a_weight_that_is_not_a_number_is_found(models, lowered, weights, tmp_path):
    state = weights("distilbert_fillmask")
    key = next(k for k in state if k.endswith("layer.0.ffn.lin1.bias"))
    bad = poked(lowered("distilbert_fillmask", "xnnpack"), state[key], 0, float("nan"), tmp_path / "bad.pte")
    done = run("compare", models["distilbert_fillmask"] / "model.pt2", bad, "--json")
    assert done.returncode == 3, done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert report["first_divergence"]["b"]["operator"] == "linear"
    assert report["sets"][0]["outputs"][0]["not_finite_unequal"] > 0


def test_a_tolerance_that_was_asked_for(models, lowered, weights, tmp_path):
    state = weights("distilbert_fillmask")
    key = next(k for k in state if k.endswith("layer.0.ffn.lin1.bias"))
    good = lowered("distilbert_fillmask", "portable")
    bad = poked(good, state[key], 0, float(state[key][0]) + 0.01, tmp_path / "bad.pte")
    assert run("compare", good, bad).returncode == 3
    done = run("compare", good, bad, "--tolerance", "0.5")
    assert done.returncode == 0 and "as asked" in done.stdout
    assert run("compare", good, good, "--tolerance", "0").returncode == 0
    assert run("compare", good, bad, "--tolerance", "-1").returncode == 2


def test_files_that_do_not_fit_together(models, lowered):
    files = [models["distilbert_fillmask"] / "model.pt2", lowered("mobilenet_v2", "portable")]
    refused(run("compare", *files), 1, "inputs")
    assert run("compare", files[0]).returncode == 2
    refused(run("compare", files[0], files[0], "--inputs", "missing.safetensors"), 1, "missing.safetensors")


def test_stock_files(models):
    for model in ("distilbert_fillmask", "lraspp"):
        for backend in ("portable", "xnnpack"):
            done = run("compare", models[model] / "model.pt2", models.stock(model, backend))
            assert done.returncode == 0, done.stdout + done.stderr
