"""Buffers that a model changes: run after run in one loaded method, our files leave in them what torch
eager does, and what the stock lowering's files do."""

import copy

import pytest
import torch
from conftest import BACKENDS
from paths import as_list, save_tensors
from safetensors.torch import load_file
from stock_run import MODES, StockFile, difference
from torch import nn

STEPS = 5


class Buffers(nn.Module):
    def __init__(self, **buffers):
        super().__init__()
        for name, value in buffers.items():
            self.register_buffer(name, value)


class Counter(Buffers):
    """An integer that counts the runs, and a running sum."""

    def __init__(self):
        super().__init__(count=torch.tensor(3), total=torch.full((2, 3), 5.0))

    def forward(self, x, at):
        self.count.add_(1)
        self.total += x * self.count
        return self.total / 2, self.count


class Cache(Buffers):
    """Keys and values that attention sees of the steps before."""

    def __init__(self):
        super().__init__(k=torch.randn(1, 2, 6, 4), v=torch.randn(1, 2, 6, 4))
        self.project = nn.Linear(3, 24)

    def forward(self, x, at):
        q, k, v = self.project(x[:1]).reshape(3, 1, 2, 1, 4).unbind()
        self.k.index_copy_(2, at, k)
        self.v[:, :, at] = v
        seen = (torch.arange(6) <= at).reshape(1, 1, 1, 6)
        return nn.functional.scaled_dot_product_attention(q, self.k, self.v, attn_mask=seen)


class Swap(Buffers):
    """Two buffers that trade places, returned as they were before and after."""

    def __init__(self):
        super().__init__(a=torch.randn(2, 3), b=torch.randn(2, 3))

    def forward(self, x, at):
        before = self.a.clone()
        self.a.copy_(self.b + x)
        self.b.copy_(before)
        return before, self.a * 1, self.b.reshape(3, 2)


class Assigned(Buffers):
    """A buffer that becomes an input, one that becomes a constant, one that is only read."""

    def __init__(self):
        super().__init__(last=torch.zeros(2, 3), flag=torch.zeros(3), kept=torch.randn(3))

    def forward(self, x, at):
        y = self.last + self.flag * self.kept
        self.last.copy_(x)
        self.flag.fill_(1)
        return y


class Window(Buffers):
    """The last rows that were seen, the oldest first; a slice of a buffer is written."""

    def __init__(self):
        super().__init__(rows=torch.randn(4, 3))
        self.out = nn.Linear(12, 5)

    def forward(self, x, at):
        self.rows.copy_(torch.cat([self.rows[1:], x[:1]]))
        self.rows[0, 1:] += 1
        return torch.relu(self.out(self.rows.reshape(1, 12)))


MODULES = [Counter, Cache, Swap, Assigned, Window]


def steps():
    return [(torch.randn(2, 3), torch.tensor([i])) for i in range(STEPS)]


def check(results, expected, where):
    assert len(results) == len(expected), where
    for index, (got, want) in enumerate(zip(results, expected)):
        assert difference(got, want) <= 1e-5, f"{where}, output {index}: {got}, expected {want}"


@pytest.fixture(params=[False, True], ids=["training", "aten"])
def exported(request, tmp_path):
    def make(module):
        torch.manual_seed(7)
        model = module().eval()
        given = steps()
        program = torch.export.export(copy.deepcopy(model), given[0])
        if request.param:
            program = program.run_decompositions()
        torch.export.save(program, tmp_path / "model.pt2")
        with torch.no_grad():
            expected = [[t.clone() for t in as_list(model(*s))] for s in given]
        return tmp_path / "model.pt2", given, expected
    return make


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("module", MODULES, ids=lambda m: m.__name__)
def test_buffers_carry_over(module, backend, exported, downhaul):
    pt2, given, expected = exported(module)
    pte = downhaul.lower_file(pt2, backend, pt2.parent)
    for mode in MODES:
        for loading in range(2):  # each starts from the initial content
            file = StockFile(pte, mode)
            for step, (inputs, want) in enumerate(zip(given, expected)):
                check(file.run(list(inputs)), want, f"{mode}, loading {loading}, step {step}")
    # Our own evaluation, of both, is a first run; lowering our file again changes nothing.
    save_tensors(dict(zip(["x", "at"], given[0])), pt2.parent / "in.safetensors")
    again = downhaul.lower_file(pte, backend, pt2.parent / "again")
    for path in (pt2, pte, again):
        out = pt2.parent / "out.safetensors"
        downhaul.run("run", path, "--inputs", pt2.parent / "in.safetensors", "--outputs", out)
        found = load_file(out)
        check([found[k] for k in sorted(found)], expected[0], path)
    file = StockFile(again, MODES[0])
    for step, (inputs, want) in enumerate(zip(given, expected)):
        check(file.run(list(inputs)), want, f"lowered again, step {step}")


@pytest.mark.parametrize("module", MODULES, ids=lambda m: m.__name__)
def test_stock_files_with_buffers_are_read(module, downhaul, tmp_path):
    from executorch.exir import ExecutorchBackendConfig, to_edge_transform_and_lower
    from executorch.exir.passes.init_mutable_pass import InitializedMutableBufferPass
    torch.manual_seed(7)
    model, given = module().eval().requires_grad_(False), steps()
    with torch.no_grad():
        program = to_edge_transform_and_lower(torch.export.export(copy.deepcopy(model), given[0])).to_executorch(
            ExecutorchBackendConfig(passes=[InitializedMutableBufferPass([""])]))
        program.save(str(tmp_path / "stock.pte"))
        expected = [[t.clone() for t in as_list(model(*s))] for s in given]
    ours = StockFile(downhaul.lower_file(tmp_path / "stock.pte", "portable", tmp_path), MODES[0])
    stock = StockFile(tmp_path / "stock.pte", MODES[0])
    for step, (inputs, want) in enumerate(zip(given, expected)):
        check(stock.run(list(inputs)), want, f"stock, step {step}")
        check(ours.run(list(inputs)), want, f"ours, step {step}")
