"""Buffers that a model changes: a session keeps them from run to run, `run` begins anew each time."""

import os
import pathlib
import sys

import numpy
import pytest
import torch
from safetensors.numpy import load_file

from conftest import ROOT
from test_cli import run

sys.path.insert(0, str(ROOT / "bench" / "peers"))
import runtimes  # noqa: E402


class Smoothed(torch.nn.Module):
    """A counter and a running mean, with a projection of what both give."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 3)
        self.register_buffer("mean", torch.zeros(2, 4))
        self.register_buffer("count", torch.zeros(1))

    def forward(self, x):
        self.count.add_(1)
        self.mean.mul_(0.5).add_(x)
        return self.linear(self.mean) / self.count


@pytest.fixture(scope="module")
def smoothed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("smoothed")
    torch.manual_seed(0)
    model = Smoothed().eval()
    x = torch.randn(2, 4)
    program = torch.export.export(model, (x,))
    torch.export.save(program, folder / "model.pt2")
    from safetensors.torch import save_file
    save_file({"x": x}, folder / "inputs.safetensors")
    (folder / "model_spec.json").write_text('{"name": "smoothed", "inputs": [{"name": "x"}]}')
    return folder, program.module(), x


def test_a_session_goes_on_where_the_last_run_ended(smoothed):
    folder, module, x = smoothed
    library = pathlib.Path(os.environ["DOWNHAUL_BUILD"]) / "libdownhaul.so"
    session = runtimes.Downhaul()
    session.load({"folder": folder, "cache": folder, "threads": 2, "library": library})
    first = None
    for step in range(4):
        session.run()
        with torch.no_grad():
            expected = module(x).numpy()
        numpy.testing.assert_allclose(session.outputs()[0], expected, rtol=0, atol=1e-6)
        first = session.outputs()[0] if step == 0 else first
    session.library.dh_session_reset_state(session.session)
    session.run()
    assert (session.outputs()[0] == first).all()
    other = runtimes.Downhaul()
    other.load({"folder": folder, "cache": folder, "threads": 1, "library": library})
    other.run()
    assert (other.outputs()[0] == first).all()


def test_the_command_line_begins_anew(smoothed, tmp_path):
    folder, _, _ = smoothed
    outputs = []
    for how in ([], [], ["--reference"]):
        out = tmp_path / "out.safetensors"
        done = run("run", folder / "model.pt2", "--inputs", folder / "inputs.safetensors", "--outputs", out, *how)
        assert done.returncode == 0, done.stderr
        outputs.append(next(iter(load_file(out).values())))
    assert (outputs[0] == outputs[1]).all()
    numpy.testing.assert_allclose(outputs[0], outputs[2], rtol=0, atol=1e-6)
    # Several inputs in one process: none sees what another left.
    assert run("compare", folder / "model.pt2", folder / "model.pt2", "--inputs",
               folder / "inputs.safetensors").returncode == 0
