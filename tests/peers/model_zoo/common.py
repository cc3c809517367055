"""What all builders share: options, the finished case, random weights, torchvision's import."""

import dataclasses
import importlib
import sys

import torch
from torch.nn.modules.batchnorm import _BatchNorm

SEED = 20240


@dataclasses.dataclass
class Options:
    size: str = "tiny"  # tiny | full
    attention: str = "sdpa"  # sdpa | eager (transformers models)
    dynamic: bool = False  # sequence length bounded, not fixed (text models)
    unwrapped: bool = False  # segmentation models return torchvision's dictionary
    seq_len: int | None = None
    batch: int = 1

    @property
    def tiny(self):
        return self.size == "tiny"


@dataclasses.dataclass
class Case:
    """A model ready to export.

    inputs   name -> tensor, in call order: the sample that is exported with
    outputs  names, in the order the module returns them
    more     label -> inputs like `inputs`: further input sets, chosen to hit corners
    dynamic  input name -> {axis: Dim}, or None
    notes    input name -> further keys of that input in model_spec.json
    extra    further keys of model_spec.json
    """

    module: torch.nn.Module
    inputs: dict
    outputs: list
    more: dict = dataclasses.field(default_factory=dict)
    dynamic: dict | None = None
    notes: dict = dataclasses.field(default_factory=dict)
    extra: dict = dataclasses.field(default_factory=dict)
    checkpoint: object = None


def import_torchvision():
    """torchvision, also where its compiled operators do not fit the installed torch.

    No model here calls those operators, but torchvision looks two of them up by name when it is
    imported. transformers imports torchvision too, so this has to come first.
    """
    try:
        return importlib.import_module("torchvision")
    except RuntimeError:
        for name in [n for n in sys.modules if n.partition(".")[0] == "torchvision"]:
            del sys.modules[name]
    for name in ("nms", "qnms"):
        _declared.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    return importlib.import_module("torchvision")


_declared = torch.library.Library("torchvision", "FRAGMENT")


@torch.no_grad()
def randomise(model):
    """Fills `model` with weights under which every part of it shows in the output.

    Fresh weights are too tame: attention is nearly uniform, norms are the identity and biases are
    zero, so a wrong folding would pass. Rows are scaled to keep the signal's size through depth.
    """
    for module in model.modules():
        weight = getattr(module, "weight", None)
        if isinstance(module, (_BatchNorm, torch.nn.LayerNorm)):
            weight.uniform_(0.7, 1.3)
        elif isinstance(module, (torch.nn.Linear, torch.nn.Embedding)):
            weight.normal_(0.0, weight.shape[1] ** -0.5)
        elif type(module).__name__ == "Conv1D":  # GPT-2's linear layer, stored [in, out]
            weight.normal_(0.0, weight.shape[0] ** -0.5)
    for name, parameter in model.named_parameters():
        last = name.rpartition(".")[2]
        if last.endswith("bias"):
            parameter.normal_(0.0, 0.1)
        elif last == "layer_scale":  # ConvNeXt starts with blocks that add next to nothing
            parameter.uniform_(0.2, 0.8)
        elif last in ("class_token", "cls_token", "pos_embedding", "position_embeddings",
                      "relative_position_bias_table"):
            parameter.normal_(0.0, 0.5)
    return model


@torch.no_grad()
def settle_batch_norms(model, pictures):
    """Sets each running mean and variance near those of `pictures`, then shakes both.

    With torch's defaults (0 and 1) a deep network's activations die out or explode. There should be
    several pictures, unlike each other: after global pooling each one is a single value per channel.
    """
    norms = [m for m in model.modules() if isinstance(m, _BatchNorm)]
    kept = [n.momentum for n in norms]
    for norm in norms:
        norm.train()
        norm.momentum = 1.0
    model(pictures)
    for norm, momentum in zip(norms, kept, strict=True):
        norm.eval()
        norm.momentum = momentum
        norm.running_mean += norm.running_var.sqrt() * torch.randn_like(norm.running_mean) * 0.2
        norm.running_var *= torch.empty_like(norm.running_var).uniform_(0.7, 1.4)
    return model
