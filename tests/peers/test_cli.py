"""What the command line promises: files, messages, exit codes, nothing half-written."""

import json
import os
import pathlib
import resource
import signal
import subprocess
import time

import pytest
import safetensors.torch

BINARY = pathlib.Path(os.environ.get("DOWNHAUL_BINARY", "downhaul"))


def run(*args, **kwargs):
    return subprocess.run([BINARY, *map(str, args)], capture_output=True, text=True, timeout=60, **kwargs)


def refused(done, code, *words):
    """One line on stderr that says all of `words`, no signal, the documented exit code."""
    assert done.returncode == code, (done.returncode, done.stderr)
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1, done.stderr
    for word in words:
        assert word in lines[0], lines[0]


def test_help_and_version():
    assert "lower" in run("--help").stdout
    assert run("--version").stdout.startswith("downhaul 0.")
    assert "--backend" in run("lower", "--help").stdout


def test_bad_usage_ends_with_2(models, tmp_path):
    for args in (["lower"], ["lower", "x.pt2", "--backend", "cuda"], ["frobnicate"], ["run", "x.pt2"]):
        assert run(*args).returncode == 2, args
    spec = models["mobilenet_v2"] / "model_spec.json"
    done = run("lower", "--spec", spec, "--backend", "xnnpack", "--out", tmp_path, "--disable", "nonsense")
    refused(done, 2, "nonsense", "fold_batch_norm_into_conv")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("command", [["lower", "--backend", "xnnpack"], ["inspect"], ["check"],
                                     ["run", "--random", "1"]])
def test_wrong_kinds_of_path(command, tmp_path):
    jpeg = tmp_path / "picture.pte"
    jpeg.write_bytes(b"\xff\xd8\xff\xe0" + bytes(100))
    empty = tmp_path / "empty.pte"
    empty.touch()
    fifo = tmp_path / "pipe.pte"
    os.mkfifo(fifo)
    safetensors = tmp_path / "weights.pt2"
    safetensors.write_bytes((2).to_bytes(8, "little") + b"{}")
    for path in (tmp_path, tmp_path / "missing.pt2", jpeg, empty, fifo, safetensors):
        began = time.monotonic()
        done = run(command[0], path, *command[1:])
        # Weights could be lowered if the command line said of which model they are.
        wanted = 2 if path == safetensors and command[0] != "check" else 1
        assert done.returncode == wanted, (path, done.stdout, done.stderr)
        assert time.monotonic() - began < 5
        assert str(path.name) in done.stderr + done.stdout


def test_metadata_describes_the_file(models, tmp_path):
    spec = models["distilbert_fillmask"] / "model_spec.json"
    done = run("lower", "--spec", spec, "--backend", "xnnpack", "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    for word in ("loading", "lowering", "wrote", "PTE size", "Delegation"):
        assert word in done.stdout
    meta = json.loads(next(tmp_path.glob("*_xnnpack.json")).read_text())
    pte = pathlib.Path(meta["pte"])
    assert sum(meta["size"]["parts"].values()) == meta["size"]["file_bytes"] == pte.stat().st_size
    assert meta["pte_size_mb"] == pytest.approx(pte.stat().st_size / 1e6)
    assert meta["seq_len"] == 32 and meta["backend"] == "xnnpack"
    delegation = meta["delegation"]
    assert delegation["delegate_call_sites"] == 1 and delegation["kernel_calls_outside"] <= 7
    assert all(entry["reason"] for entry in delegation["outside"])
    assert delegation["multiply_add_share_delegated"] == 1.0
    assert {"name", "module"} <= set(meta["nodes"][0])


def test_passes_can_be_printed_stopped_at_and_disabled(models, tmp_path):
    spec = models["mobilenet_v2"] / "model_spec.json"
    base = ["lower", "--spec", spec, "--backend", "portable", "--out", tmp_path]
    printed = run(*base, "--print-after", "all")
    passes = [line.removeprefix("# after ") for line in printed.stderr.splitlines() if line.startswith("# after ")]
    assert len(passes) > 3
    for name in dict.fromkeys(passes):
        for file in tmp_path.iterdir():
            file.unlink()
        stopped = run(*base, "--stop-after", name)
        assert stopped.returncode == 0 and "graph " in stopped.stdout, name
        assert not list(tmp_path.iterdir()), name
        assert run(*base, "--print-after", name).stderr.count(f"# after {name}\n") >= 1
    assert run(*base).returncode == 0
    folded = json.loads((tmp_path / "mobilenet_v2_portable.json").read_text())["rewrites"]
    assert folded["fold_batch_norm_into_conv"] == 52
    assert run(*base, "--disable", "fold_batch_norm_into_conv").returncode == 0
    disabled = json.loads((tmp_path / "mobilenet_v2_portable.json").read_text())
    assert "fold_batch_norm_into_conv" not in disabled["rewrites"]


def test_every_rewrite_that_fired_can_be_disabled(models, tmp_path):
    spec = models["distilbert_fillmask"] / "model_spec.json"
    base = ["lower", "--spec", spec, "--backend", "portable", "--out", tmp_path]
    assert run(*base).returncode == 0
    meta = next(tmp_path.glob("*_portable.json"))
    for name in json.loads(meta.read_text())["rewrites"]:
        done = run(*base, "--disable", name)
        # Without a legalizing rewrite a model may not be expressible; then the message says why.
        assert done.returncode == 0 or (done.returncode == 1 and len(done.stderr.splitlines()) == 1), done.stderr
        if done.returncode == 0:
            assert name not in json.loads(meta.read_text())["rewrites"]


def test_a_full_disk_leaves_no_file_and_keeps_the_old_one(models, tmp_path):
    spec = models["distilbert_fillmask"] / "model_spec.json"
    base = ["lower", "--spec", spec, "--backend", "portable", "--out", tmp_path]
    assert run(*base).returncode == 0
    pte = next(tmp_path.glob("*.pte"))
    whole = pte.read_bytes()
    limit = 200_000  # bytes that one file may grow to: writing fails in the middle

    def limited():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    assert len(whole) > limit
    refused(run(*base, preexec_fn=limited), 1, "cannot write", pte.name)
    assert pte.read_bytes() == whole
    assert {p.suffix for p in tmp_path.iterdir()} == {".pte", ".json"}


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_run_leaves_no_half_file(how, models, tmp_path):
    """Signals at many moments of a lowering: the folder holds whole files or none."""
    spec = models["resnet50"] / "model_spec.json"
    command = [BINARY, "lower", "--spec", spec, "--backend", "portable", "--out", tmp_path]
    began = time.monotonic()
    assert subprocess.run(command, capture_output=True).returncode == 0
    duration = time.monotonic() - began
    whole = {p.name: p.stat().st_size for p in tmp_path.iterdir()}
    for step in range(12):
        for path in tmp_path.iterdir():
            path.unlink()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        time.sleep(duration * step / 12)
        process.send_signal(how)
        process.wait(timeout=30)
        for path in tmp_path.iterdir():
            assert path.name in whole, path
            if path.suffix == ".pte":
                assert path.stat().st_size == whole[path.name]


def test_run_takes_json_and_shows_the_top_entries(models, tmp_path):
    inputs = tmp_path / "inputs.json"
    spec = json.loads((models["distilbert_fillmask"] / "model_spec.json").read_text())
    length = spec["seq_len"]
    inputs.write_text(json.dumps({"input_ids": [[103] + [5] * (length - 1)], "attention_mask": [[1] * length]}))
    labels = tmp_path / "labels.txt"
    labels.write_text("".join(f"word{i}\n" for i in range(1000)))
    done = run("run", models["distilbert_fillmask"] / "model.pt2", "--inputs", inputs, "--top", 5,
               "--labels", labels, "--json")
    assert done.returncode == 0, done.stderr
    top = json.loads(done.stdout)["outputs"][0]["top"][0]
    assert [e["label"] for e in top] == [f"word{e['index']}" for e in top] and len(top) == 5
    inputs.write_text(json.dumps({"input_ids": [[1, 2], [3]], "attention_mask": [[1]]}))
    refused(run("run", models["distilbert_fillmask"] / "model.pt2", "--inputs", inputs), 1, "ragged", "input_ids")


def test_out_of_range_ids_are_refused(models, tmp_path):
    inputs = tmp_path / "inputs.json"
    model = models["embedding_50257"] / "model.pt2"
    name = json.loads((models["embedding_50257"] / "model_spec.json").read_text())["inputs"][0]
    rows, columns = name["shape"]
    for bad in (-1, 50257):
        inputs.write_text(json.dumps({name["name"]: [[bad] * columns] * rows}))
        refused(run("run", model, "--inputs", inputs), 1, "out of range", str(bad))


def test_inspect_counts_as_the_course_does(models, tmp_path):
    """The stock files of the tiny models, in both countings, and the bytes that they store twice."""
    stock = models.stock("lraspp", "xnnpack")
    done = run("inspect", stock, "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)["files"][0]
    delegation = report["delegation"]
    assert (delegation["delegate_call_sites"], delegation["kernel_calls_outside"],
            delegation["graph_nodes_outside"]) == (1, 16, 33)
    assert sum(report["size"]["parts"].values()) == stock.stat().st_size
    tied = json.loads(run("inspect", models.stock("tied_1000x64", "xnnpack"), "--json").stdout)["files"][0]
    assert tied["size"]["duplicated_bytes"] >= 256000


def test_check_lists_weights_that_are_not_a_number(models, tmp_path):
    done = run("check", "--spec", models["mobilenet_v2"] / "model_spec.json")
    assert done.returncode == 0, done.stdout
    assert "FAULT" not in done.stdout
    done = run("check", tmp_path / "missing.pte")
    assert done.returncode == 1 and "FAULT" in done.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_knows_every_verb(shell):
    script = run("completion", shell).stdout
    for verb in ("lower", "run", "inspect", "check"):
        assert verb in script


def test_lowering_a_stock_file_again_stores_each_block_once(models, tmp_path):
    """Stock stores the tied table twice, without a checksum that would tell."""
    stock = models.stock("tied_1000x64", "xnnpack")
    done = run("lower", stock, "--backend", "xnnpack", "--out", tmp_path, "--name", "again")
    assert done.returncode == 0, done.stderr
    report = json.loads(run("inspect", tmp_path / "again_xnnpack.pte", "--json").stdout)["files"][0]
    assert report["size"]["duplicated_bytes"] == 0
    assert report["size"]["file_bytes"] < 1.1 * 256000


@pytest.mark.parametrize("name", ["lraspp", "distilbert_fillmask"])
def test_lowering_a_stock_file_again_is_not_larger(name, models, tmp_path):
    stock = models.stock(name, "xnnpack")
    assert run("lower", stock, "--backend", "xnnpack", "--out", tmp_path, "--name", "again").returncode == 0
    files = json.loads(run("inspect", stock, tmp_path / "again_xnnpack.pte", "--json").stdout)["files"]
    nodes = [f["delegation"]["kernel_calls_outside"] + f["delegation"]["nodes_inside_delegates"] for f in files]
    sites = [f["delegation"]["delegate_call_sites"] for f in files]
    assert nodes[1] <= nodes[0] and sites[1] <= sites[0]
    inputs = models[name] / "inputs.safetensors"
    outputs = []
    for index, file in enumerate((stock, tmp_path / "again_xnnpack.pte")):
        out = tmp_path / f"{index}.safetensors"
        done = run("run", file, "--inputs", inputs, "--outputs", out)
        assert done.returncode == 0, done.stderr
        outputs.append(next(iter(safetensors.torch.load_file(out).values())))
    assert (outputs[0] - outputs[1]).abs().max() <= 1e-4


def test_unknown_commands_are_named_and_hints_lead_to_the_verb():
    done = run("frobnicate")
    assert done.returncode == 2 and "found 'frobnicate'" in done.stderr and "lower" in done.stderr
    assert "Try 'downhaul run --help'" in run("run", "--frobnicate").stderr


def test_outputs_go_by_the_names_of_the_spec(models, tmp_path):
    """A program that returns a bare tensor has no name for it; the spec beside it has."""
    folder = models["mobilenet_v2"]
    assert "logits" in run("inspect", folder / "model.pt2").stdout
    done = run("run", folder / "model.pt2", "--random", "1", "--output", "logits")
    assert done.returncode == 0 and "logits: f32" in done.stdout, done.stderr
    refused(run("run", folder / "model.pt2", "--random", "1", "--output", "other"), 2, "other", "logits")
    done = run("lower", "--spec", folder / "model_spec.json", "--backend", "xnnpack", "--out", tmp_path,
               "--output", "logits")
    assert done.returncode == 0, done.stderr


def test_metadata_is_there_before_verification(models, tmp_path):
    process = subprocess.Popen(
        [BINARY, "lower", "--spec", models["gpt2"] / "model_spec.json", "--backend", "portable", "--out",
         tmp_path, "--verify"], stdout=subprocess.PIPE, text=True)
    for line in process.stdout:
        if line.startswith("verifying"):
            break
    assert len(list(tmp_path.glob("*.pte"))) == 1
    assert "delegation" in json.loads(next(tmp_path.glob("*.json")).read_text())
    assert "the files" in process.communicate()[0]
    assert "verification" in json.loads(next(tmp_path.glob("*.json")).read_text())


def test_inspect_accounts_for_every_byte_of_an_exported_program(models):
    path = models["mobilenet_v2"] / "model.pt2"
    size = json.loads(run("inspect", path, "--json").stdout)["files"][0]["size"]
    assert sum(size["parts"].values()) == size["file_bytes"] == path.stat().st_size
    assert size["parts"]["weights"] > size["parts"]["program"] > 0
    largest = json.loads(run("inspect", path, "--json").stdout)["files"][0]["largest_weights"]
    sizes = [weight["bytes"] for weight in largest]
    assert len(sizes) == 5 and sizes == sorted(sizes, reverse=True)
    assert largest[0]["name"] in run("inspect", path).stdout
    dynamic = json.loads(run("inspect", models["gpt2_dynamic"] / "model.pt2", "--json").stdout)["files"][0]
    assert "largest sizes" in dynamic["facts"]["multiply-adds"]
    assert any(value.endswith("to 64") for value in dynamic["facts"].values()), dynamic["facts"]


def test_reasons_do_not_speak_of_delegates_where_there_are_none(models):
    report = json.loads(run("inspect", models.stock("lraspp", "portable"), "--json").stdout)["files"][0]
    assert {entry["reason"] for entry in report["delegation"]["outside"]} == {"the file has no delegates"}
    text = run("inspect", models.stock("lraspp", "portable")).stdout
    assert text.count("because") == 1


def test_inputs_that_do_not_fit_are_named_with_their_file(models, tmp_path):
    inputs = tmp_path / "wrong.json"
    inputs.write_text(json.dumps({"0": [[1.0, 2.0]]}))
    refused(run("run", models["mobilenet_v2"] / "model.pt2", "--inputs", inputs), 1, "wrong.json", "f32[1,2]")


def test_completion_of_shells():
    script = run("completion", "bash").stdout
    words = ("COMP_WORDS=(downhaul completion ''); COMP_CWORD=2; _downhaul; echo ${COMPREPLY[*]}")
    done = subprocess.run(["bash", "-c", f"{script}\n{words}"], capture_output=True, text=True)
    assert done.stdout.split() == ["bash", "zsh", "fish"], done.stderr
