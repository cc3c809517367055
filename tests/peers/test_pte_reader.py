"""Our reader takes quantized files of the stock exporter, with every kind of quantization parameters.

Float files of whole models are read in test_stock_files.py. DOWNHAUL_BUILD as in test_pte_writer.py.
"""

import os
import pathlib
import subprocess

import pytest
import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import (
    XnnpackDynamicallyQuantizedPartitioner,
    XnnpackPartitioner,
)
from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
    XNNPACKQuantizer,
    get_symmetric_quantization_config,
)
from executorch.exir import to_edge_transform_and_lower
from torch import nn
from torchao.quantization import Int8DynamicActivationIntxWeightConfig, quantize_
from torchao.quantization.granularity import PerGroup
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("DOWNHAUL_BUILD", REPOSITORY / "build" / "dev"))


class Convolutions(nn.Module):
    def __init__(self):
        super().__init__()
        self.plain = nn.Conv2d(3, 8, 3, padding=1)
        self.depthwise = nn.Conv2d(8, 8, 3, groups=8)
        self.transposed = nn.ConvTranspose2d(8, 4, 2, stride=2)
        self.linear = nn.Linear(4, 5)

    def forward(self, x):
        x = self.depthwise(torch.relu(self.plain(x))) + 1.0
        x = nn.functional.max_pool2d(self.transposed(x), 2)
        return self.linear(x.mean((2, 3)))


class Linears(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(64, 32)
        self.second = nn.Linear(32, 7)

    def forward(self, x):
        return self.second(torch.relu(self.first(x)))


def quantized(model, x, **config):
    quantizer = XNNPACKQuantizer().set_global(get_symmetric_quantization_config(**config))
    prepared = prepare_pt2e(torch.export.export(model.eval(), (x,)).module(), quantizer)
    prepared(x)
    return convert_pt2e(prepared)


def lower(model, x, *partitioners):
    return to_edge_transform_and_lower(torch.export.export(model, (x,)), partitioner=list(partitioners)).to_executorch()


def static_per_channel():
    x = torch.randn(1, 3, 8, 8)
    return lower(quantized(Convolutions(), x, is_per_channel=True), x, XnnpackPartitioner())


def static_per_tensor():
    x = torch.randn(1, 3, 8, 8)
    return lower(quantized(Convolutions(), x, is_per_channel=False), x, XnnpackPartitioner())


def dynamic_per_channel():
    x = torch.randn(2, 64)
    model = quantized(Linears(), x, is_per_channel=True, is_dynamic=True)
    return lower(model, x, XnnpackDynamicallyQuantizedPartitioner())


def four_bit_groups():
    x = torch.randn(2, 64)
    model = Linears().eval()
    config = Int8DynamicActivationIntxWeightConfig(weight_dtype=torch.int4, weight_granularity=PerGroup(32))
    quantize_(model, config)
    return lower(model, x, XnnpackDynamicallyQuantizedPartitioner(), XnnpackPartitioner())


@pytest.mark.parametrize("make", [static_per_channel, static_per_tensor, dynamic_per_channel, four_bit_groups])
def test_quantized_files_are_read_and_written_again(make, tmp_path):
    torch.manual_seed(1)
    with open(tmp_path / "stock.pte", "wb") as file:
        make().write_to_file(file)
    done = subprocess.run(
        [BUILD / "src/formats/formats_test", "--gtest_filter=StockFiles.*"],
        env={**os.environ, "DOWNHAUL_STOCK_FILES": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-2000:]
