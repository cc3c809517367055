"""Files that stock ExecuTorch made: `inspect` counts them as Arm's course does, `run` runs them."""

import json

import pytest
from conftest import BACKENDS
from test_lower import run_sets

STOCK = ["mobilenet_v2", "distilbert_fillmask", "gpt2", "lraspp"]
EVERY = [pytest.param(model, backend, id=f"{model}-{backend}") for model in STOCK for backend in BACKENDS]


@pytest.mark.parametrize("model, backend", EVERY)
def test_own_engine_runs_stock_file(model, backend, downhaul, models, tmp_path):
    # Stock files do not name their inputs and outputs; a spec beside them does.
    run_sets(downhaul, models.stock(model, backend), models[model], tmp_path)


@pytest.mark.parametrize("model, backend", EVERY)
def test_inspect_reads_stock_file(model, backend, downhaul, models):
    pte = models.stock(model, backend)
    told = json.loads(downhaul.run("inspect", pte, "--json"))["files"][0]
    figures = json.loads(pte.with_suffix(".json").read_text())
    delegation = told["delegation"]
    assert delegation["delegate_call_sites"] == figures["call_sites"]
    assert delegation["kernel_calls_outside"] == figures["kernel_calls"]
    # A view of static shape leaves no trace in a file.
    assert delegation["graph_nodes_outside"] == figures["graph_nodes"] - figures["nodes"].get("view", 0)
