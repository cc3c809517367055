"""The stock ExecuTorch runtime loads and runs the small programs of formats/pte/example_programs.h.

DOWNHAUL_BUILD names the build directory (build/dev in the repository when not set).
"""

import os
import pathlib
import subprocess

import pytest
import torch
from executorch.extension.pybindings import portable_lib
from executorch.extension.pybindings.portable_lib import Verification

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("DOWNHAUL_BUILD", REPOSITORY / "build" / "dev"))


@pytest.fixture(scope="module")
def examples(tmp_path_factory):
    folder = tmp_path_factory.mktemp("examples")
    subprocess.run(
        [BUILD / "src/formats/formats_test", "--gtest_filter=ExamplePrograms.*"],
        env={**os.environ, "DOWNHAUL_EXAMPLES": str(folder)},
        check=True,
        capture_output=True,
    )
    return folder


def table():
    return torch.tensor([[10.0 * i + j for j in range(4)] for i in range(5)])


A = torch.tensor([[1.0, -2.0, 3.0], [-4.0, 5.0, -6.0]])
B = torch.tensor([[0.5, 0.5, -9.0], [8.0, -5.0, 6.5]])
# Rows whose largest magnitude is 127 are exact in the runtime's dynamic int8.
X = torch.tensor([[127.0, -64.0, 10.0]])
W = torch.tensor([[0.5, 1.0, 1.5], [-2.0, 0.0, 2.0]])

CASES = {
    "add_constant": ((A,), lambda a: a + torch.tensor([[0.0, 10.0, 20.0], [30.0, 40.0, 50.0]]), 0.0),
    "add_relu": ((A, B), lambda a, b: torch.relu(a + b), 0.0),
    # A step of the dynamic quantization is (127 + 64) / 255 here; half of it per input element.
    "quantized_linear": (
        (X,),
        lambda x: x @ W.T + torch.tensor([100.0, -100.0]),
        0.5 * 191 / 255 * float(W.abs().sum(1).max()),
    ),
    "tied_table": ((torch.tensor([[3, 1]]),), lambda ids: table()[ids] @ table().T, 0.0),
}


@pytest.mark.parametrize("verification", [Verification.Minimal, Verification.InternalConsistency])
@pytest.mark.parametrize("from_buffer", [False, True], ids=["mapped", "buffer"])
@pytest.mark.parametrize("name", CASES)
def test_runs_in_the_stock_runtime(examples, name, from_buffer, verification):
    inputs, expected, tolerance = CASES[name]
    path = examples / f"{name}.pte"
    if from_buffer:
        data = path.read_bytes()  # the module points into it
        module = portable_lib._load_for_executorch_from_buffer(data, program_verification=verification)
    else:
        module = portable_lib._load_for_executorch(str(path), program_verification=verification)
    (result,) = module.run_method("forward", inputs)
    assert result.shape == expected(*inputs).shape
    assert (result - expected(*inputs)).abs().max().item() <= tolerance


def test_every_feature_passes_the_stock_verifier(examples):
    # Loading the program runs the verifier; its methods name a backend that does not exist.
    program = portable_lib._load_program(
        str(examples / "every_feature.pte"),
        program_verification=Verification.InternalConsistency,
    )
    assert program.num_methods() == 2
