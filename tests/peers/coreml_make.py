"""Makes tiny packages with coremltools, with inputs and what torch gives: coreml_make.py FOLDER."""

import logging
import pathlib
import sys
import warnings

warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)

import coremltools as ct  # noqa: E402
import numpy as np  # noqa: E402
import torch  # noqa: E402
from model_zoo.common import import_torchvision  # noqa: E402
from safetensors.torch import save_file  # noqa: E402
from torch.nn import functional as F  # noqa: E402

FOLDER = pathlib.Path(sys.argv[1])
WIDTH, HEADS, LENGTH, HIDDEN, WORDS, LABELS = 64, 4, 16, 128, 100, 2


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.out = (torch.nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.wide, self.narrow = torch.nn.Linear(WIDTH, HIDDEN), torch.nn.Linear(HIDDEN, WIDTH)
        self.norm, self.last_norm = torch.nn.LayerNorm(WIDTH), torch.nn.LayerNorm(WIDTH)


class Encoder(torch.nn.Module):
    """DistilBERT's sequence classification as it stands."""

    def __init__(self):
        super().__init__()
        self.words, self.positions = torch.nn.Embedding(WORDS, WIDTH), torch.nn.Embedding(LENGTH, WIDTH)
        self.norm = torch.nn.LayerNorm(WIDTH)
        self.layers = torch.nn.ModuleList(Layer() for _ in range(2))
        self.before, self.classifier = torch.nn.Linear(WIDTH, WIDTH), torch.nn.Linear(WIDTH, LABELS)

    def forward(self, ids, mask):
        x = self.norm(self.words(ids) + self.positions.weight[None])
        hidden = (mask == 0)[:, None, None, :].expand(1, HEADS, LENGTH, LENGTH)
        for layer in self.layers:
            q, k, v = (part(x).view(1, LENGTH, HEADS, WIDTH // HEADS).transpose(1, 2) for part in (layer.q, layer.k, layer.v))
            scores = torch.matmul(q / (WIDTH // HEADS) ** 0.5, k.transpose(2, 3)).masked_fill(hidden, float("-inf"))
            context = torch.matmul(torch.softmax(scores, -1), v).transpose(1, 2).reshape(1, LENGTH, WIDTH)
            x = layer.norm(layer.out(context) + x)
            x = layer.last_norm(layer.narrow(F.gelu(layer.wide(x))) + x)
        return self.classifier(torch.relu(self.before(x[:, 0])))


class NeuralEngine(torch.nn.Module):
    """The same in the published layout: channels first, head by head, norms in primitives."""

    def __init__(self, encoder):
        super().__init__()
        self.of = encoder

    @staticmethod
    def conv(linear, x):
        return F.conv2d(x, linear.weight[:, :, None, None], linear.bias)

    @staticmethod
    def norm(norm, x):
        z = x - x.mean(1, keepdim=True)
        z = z * torch.rsqrt((z * z).mean(1, keepdim=True) + 1e-7)
        return (z + (norm.bias / norm.weight).view(1, -1, 1, 1)) * norm.weight.view(1, -1, 1, 1)

    def forward(self, ids, mask):
        of, width = self.of, WIDTH // HEADS
        x = self.norm(of.norm, (of.words(ids) + of.positions.weight[None]).transpose(1, 2).unsqueeze(2))
        added = ((1 - mask).float() * -1e4).unsqueeze(2).unsqueeze(2)
        for layer in of.layers:
            q, v = self.conv(layer.q, x).split(width, 1), self.conv(layer.v, x).split(width, 1)
            k = self.conv(layer.k, x).transpose(1, 3).split(width, 3)
            weights = [(torch.einsum("bchq,bkhc->bkhq", [a, b]) * width ** -0.5 + added).softmax(1) for a, b in zip(q, k)]
            context = torch.cat([torch.einsum("bkhq,bchk->bchq", [w, b]) for w, b in zip(weights, v)], 1)
            x = self.norm(layer.norm, self.conv(layer.out, context) + x)
            x = self.norm(layer.last_norm, self.conv(layer.narrow, F.gelu(self.conv(layer.wide, x))) + x)
        y = self.conv(of.classifier, torch.relu(self.conv(of.before, x[:, :, :, 0:1])))
        return y.squeeze(-1).squeeze(-1)


class Segmenter(torch.nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, x):
        return self.net(x)["out"]


def make(name, model, inputs, targets):
    model.eval()
    with torch.inference_mode():
        wanted = model(*inputs.values())
    traced = torch.jit.trace(model, tuple(inputs.values()), check_trace=False)
    save_file({k: v.contiguous() for k, v in inputs.items()}, FOLDER / f"{name}.in.safetensors")
    save_file({"y": wanted.contiguous()}, FOLDER / f"{name}.want.safetensors")
    types = [ct.TensorType(name=k, shape=v.shape, dtype=np.float32 if v.is_floating_point() else np.int32)
             for k, v in inputs.items()]
    for target in targets:
        for bits, precision in ((16, ct.precision.FLOAT16), (32, ct.precision.FLOAT32)):
            package = ct.convert(traced, inputs=types, minimum_deployment_target=getattr(ct.target, target),
                                 compute_precision=precision, convert_to="mlprogram", skip_model_load=True)
            package.save(str(FOLDER / f"{name}_{target}_{bits}.mlpackage"))


def calibrated(model, size):
    """Batch norms that keep the signal alive."""
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.momentum = 0.5
    model.train()
    with torch.no_grad():
        for _ in range(3):
            model(torch.rand(4, 3, size, size))
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.running_var.clamp_(min=1e-3)
    return model


torch.manual_seed(0)
torchvision = import_torchvision()
encoder = Encoder()
for parameter in encoder.parameters():
    if parameter.ndim == 1:
        parameter.data += 0.1 * torch.randn_like(parameter)
mask = torch.ones(1, LENGTH, dtype=torch.int32)
mask[:, 12:] = 0
text = {"ids": torch.randint(0, WORDS, (1, LENGTH), dtype=torch.int32), "mask": mask}
make("plain", encoder, text, ["iOS15", "iOS16", "iOS17", "iOS18"])
make("ane", NeuralEngine(encoder), text, ["iOS15", "iOS16", "iOS17", "iOS18"])
picture = {"x": torch.rand(1, 3, 64, 64)}
make("mobilenet_v2", calibrated(torchvision.models.mobilenet_v2(weights=None, num_classes=10), 64), picture, ["iOS15", "iOS17"])
make("lraspp", Segmenter(calibrated(torchvision.models.segmentation.lraspp_mobilenet_v3_large(
    weights=None, weights_backbone=None), 64)), picture, ["iOS15", "iOS16"])
