"""`downhaul bench`: figures that add up, and comparisons that are refused where they would mislead."""

import csv
import io
import json
import os

import pytest

from test_cli import refused, run

QUICK = ["--warmups", "1", "--runs", "5"]


@pytest.fixture(scope="module")
def report(models):
    done = run("bench", models["mobilenet_v2"] / "model.pt2", *QUICK, "--profile", "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_figures_add_up(report):
    assert report["threads"] == 1 and report["cpu"] and report["isa"] and report["build"]
    assert report["measured_fma_gflops"] > 0 and report["measured_read_gb_per_s"] > 0
    file = report["files"][0]
    assert len(file["runs_ms"]) == 5
    assert file["min_ms"] <= file["median_ms"] <= file["p95_ms"] <= file["max_ms"]
    assert file["median_ms"] == sorted(file["runs_ms"])[2]
    assert min(file["load_ms"], file["prepare_ms"], file["first_run_ms"]) > 0
    assert file["kernel_calls"] == len(file["profile"]) > 50
    assert sum(step["multiply_adds"] for step in file["profile"]) == file["multiply_adds"]
    assert file["gflops"] == pytest.approx(2e-6 * file["multiply_adds"] / file["median_ms"])
    slow = [step for step in file["profile"] if step["reference"]]
    assert len(slow) == sum(file["reference_operators"].values())
    assert file["resident_peak_bytes"] >= file["resident_steady_bytes"] > file["weight_bytes"]


def test_the_header_comes_before_any_figure(models):
    said = run("bench", models["mobilenet_v2"] / "model.pt2", *QUICK, "--threads", 2).stdout
    header, coverage = said.splitlines()[0], said.index("in the engine")
    assert "2 threads" in header and "build" in header
    assert coverage < said.index(" ms")


def test_as_csv(models):
    said = run("bench", models["mobilenet_v2"] / "model.pt2", *QUICK, "--csv").stdout
    rows = list(csv.DictReader(io.StringIO(said)))
    assert len(rows) == 1 and float(rows[0]["median_ms"]) > 0
    said = run("bench", models["mobilenet_v2"] / "model.pt2", *QUICK, "--csv", "--profile").stdout
    assert len(list(csv.DictReader(io.StringIO(said)))) > 50


def test_the_instruction_set_can_be_lowered(models):
    """Every verb that runs honours DOWNHAUL_ISA, and says which set it used."""
    model = models["mobilenet_v2"] / "model.pt2"
    lower = {**os.environ, "DOWNHAUL_ISA": "baseline"}
    done = run("bench", model, *QUICK, "--json", env=lower)
    assert json.loads(done.stdout)["isa"] == "baseline"
    assert json.loads(run("run", model, "--random", 1, "--json", env=lower).stdout)["isa"] == "baseline"
    assert "baseline" in run("compare", model, model, env=lower).stdout
    for verb in (["bench", model], ["run", model, "--random", 1], ["compare", model, model], ["check", model]):
        refused(run(*verb, env={**os.environ, "DOWNHAUL_ISA": "mmx"}), 2, "DOWNHAUL_ISA", "mmx")


def test_bf16_prints_how_far_it_is_off(models, tmp_path):
    model = models["distilbert_fillmask"] / "model.pt2"
    said = run("bench", model, *QUICK, "--precision", "bf16").stdout
    assert "linear layers in bf16" in said.splitlines()[0] and "logits against f32: max abs" in said
    reports = {p: run("bench", model, *QUICK, "--precision", p, "--json") for p in ("f32", "bf16")}
    for precision, done in reports.items():
        (tmp_path / f"{precision}.json").write_text(done.stdout)
    off = json.loads(reports["bf16"].stdout)["files"][0]["outputs_to_f32"]
    assert len(off) == 1 and 1e-4 < off[0]["relative"] < 0.05 and off[0]["cosine"] > 0.999
    assert json.loads(reports["f32"].stdout)["files"][0]["outputs_to_f32"] == []
    refused(run("bench", "--compare", tmp_path / "f32.json", tmp_path / "bf16.json"), 1, "precision")
    # The same figures from `compare`, and from every instruction set there is.
    for isa in ("baseline", "avx2", "avx512", ""):
        done = run("compare", model, model, "--precision", "bf16", "--json",
                   env={**os.environ, "DOWNHAUL_ISA": isa})
        if done.returncode == 2:
            continue  # not on this CPU
        found = json.loads(done.stdout)["sets"][0]["outputs"][0]
        assert done.returncode == 0 and found["verdict"] == "rounding" and found["relative"] > 1e-4
    refused(run("run", model, "--random", 1, "--reference", "--precision", "bf16"), 2, "--precision")
    assert run("bench", model, "--precision", "f16").returncode == 2


def test_two_results_are_compared(report, tmp_path):
    def saved(name, **changes):
        changed = json.loads(json.dumps(report))
        factor = changes.pop("factor", 1)
        changed.update(changes)
        changed["files"][0]["runs_ms"] = [factor * (10 + 0.01 * (i % 3)) for i in range(30)]
        path = tmp_path / name
        path.write_text(json.dumps(changed))
        return path

    old = saved("old.json")
    same = json.loads(run("bench", "--compare", old, saved("same.json"), "--json").stdout)["files"][0]
    assert not same["beyond_noise"] and same["ratio"] == 1
    slower = run("bench", "--compare", old, saved("slower.json", factor=1.2))
    assert slower.returncode == 0 and "SLOWER" in slower.stdout
    assert "FASTER" in run("bench", "--compare", old, saved("faster.json", factor=0.8)).stdout
    refused(run("bench", "--compare", old, saved("cpu.json", cpu="another")), 1, "not comparable", "cpu")
    refused(run("bench", "--compare", old, saved("threads.json", threads=7)), 1, "not comparable", "threads")
    refused(run("bench", "--compare", old, saved("isa.json", isa="mmx")), 1, "not comparable", "isa")
    other = json.loads(old.read_text())
    other["files"][0]["name"] = "other.pte"
    (tmp_path / "other.json").write_text(json.dumps(other))
    refused(run("bench", "--compare", old, tmp_path / "other.json"), 1, "not comparable")
    other["files"][0].update(name="model.pt2", inputs=["x: f32[1]"])
    (tmp_path / "other.json").write_text(json.dumps(other))
    refused(run("bench", "--compare", old, tmp_path / "other.json"), 1, "not comparable", "inputs")


def test_what_is_no_result_is_refused(tmp_path):
    (tmp_path / "a.json").write_text("{}")
    refused(run("bench", "--compare", tmp_path / "a.json", tmp_path / "a.json"), 1, "bench --json")
    assert run("bench").returncode == 2
    assert run("bench", "--compare", tmp_path / "a.json").returncode == 2
