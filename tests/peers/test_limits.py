"""Files and flags that ask for more than there is: one line and an exit code, never a signal."""

import json
import os
import resource
import subprocess

import pytest
import torch
import torch.nn.functional as F

from test_cli import BINARY, refused, run

GIB = 1 << 30


def limited(*args, memory=2 * GIB):
    """run() with so much address space."""
    return run(*args, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (memory, memory)))


GREEDY = {
    "expand": lambda x: torch.tanh(x.expand(30000, 30000)),
    "expand_sum": lambda x: torch.tanh(x.expand(30000, 30000)).sum(),
    "too_large": lambda x: torch.tanh(x.expand(3000000, 3000000)).sum(),
    "arange": lambda x: x + torch.arange(0, 1000000000, dtype=torch.float32).sum(),
    "full": lambda x: x + torch.full((30000, 30000), 2.0).tanh(),
    "pad": lambda x: F.pad(x[None, None, None], (0, 30000, 0, 30000)),
    "repeat": lambda x: x.repeat(300000, 3000),
    "resize": lambda x: F.interpolate(x[None, None, None], size=(30000, 30000)),
}


@pytest.fixture(scope="module")
def greedy(tmp_path_factory):
    """name -> a .pt2 of a few KiB whose activations need gigabytes."""
    folder = tmp_path_factory.mktemp("greedy")
    files = {}
    for name, function in GREEDY.items():
        class Model(torch.nn.Module):
            def forward(self, x):
                return function(x)
        files[name] = folder / f"{name}.pt2"
        torch.export.save(torch.export.export(Model().eval(), (torch.ones(1),)), files[name])
    return files


@pytest.mark.parametrize("name", GREEDY)
def test_activations_beyond_the_memory(name, greedy):
    file = greedy[name]
    assert file.stat().st_size < 1 << 14
    for how in ([], ["--reference"]):
        refused(limited("run", file, "--random", 1, *how), 1)
    refused(limited("bench", file, "--runs", 1), 1)
    refused(limited("compare", file, file), 1)
    assert limited("inspect", file).returncode == 0


@pytest.mark.parametrize("name", GREEDY)
def test_lowering_stores_no_gigabytes_of_constants(name, greedy, tmp_path):
    for backend in ("portable", "xnnpack"):
        done = limited("lower", greedy[name], "--backend", backend, "--out", tmp_path)
        if done.returncode != 0:  # more than any runtime takes
            refused(done, 1, "36000000000")
    for made in tmp_path.glob("*.pte"):
        assert made.stat().st_size < 32 << 20, made


def test_more_threads_than_the_system_gives(models):
    model = models["mobilenet_v2"] / "model.pt2"
    for verb in (["run", model, "--random", 1], ["bench", model, "--runs", 1], ["compare", model, model]):
        refused(limited(*verb, "--threads", 1000, memory=GIB), 1, "thread")
        assert run(*verb, "--threads", 3).returncode == 0


def test_an_output_that_nobody_takes(models):
    model = models["mobilenet_v2"] / "model.pt2"
    for verb in (["run", model, "--random", 1], ["bench", model, "--runs", 3, "--json"], ["inspect", model],
                 ["compare", model, model]):
        with open("/dev/full", "w") as full:
            done = subprocess.run([BINARY, *map(str, verb)], stdout=full, stderr=subprocess.PIPE, text=True)
        assert done.returncode == 1 and "standard output" in done.stderr, (verb, done.stderr)


@pytest.mark.parametrize("flag,values", [("--threads", ["0", "-1", "1025", "1e3", "x", ""]),
                                         ("--runs", ["0", "-1"]), ("--seconds", ["-1", "nan", "inf"])])
def test_flags_out_of_range(flag, values, models):
    for value in values:
        done = run("bench", models["mobilenet_v2"] / "model.pt2", flag, value)
        assert done.returncode == 2 and flag in done.stderr, (flag, value)


def test_a_cache_folder_that_cannot_be_used_is_said(models, tmp_path):
    model = models["mobilenet_v2"] / "model.pt2"
    (tmp_path / "file").touch()
    for folder in ("/proc/no", tmp_path / "file" / "x", "/dev/null"):
        done = run("bench", model, "--runs", 3, "--json", "--cache", folder)
        assert done.returncode == 0 and "cannot be written" in done.stderr, done.stderr
        assert json.loads(done.stdout)["files"][0]["blocks_from_cache"] == 0
    first, second = (json.loads(run("bench", model, "--runs", 3, "--json", "--cache", tmp_path / "c").stdout)
                     for _ in range(2))
    assert first["files"][0]["blocks_from_cache"] == 0 and second["files"][0]["blocks_from_cache"] > 0


def test_two_processes_may_fill_one_cache(models, tmp_path):
    model = models["mobilenet_v2"] / "model.pt2"
    command = [BINARY, "run", model, "--random", "1", "--json", "--cache", tmp_path]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
               for _ in range(4)]
    outputs = set()
    for process in running:
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0 and not err
        outputs.add(json.dumps(json.loads(out)["outputs"]))
    assert len(outputs) == 1
    # Whatever becomes of the files, results stay.
    for file in sorted(tmp_path.iterdir()):
        content = bytearray(file.read_bytes())
        for damaged in (content[:100], b"", bytes(content[:-1]) + bytes([content[-1] ^ 1]),
                        content[:9] + bytes([content[9] ^ 1]) + content[10:]):
            file.write_bytes(damaged)
            done = subprocess.run(command, capture_output=True, text=True)
            assert json.dumps(json.loads(done.stdout)["outputs"]) in outputs
            assert file.read_bytes() == content, "it was made anew"
        break
    assert not [f for f in os.listdir(tmp_path) if not f.endswith(".packed")]


def test_a_damaged_result_is_named(models, tmp_path):
    done = run("bench", models["mobilenet_v2"] / "model.pt2", "--runs", 4, "--json")
    good = tmp_path / "good.json"
    good.write_text(done.stdout)
    bad = tmp_path / "bad.json"
    for size in (0, 1, 100, len(done.stdout) - 3):
        bad.write_text(done.stdout[:size])
        refused(run("bench", "--compare", good, bad), 1, "bad.json")
    for change in ({"runs_ms": ["a"] * 5}, {"runs_ms": None}, {"runs_ms": [-1] * 5}):
        report = json.loads(done.stdout)
        report["files"][0].update(change)
        bad.write_text(json.dumps(report))
        refused(run("bench", "--compare", good, bad), 1, "new result", "runs_ms")
        refused(run("bench", "--compare", bad, good), 1, "old result", "runs_ms")


def test_a_dynamic_file_is_held_against_a_static_one(models):
    static, dynamic = models["gpt2"] / "model.pt2", models["gpt2_dynamic"] / "model.pt2"
    for pair in ((static, dynamic), (dynamic, static)):
        done = run("compare", *pair)
        assert done.returncode in (0, 3), done.stderr
