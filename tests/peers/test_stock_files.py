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
    told = json.loads(downhaul.run("inspect", pte, "--json"))
    told = told[0] if isinstance(told, list) else told
    assert told, "no report"
    figures = json.loads(pte.with_suffix(".json").read_text())
    delegation = told.get("delegation", told)
    assert delegation["call_sites"] == figures["call_sites"]
    assert delegation["kernel_calls"] == figures["kernel_calls"]
    assert delegation["graph_nodes"] == figures["graph_nodes"]
