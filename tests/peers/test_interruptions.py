"""Whatever ends a lowering, the folder holds whole files or what was there before."""

import os
import pathlib
import random
import resource
import signal
import subprocess
import time

import pytest

BINARY = pathlib.Path(os.environ.get("DOWNHAUL_BINARY", "downhaul"))


def command_of(models, out, *more):
    spec = models["resnet50"] / "model_spec.json"
    return [BINARY, "lower", "--spec", spec, "--backend", "portable", "--out", out, *more]


def contents(folder):
    return {p.name: p.read_bytes() for p in folder.iterdir()}


def one_line(done, *words):
    assert done.returncode == 1, done
    line, = done.stderr.strip().splitlines()
    for word in words:
        assert str(word) in line, line


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_run_keeps_the_file_that_was_there(how, models, tmp_path):
    command = command_of(models, tmp_path)
    began = time.monotonic()
    subprocess.run(command, capture_output=True, check=True)
    duration = time.monotonic() - began
    whole = contents(tmp_path)["resnet50_portable.pte"]
    old = b"the file of an earlier run"
    moments = random.Random(7)
    for _ in range(15):
        (tmp_path / "resnet50_portable.pte").write_bytes(old)
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        time.sleep(moments.uniform(0, 1.1 * duration))
        process.send_signal(how)
        process.wait(timeout=60)
        found = contents(tmp_path)
        # Replacing a file takes two steps, to name the finished one and to rename it: a kill that nothing can
        # answer may come between them.
        for name in [n for n in found if ".pte.tmp-" in n]:
            assert how == signal.SIGKILL and found.pop(name) == whole
            (tmp_path / name).unlink()
        assert set(found) <= {"resnet50_portable.pte", "resnet50_portable.json"}
        assert found["resnet50_portable.pte"] in (old, whole)


def test_a_reader_that_goes_away_leaves_no_half_file(models, tmp_path):
    """`downhaul lower ... | head -0`."""
    command = command_of(models, tmp_path)
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    process.stdout.close()
    process.wait(timeout=60)
    assert set(contents(tmp_path)) <= {"resnet50_portable.pte", "resnet50_portable.json"}


@pytest.mark.parametrize("bytes_that_fit", [0, 1, 5000, 300_000])
def test_a_limit_on_the_size_of_files_is_an_error(bytes_that_fit, models, tmp_path):
    """As a full disk: writing stops in the middle. The limit also sends a signal."""
    (tmp_path / "resnet50_portable.pte").write_bytes(b"old")
    done = subprocess.run(
        command_of(models, tmp_path), capture_output=True, text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_that_fit, bytes_that_fit)))
    one_line(done, "cannot write", tmp_path / "resnet50_portable.pte")
    assert contents(tmp_path) == {"resnet50_portable.pte": b"old"}


def test_places_that_take_no_file(models, tmp_path):
    folder = tmp_path / "resnet50_portable.pte"
    folder.mkdir()
    one_line(subprocess.run(command_of(models, tmp_path), capture_output=True, text=True), folder, "folder")
    assert not list(folder.iterdir())
    file = tmp_path / "file"
    file.write_bytes(b"old")
    one_line(subprocess.run(command_of(models, file), capture_output=True, text=True), file)
    one_line(subprocess.run(command_of(models, file / "below"), capture_output=True, text=True), file)
    assert file.read_bytes() == b"old"
    one_line(subprocess.run(command_of(models, "/proc"), capture_output=True, text=True), "/proc")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    done = subprocess.run([BINARY, "run", models["add_alpha"] / "model.pt2", "--random", "1", "--outputs", pipe],
                          capture_output=True, text=True)
    one_line(done, pipe, "not a regular file")
    assert pipe.is_fifo()


def test_a_link_is_replaced_and_what_it_points_to_stays(models, tmp_path):
    target = tmp_path / "precious"
    target.write_bytes(b"old")
    out = tmp_path / "out"
    out.mkdir()
    link = out / "resnet50_portable.pte"
    link.symlink_to(target)
    subprocess.run(command_of(models, out), capture_output=True, check=True)
    assert target.read_bytes() == b"old"
    assert link.is_file() and not link.is_symlink()


def test_the_output_may_be_the_input(models, tmp_path):
    subprocess.run(command_of(models, tmp_path), capture_output=True, check=True)
    first = contents(tmp_path)["resnet50_portable.pte"]
    again = [BINARY, "lower", tmp_path / "resnet50_portable.pte", "--backend", "portable", "--out", tmp_path,
             "--name", "resnet50"]
    subprocess.run(again, capture_output=True, check=True)
    second = contents(tmp_path)["resnet50_portable.pte"]
    assert abs(len(second) - len(first)) < 0.01 * len(first)
    subprocess.run([BINARY, "check", tmp_path / "resnet50_portable.pte"], capture_output=True, check=True)
