"""Every file that `downhaul lower` writes, judged by its peers: stock ExecuTorch and Model Explorer."""

import json

import pytest
from conftest import BACKENDS, DECOMPOSED, EAGER, MODELS, TEXT, TOLERANCE, UNWRAPPED, VISION
from safetensors.torch import load_file
from stock_run import difference, sets_of

EVERY = [pytest.param(model, backend, id=f"{model}-{backend}") for model in MODELS for backend in BACKENDS]


def failures(results):
    return [r for r in results if "error" in r or not r["max_abs_diff"] <= TOLERANCE]


@pytest.mark.parametrize("model, backend", EVERY)
def test_stock_runtime_gives_eager_outputs(model, backend, lowered, models, stock_runtime):
    results = stock_runtime.run(lowered(model, backend), models[model])
    assert {r["verification"] for r in results} == {"Minimal", "InternalConsistency"}
    assert not failures(results)


@pytest.mark.parametrize("model, backend", EVERY)
def test_model_explorer_shows_program_and_delegates(model, backend, lowered):
    from pte_adapter_model_explorer.main import PTEAdapter
    pte = lowered(model, backend)
    collections = PTEAdapter().convert(str(pte), {})["graphCollections"]
    graphs = [g for c in collections for g in c.graphs]
    assert graphs and all(g.nodes for g in graphs)
    sites = json.loads(pte.with_suffix(".json").read_text())["delegation"]["delegate_call_sites"]
    assert len(graphs) >= (2 if sites else 1), "the delegate's graph is not shown"


@pytest.mark.parametrize("model", TEXT + VISION + EAGER + DECOMPOSED + UNWRAPPED)
def test_one_delegate_holds_the_model(model, lowered):
    delegation = json.loads(lowered(model, "xnnpack").with_suffix(".json").read_text())["delegation"]
    assert delegation["delegate_call_sites"] == 1, delegation["outside"]
    assert delegation["multiply_add_share_delegated"] == 1.0


@pytest.mark.parametrize("model, backend", EVERY)
def test_metadata_is_consistent(model, backend, lowered, models):
    pte = lowered(model, backend)
    meta = json.loads(pte.with_suffix(".json").read_text())
    assert meta["model"] == model
    assert meta["backend"] == backend
    assert meta["pte_size_mb"] == pytest.approx(pte.stat().st_size / 1e6, abs=0.006)


def run_sets(downhaul, file, folder, tmp_path, limit=4):
    """Our own engine on a few sets of a model: the sample, and some spread over its cases."""
    sets = sets_of(folder)
    chosen = [sets[0], *sets[1 :: max(1, (len(sets) - 1) // (limit - 1))]][:limit]
    for label, inputs, expected in chosen:
        out = tmp_path / f"{label}.safetensors"
        downhaul.run("run", file, "--inputs", inputs, "--outputs", out)
        got, want = load_file(out), load_file(expected)
        assert set(got) == set(want), f"{label}: outputs {sorted(got)}, expected {sorted(want)}"
        for name in want:
            assert difference(got[name], want[name]) <= TOLERANCE, f"{label}: {name}"


@pytest.mark.parametrize("model", MODELS)
def test_own_engine_runs_pt2(model, downhaul, models, tmp_path):
    run_sets(downhaul, models[model] / "model.pt2", models[model], tmp_path)


@pytest.mark.parametrize("model, backend", EVERY)
def test_own_engine_runs_own_pte(model, backend, lowered, downhaul, models, tmp_path):
    run_sets(downhaul, lowered(model, backend), models[model], tmp_path)


def test_check_accepts_a_lowered_spec(downhaul, models, tmp_path):
    import shutil
    folder = tmp_path / "model"
    shutil.copytree(models["mobilenet_v2"], folder)
    for backend in BACKENDS:
        downhaul.lower(folder, backend, folder)
    downhaul.run("check", "--spec", folder / "model_spec.json")
    (folder / "mobilenet_v2_portable.pte").write_bytes(b"ET12")
    downhaul.run("check", "--spec", folder / "model_spec.json", code=1)


def test_unwrapped_segmentation_keeps_one_output(downhaul, models, stock_runtime, tmp_path):
    """--output out drops the other heads; the result is the same output alone."""
    model = models["deeplabv3_mobilenet_v3_unwrapped"]
    folder = tmp_path / "out_only"
    (folder / "cases").mkdir(parents=True)
    from safetensors.torch import save_file
    spec = json.loads((model / "model_spec.json").read_text())
    spec["outputs"] = [o for o in spec["outputs"] if o["name"] == "out"]
    (folder / "model_spec.json").write_text(json.dumps(spec))
    (folder / "inputs.safetensors").write_bytes((model / "inputs.safetensors").read_bytes())
    save_file({"out": load_file(model / "expected.safetensors")["out"]}, folder / "expected.safetensors")
    for backend in BACKENDS:
        pte = downhaul.lower(model, backend, tmp_path, "--output", "out")
        assert not failures(stock_runtime.run(pte, folder))
