"""Faults that users of converters and runtimes have reported, each as a small model whose right values
are worked out by hand. Every model goes along all paths: our evaluation of the exported program and of
both files that we write, and both files in the stock runtime."""

import json
import math

import pytest
import torch
import torch.nn.functional as F
from conftest import BACKENDS
from paths import Paths, save_tensors
from safetensors.torch import load_file
from stock_run import MODES, StockFile
from torch import nn


class Model(nn.Module):
    """f(self, x) with tensors as buffers of the module."""

    def __init__(self, function, **buffers):
        super().__init__()
        self.function = function
        for name, value in buffers.items():
            self.register_buffer(name, value)

    def forward(self, x):
        return self.function(self, x)


class ModelOfTwo(Model):
    def forward(self, x, y):
        return self.function(self, x, y)


def f32(values, *shape):
    tensor = torch.tensor(values, dtype=torch.float32)
    return tensor.reshape(shape) if shape else tensor


@pytest.fixture(params=[False, True], ids=["training", "aten"])
def paths(request, downhaul, stock_runtime, tmp_path):
    """Paths of a model, exported as written and decomposed."""
    def make(model, inputs, **more):
        return Paths(downhaul, stock_runtime, tmp_path, model, inputs, decomposed=request.param, **more)
    return make


def call_sites(paths, backend):
    return json.loads(paths.pte[backend].with_suffix(".json").read_text())["delegation"]["delegate_call_sites"]


def test_factors_of_additions_are_kept(paths):
    """x + 10 y became x + y inside a delegate."""
    model = ModelOfTwo(lambda m, x, y: (torch.add(x, y, alpha=10), torch.sub(x, y, alpha=3), torch.rsub(x, y, alpha=2)))
    x, y = f32([1, 2]), f32([3, 4])
    paths(model, {"x": x, "y": y}).check({"x": x, "y": y}, [f32([31, 42]), f32([-8, -10]), f32([1, 0])])


def test_factors_of_matrix_products_are_kept(paths):
    """The relatives: beta and alpha of addmm, the value of addcmul, the scale of attention."""
    def run(m, x):
        q = x.reshape(1, 1, 2, 2)
        return (torch.addmm(m.ones, x, m.twice, beta=3, alpha=0.5), torch.addcmul(x, x, x, value=10),
                F.scaled_dot_product_attention(q, q, m.v, scale=0.0))
    model = Model(run, ones=torch.ones(2, 2), twice=2 * torch.eye(2), v=f32([1, 2, 3, 4], 1, 1, 2, 2))
    x = f32([[1, 2], [3, 4]])
    paths(model, {"x": x}).check({"x": x}, [f32([[4, 5], [6, 7]]), f32([[11, 42], [93, 164]]),
                                            f32([2, 3, 2, 3], 1, 1, 2, 2)])


def test_both_forms_of_gelu_stay_apart(paths):
    """The tanh form ran as the exact one. The two differ by 5e-4 at -2.7."""
    model = Model(lambda m, x: (F.gelu(x, approximate="tanh"), F.gelu(x)))
    x = f32([-2.7, 2.0])
    p = paths(model, {"x": x})
    p.check({"x": x}, [f32([-0.00888759, 1.95459769]), f32([-0.00936083, 1.95449974])], tolerance=1e-6)


@pytest.mark.parametrize("backend", BACKENDS)
def test_both_forms_of_gelu_survive_lowering_again(backend, downhaul, stock_runtime, tmp_path):
    x = f32([-2.7, 2.0])
    p = Paths(downhaul, stock_runtime, tmp_path, Model(lambda m, x: (F.gelu(x, approximate="tanh"), F.gelu(x))), {"x": x})
    downhaul.run("lower", p.pte[backend], "--backend", backend, "--out", tmp_path, "--name", "again")
    p.pte = {backend: tmp_path / f"again_{backend}.pte"}
    p.backends = [backend]
    p.check({"x": x}, [f32([-0.00888759, 1.95459769]), f32([-0.00936083, 1.95449974])], tolerance=1e-6)


def test_an_activation_is_fused_only_into_what_nothing_else_reads(paths):
    """relu(y) + y with y = conv(x) gave [0, 6]; so do a linear, an addition and a pooling in its place."""
    def run(m, x):
        y = F.conv2d(x, m.one, m.zero)
        z = F.linear(x, m.eye)
        s = x + m.zero
        p = F.max_pool2d(x, 1)
        return F.relu(y) + y, F.relu(z) + z, F.relu6(s) * s, F.hardtanh(p, 0, 2) - p
    model = Model(run, one=torch.ones(1, 1, 1, 1), zero=torch.zeros(1), eye=torch.eye(2))
    x = f32([-2, 3], 1, 1, 1, 2)
    paths(model, {"x": x}).check({"x": x}, [f32(v, 1, 1, 1, 2) for v in ([-2, 6], [-2, 6], [0, 9], [2, -1])])


@pytest.mark.parametrize("exported_as", [torch.contiguous_format, torch.channels_last])
def test_files_take_row_major_inputs_whatever_the_model_was_exported_with(exported_as, paths, tmp_path):
    """Channels-last memory was read as row-major: 0, 8, 16, 2, 10, ... Our files always state row-major order
    for inputs and outputs; tensors that `downhaul run` reads from files have no other."""
    x = torch.arange(12.0).reshape(1, 3, 2, 2)
    p = paths(Model(lambda m, x: x * 2), {"x": x.to(memory_format=exported_as)})
    p.check({"x": x}, [f32(range(0, 24, 2), 1, 3, 2, 2)])
    for backend in BACKENDS:
        for mode in MODES:
            given = x.to(memory_format=torch.channels_last)
            result, = StockFile(p.pte[backend], mode).run([given.contiguous()])
            assert result.tolist() == (x * 2).tolist()
            # What the runtime does with other strides is its own: it takes the memory as it lies.
            assert StockFile(p.pte[backend], mode).run([given])[0].is_contiguous()


def test_weights_with_permuted_strides_are_read_in_logical_order(paths):
    """A constant of size (3, 2) and stride (1, 3); then one with an offset, and one that is expanded."""
    base = torch.arange(6.0)
    model = Model(lambda m, x: (x + m.permuted, x + m.offset, x + m.expanded, F.linear(x, m.permuted)),
                  permuted=base.reshape(2, 3).permute(1, 0), offset=torch.arange(9.0)[3:].reshape(3, 2),
                  expanded=f32([1, 2]).expand(3, 2))
    x = torch.zeros(3, 2)
    p = paths(model, {"x": x})
    p.check({"x": x}, [f32([[0, 3], [1, 4], [2, 5]]), f32([[3, 4], [5, 6], [7, 8]]), f32([[1, 2]] * 3), torch.zeros(3, 3)])
    x = torch.ones(3, 2)
    p.check({"x": x}, [f32([[1, 4], [2, 5], [3, 6]]), f32([[4, 5], [6, 7], [8, 9]]),
                                            f32([[2, 3]] * 3), f32([[3, 5, 7]] * 3)])


def test_channels_last_weights_are_read_in_logical_order(paths):
    """Output channel o of the filter is o + 1 at one place each: what it picks can be read off."""
    weight = torch.zeros(2, 3, 2, 2)
    weight[0, 2, 0, 1], weight[1, 0, 1, 0] = 1, 2
    model = Model(lambda m, x: F.conv2d(x, m.w), w=weight.to(memory_format=torch.channels_last))
    x = torch.arange(12.0).reshape(1, 3, 2, 2)
    paths(model, {"x": x}).check({"x": x}, [f32([9, 4], 1, 2, 1, 1)])


def test_a_permuted_value_may_have_two_users(paths):
    """Lowering failed when a permuted tensor left the delegate and was also used inside."""
    def run(m, x):
        y = x.permute(0, 2, 1)
        return y.reshape(1, -1), y.sum(dim=1)
    x = torch.arange(6.0).reshape(1, 2, 3)
    paths(Model(run), {"x": x}).check({"x": x}, [f32([[0, 3, 1, 4, 2, 5]]), f32([[3, 12]])])


def test_a_value_may_be_input_output_and_used_inside(paths):
    def run(m, x):
        y = x.permute(1, 0)
        return x, y, y, x.reshape(-1), m.c, y + 1, m.c * 2
    x = f32([[1, 2, 3], [4, 5, 6]])
    t = f32([[1, 4], [2, 5], [3, 6]])
    paths(Model(run, c=f32([7, 8])), {"x": x}).check(
        {"x": x}, [x, t, t, f32([1, 2, 3, 4, 5, 6]), f32([7, 8]), t + 1, f32([14, 16])])


def test_same_padding_of_an_even_kernel_has_the_extra_row_at_the_end(paths):
    def run(m, x):
        return (F.conv2d(x, m.column, padding="same"), F.conv2d(x.mT, m.column.mT, padding="same"),
                F.conv1d(x[..., 0], m.column[..., 0], padding="same"))
    x = torch.ones(1, 1, 5, 1)
    sums = [3, 4, 4, 3, 2]
    paths(Model(run, column=torch.ones(1, 1, 4, 1)), {"x": x}).check(
        {"x": x}, [f32(sums, 1, 1, 5, 1), f32(sums, 1, 1, 1, 5), f32(sums, 1, 1, 5)])


def test_slices_around_an_addition_load_and_are_right(paths):
    """Halves of a convolution are added, with slices on both sides of a residual."""
    def run(m, x):
        y = F.conv2d(x, m.w)
        z = y[:, :4] + y[:, 4:]
        return z, z[:, :2] * x + z[:, 2:]
    weight = torch.zeros(8, 2, 1, 1)
    weight[:, 0, 0, 0] = torch.arange(8.0)
    model = Model(run, w=weight)
    x = f32([1, 5, -1, 7], 1, 2, 2, 1)  # channel 0 is [1, 5], channel 1 [-1, 7]
    # z[c] = (2 c + 4) x0
    z = torch.stack([(2 * c + 4) * f32([1, 5], 2, 1) for c in range(4)])[None]
    assert z[0, :, 1, 0].tolist() == [20, 30, 40, 50]
    paths(model, {"x": x}).check({"x": x}, [z, f32([12, 140, 4, 260], 1, 2, 2, 1)])


IDS = [0, 32767, 32768, 40000, 50256]


def test_ids_beyond_16_bits_are_exact(paths):
    """Row i holds i; ids were narrowed to 16 bits, or turned into floats."""
    model = Model(lambda m, x: F.embedding(x, m.table), table=torch.arange(50257.0).reshape(-1, 1))
    ids = torch.tensor([IDS])
    p = paths(model, {"x": ids})
    p.check({"x": ids}, [f32(IDS, 1, 5, 1)], tolerance=0)
    for bad in (-1, 50257, 2**31, -2**63):
        wrong = torch.tensor([[0, bad, 0, 0, 0]])
        save_tensors({"x": wrong}, p.folder / "bad.safetensors")
        for file in (p.folder / "model.pt2", *p.pte.values()):
            p.downhaul.run("run", file, "--inputs", p.folder / "bad.safetensors", code=1)
    # The kernel of the stock runtime checks ids too. Inside a delegate nothing would: the lookup stays outside.
    for backend in BACKENDS:
        for mode in MODES:
            with pytest.raises(RuntimeError):
                StockFile(p.pte[backend], mode).run([torch.tensor([[0, 50257, 0, 0, 0]])])


def test_both_rules_of_bilinear_resize(paths):
    def run(m, x):
        return (F.interpolate(x, (4, 4), mode="bilinear"), F.interpolate(x, (4, 4), mode="bilinear", align_corners=True),
                F.interpolate(x, scale_factor=2, mode="bilinear"), F.interpolate(x, scale_factor=2))
    half = f32([[0, .25, .75, 1], [.5, .75, 1.25, 1.5], [1.5, 1.75, 2.25, 2.5], [2, 2.25, 2.75, 3]])
    corners = torch.stack([f32([0, 1, 2, 3]) / 3 + 2 * r / 3 for r in range(4)])
    nearest = f32([[0, 0, 1, 1], [0, 0, 1, 1], [2, 2, 3, 3], [2, 2, 3, 3]])
    x = f32([0, 1, 2, 3], 1, 1, 2, 2)
    paths(Model(run), {"x": x}).check({"x": x}, [v[None, None] for v in (half, corners, half, nearest)])


def test_the_given_scale_is_used_and_not_the_quotient_of_sizes(paths):
    """2 pixels by 2.6 are 5 pixels; they lie 1 / 2.6 apart and not 2 / 5: the last is at 4.5 / 2.6 - 0.5."""
    x = f32([0, 1], 1, 1, 1, 2)
    row = [min(max((i + 0.5) / 2.6 - 0.5, 0), 1) for i in range(5)]
    model = Model(lambda m, x: F.interpolate(x, scale_factor=(1.0, 2.6), mode="bilinear"))
    paths(model, {"x": x}).check({"x": x}, [f32(row, 1, 1, 1, 5)])


def test_rows_that_may_see_nothing(paths):
    """A boolean mask of a row that is all false gives zeros; a large negative number an ordinary softmax;
    negative infinity NaN, in that row only."""
    def run(m, q):
        k = torch.eye(2).reshape(1, 1, 2, 2) * f32([2, 3])
        return (F.scaled_dot_product_attention(q, k, m.v, attn_mask=m.nothing, scale=1.0),
                torch.softmax(q @ k.mT - 1e4, -1) @ m.v,
                torch.softmax(q @ k.mT + m.second_row, -1) @ m.v)
    model = Model(run, v=f32([1, 2, 3, 4], 1, 1, 2, 2), nothing=torch.zeros(2, 2, dtype=torch.bool),
                  second_row=f32([[0, 0], [-math.inf, -math.inf]]))
    q = torch.ones(1, 1, 2, 2)
    w = 1 / (1 + math.e)  # scores 2 and 3
    row = [w * 1 + (1 - w) * 3, w * 2 + (1 - w) * 4]
    # -9998 and -9997 are one float32 step of 2**-10 from the exact difference.
    paths(model, {"x": q}).check({"x": q}, [torch.zeros(1, 1, 2, 2), f32(row + row, 1, 1, 2, 2),
                                            f32(row + [math.nan] * 2, 1, 1, 2, 2)], tolerance=1e-3)


def error_line(downhaul, path):
    """What `inspect` and `run` say about a file, one line each and the same words."""
    import subprocess
    lines = []
    for command in (["inspect", path], ["run", path, "--random", "1"], ["lower", path, "--backend", "portable"]):
        done = subprocess.run([downhaul.path, *map(str, command)], capture_output=True, text=True, timeout=60)
        assert done.returncode == 1, done
        line, = done.stderr.strip().splitlines()
        assert str(path) in line
        lines.append(line)
    return lines[0]


def test_files_that_are_no_programs_are_told_apart(downhaul, stock_runtime, tmp_path):
    """A wrong magic, a newer version, a picture and an empty file gave raw bytes, or errors much later."""
    x = f32([1, 2])
    p = Paths(downhaul, stock_runtime, tmp_path, Model(lambda m, x: x * 2), {"x": x}, backends=["portable"])
    good = p.pte["portable"].read_bytes()
    assert good[4:8] == b"ET12"
    # The version is the program table's first field; it is left out when it is 0.
    files = {"magic": good[:4] + b"ET99" + good[8:], "picture": b"\xff\xd8\xff\xe0\0\x10JFIF" + bytes(200), "empty": b"",
             "zip": b"PK\x03\x04" + bytes(200), "text": b"hello\n"}
    said = {}
    for name, content in files.items():
        path = tmp_path / f"{name}.pte"
        path.write_bytes(content)
        said[name] = error_line(downhaul, path).replace(str(path), "")
    assert len(set(said.values())) == len(said)
    for name, words in {"magic": ["ET99", "ET12"], "picture": ["JPEG"], "empty": ["empty"], "zip": ["zip"]}.items():
        for word in words:
            assert word.lower() in said[name].lower(), said[name]


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(1000, 64)
        self.head = nn.Linear(64, 1000, bias=False)
        self.head.weight = self.table.weight

    def forward(self, ids):
        return self.head(torch.tanh(self.table(ids)))


def test_a_tied_table_is_stored_once_in_each_file(paths):
    torch.manual_seed(1)
    model = Tied()
    ids = torch.randint(0, 1000, (1, 7))
    p = paths(model, {"ids": ids})
    with torch.no_grad():
        p.check({"ids": ids}, [model(ids)])
    table = model.table.weight.detach().numpy().tobytes()
    assert len(table) == 256000
    for backend in BACKENDS:
        data = p.pte[backend].read_bytes()
        assert data.count(table) == 1
        meta = json.loads(p.pte[backend].with_suffix(".json").read_text())
        assert sum(meta["size"]["parts"].values()) == meta["size"]["file_bytes"] == len(data)
        seen = json.loads(p.downhaul.run("inspect", p.pte[backend], "--json"))["files"][0]["size"]
        assert sum(seen["parts"].values()) == len(data) and seen["duplicated_bytes"] == 0
    sizes = [p.pte[b].stat().st_size for b in BACKENDS]
    assert abs(sizes[0] - sizes[1]) < 0.05 * len(table)


def test_the_header_of_a_run_names_coverage_and_threads(paths):
    """Timings mean nothing to who does not know that nothing was delegated, or that one thread ran."""
    x = torch.randn(1, 3, 8, 8)
    p = paths(nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 2, 3)), {"input": x})
    for backend, coverage in {"portable": "0 delegate call sites", "xnnpack": "1 delegate call site"}.items():
        said = p.downhaul.run("run", p.pte[backend], "--random", 1, "--threads", 2)
        head = said.splitlines()[0]
        assert coverage in head and "2 threads" in head, said
        assert ("0 kernel calls outside" in head) == (backend == "xnnpack"), said
        summary = json.loads(p.downhaul.run("run", p.pte[backend], "--random", 1, "--threads", 2, "--json"))
        assert summary["threads"] == 2
        assert summary["delegate_call_sites"] == call_sites(p, backend)
