"""Small models, each of one fault that has been seen in a converter or a runtime.

Values are chosen so that the right answer can be worked out by hand; it is in the comment.
They are the same at every size.
"""

import torch
import torch.nn.functional as F

from model_zoo.common import Case


class Function(torch.nn.Module):
    """A module of one function, with constants as buffers: f(buffers, *inputs)."""

    def __init__(self, function, **buffers):
        super().__init__()
        self.function = function
        for name, value in buffers.items():
            self.register_buffer(name, value)

    def forward(self, *inputs):
        return self.function(self, *inputs)


class Unary(Function):
    def forward(self, x):
        return self.function(self, x)


class Binary(Function):
    def forward(self, x, y):
        return self.function(self, x, y)


def f32(values):
    return torch.tensor(values, dtype=torch.float32)


def add_alpha(opts):
    """alpha must not be lost: [31, 42], not [4, 6]; sub: [-8, -10]; rsub: [2, 2]."""
    module = Binary(lambda m, x, y: (torch.add(x, y, alpha=10), torch.sub(x, y, alpha=3),
                                     torch.rsub(x, y)))
    return Case(module, {"x": f32([1, 2]), "y": f32([3, 4])}, ["add", "sub", "rsub"])


def gelu_forms(opts):
    """The tanh form (-0.00888759, 1.95459769) is not the erf form (-0.00936083, 1.95449974)."""
    module = Unary(lambda m, x: (F.gelu(x, approximate="tanh"), F.gelu(x)))
    return Case(module, {"x": f32([-2.7, 2.0])}, ["tanh", "erf"],
                {"range": {"x": f32([-0.5, 0.25])}})


def conv_relu_reuse(opts):
    """relu(y) + y with y = conv(x): fusing the relu into the convolution gives [0, 6], not [-2, 6]."""
    def run(m, x):
        y = F.conv2d(x, m.weight, m.bias)
        return F.relu(y) + y
    module = Unary(run, weight=torch.ones(1, 1, 1, 1), bias=torch.zeros(1))
    return Case(module, {"x": f32([-2, 3]).reshape(1, 1, 1, 2)}, ["y"])


def channels_last_input(opts):
    """Twice a picture that was exported in channels-last order."""
    x = torch.arange(12.0).reshape(1, 3, 2, 2)
    return Case(Unary(lambda m, x: x * 2), {"x": x.to(memory_format=torch.channels_last)}, ["y"])


def contiguous_input(opts):
    """The same, exported in row-major order, for a caller that hands over channels-last strides."""
    return Case(Unary(lambda m, x: x * 2), {"x": torch.arange(12.0).reshape(1, 3, 2, 2)}, ["y"])


def channels_last_conv(opts):
    """A network moved to channels-last: its weights have permuted strides, its input too."""
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, stride=2, padding=1), torch.nn.BatchNorm2d(8), torch.nn.ReLU6(),
        torch.nn.Conv2d(8, 8, 3, padding=1, groups=8), torch.nn.Hardswish(), torch.nn.Conv2d(8, 4, 1))
    model.eval().to(memory_format=torch.channels_last)
    x = torch.randn(1, 3, 9, 7).to(memory_format=torch.channels_last)
    return Case(model, {"x": x}, ["y"])


def permuted_constant(opts):
    """A constant with strides (1, 3): [[0, 3], [1, 4], [2, 5]]."""
    module = Unary(lambda m, x: x + m.c, c=torch.arange(6.0).reshape(2, 3).permute(1, 0))
    return Case(module, {"x": torch.zeros(3, 2)}, ["y"])


def permuted_two_users(opts):
    """One permuted value read twice: [[0, 3, 1, 4, 2, 5]] and [[3, 12]]."""
    def run(m, x):
        y = x.permute(0, 2, 1)
        return y.reshape(1, -1), y.sum(dim=1)
    return Case(Unary(run), {"x": torch.arange(6.0).reshape(1, 2, 3)}, ["flat", "sums"])


def conv_same_even(opts):
    """'same' padding of an even kernel puts the odd row at the end: [3, 4, 4, 3, 2]."""
    module = Unary(lambda m, x: F.conv2d(x, m.weight, padding="same"), weight=torch.ones(1, 1, 4, 1))
    return Case(module, {"x": torch.ones(1, 1, 5, 1)}, ["y"])


def masked_attention(opts):
    """Attention rows that may see nothing: zeros for a boolean mask, a softmax for -1e4."""
    def run(m, q):
        k = torch.eye(2).reshape(1, 1, 2, 2) * m.scores
        boolean = F.scaled_dot_product_attention(q, k, m.v, attn_mask=m.nothing, scale=1.0)
        finite = torch.softmax(q @ k.transpose(-1, -2) - 1e4, -1) @ m.v
        partly = F.scaled_dot_product_attention(q, k, m.v, attn_mask=m.first, scale=1.0)
        return boolean, finite, partly
    module = Unary(run, scores=f32([2, 3]), v=f32([[1, 2], [3, 4]]).reshape(1, 1, 2, 2),
                   nothing=torch.zeros(1, 2, dtype=torch.bool),
                   first=torch.tensor([[True, False]]))
    return Case(module, {"q": torch.ones(1, 1, 1, 2)}, ["boolean", "finite", "partly"])


def embedding_50257(opts):
    """Row i holds i: ids beyond 2^15 and 2^16 must come back exactly."""
    module = Unary(lambda m, x: F.embedding(x, m.table), table=torch.arange(50257.0).reshape(-1, 1))
    ids = torch.tensor([[0, 32767, 32768, 40000, 50256]])
    return Case(module, {"ids": ids}, ["rows"], {"reversed": {"ids": ids.flip(-1)}})


def bilinear_rules(opts):
    """[[0, 1], [2, 3]] to 4x4, first row: half-pixel [0, .25, .75, 1], corners [0, 1/3, 2/3, 1].

    The last two give a scale factor, whose rule is 1 / scale and not in / out.
    """
    def run(m, x):
        def up(size=None, scale=None, corners=False):
            return F.interpolate(x, size, scale, mode="bilinear", align_corners=corners)
        return up((4, 4)), up((4, 4), corners=True), up((5, 3)), up(scale=2.6), up(scale=2.6, corners=True)
    return Case(Unary(run), {"x": f32([[0, 1], [2, 3]]).reshape(1, 1, 2, 2)},
                ["half_pixel", "corners", "uneven", "scale", "scale_corners"],
                {"random": {"x": torch.randn(1, 1, 2, 2)}})


class Tied(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(1000, 64)
        self.head = torch.nn.Linear(64, 1000, bias=False)
        self.head.weight = self.table.weight

    def forward(self, ids):
        return self.head(torch.tanh(self.table(ids)))


def tied_1000x64(opts):
    """One table as embedding and as output matrix: 256,000 bytes, to be written once."""
    return Case(Tied(), {"ids": torch.randint(0, 1000, (1, 7))}, ["logits"],
                {"ends": {"ids": torch.tensor([[0, 999, 0, 999, 1, 998, 500]])}})


def passthrough(opts):
    """An input that is also an output, a constant output, and an output that is used again."""
    def run(m, x):
        y = x + 1
        return x, y, y * y, m.c.clone()
    module = Unary(run, c=f32([7, 8, 9]))
    return Case(module, {"x": f32([[1, 2], [3, 4]])}, ["x_again", "y", "square", "constant"])


def inplace_alias(opts):
    """Writes through a view, read through the base and through a view taken before the write."""
    def run(m, x):
        base = x * 1.0
        early = base[:, 1:]
        base[:, 2:].mul_(10)
        base.add_(1)
        return base, early.sum(dim=1), early.relu_() + base[:, :-1]
    return Case(Unary(run), {"x": f32([[-1, 2, -3, 4]])}, ["base", "sums", "both"])


BUILDERS = {f.__name__: f for f in (
    add_alpha, gelu_forms, conv_relu_reuse, channels_last_input, contiguous_input, channels_last_conv,
    permuted_constant, permuted_two_users, conv_same_even, masked_attention, embedding_50257,
    bilinear_rules, tied_1000x64, passthrough, inplace_alias)}
