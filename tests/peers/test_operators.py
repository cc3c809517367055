"""The reader of exported programs, operator by operator: small modules exported by torch, as written
and decomposed, evaluated by `downhaul run` and compared with torch eager."""

import math
import warnings

import pytest
import torch
import torch.ao.quantization.fx._decomposed  # noqa: F401, registers quantized_decomposed
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import nn
from torch.export import Dim

warnings.filterwarnings("ignore")
CASES = {}


class One(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, a):
        return self.function(a)


class Two(One):
    def forward(self, a, b):
        return self.function(a, b)


class Three(One):
    def forward(self, a, b, c):
        return self.function(a, b, c)


def add(name, function, *inputs, dynamic=None):
    """A case: a function of up to three tensors, or a module."""
    module = function if isinstance(function, nn.Module) else (One, Two, Three)[len(inputs) - 1](function)
    CASES[name] = (module.eval(), inputs, dynamic)


def case(*inputs, dynamic=None):
    """Decorator: the function below it is a case of its own name."""
    def register(function):
        add(function.__name__, function, *inputs, dynamic=dynamic)
        return function
    return register


def module(*inputs):
    def register(cls):
        add(cls.__name__, cls(), *inputs)
        return cls
    return register


def floats(*sizes):
    return torch.randn(sizes)


def ints(*sizes, high=5):
    return torch.randint(0, high, sizes)


torch.manual_seed(20240)
X, Y, Z = floats(2, 3, 4), floats(2, 3, 4), floats(2, 3, 4)
I, J = ints(2, 3, 4), ints(2, 3, 4)

# --- elementwise

for name in ("abs ceil cos erf exp exp2 expm1 floor isinf isnan logical_not neg reciprocal round sign sin square tanh "
             "trunc sigmoid relu").split():
    add(name, getattr(torch, name), X)
for name in "log log1p log2 log10 rsqrt sqrt".split():
    add(name, lambda a, f=getattr(torch, name): f(a.abs() + 0.1), X)
for name in "elu gelu glu hardsigmoid hardswish hardtanh leaky_relu logsigmoid mish relu6 selu silu softplus".split():
    add(name, lambda a, f=getattr(F, name): f(a * 3), X)


@case(I)
def unary_of_integers(a):
    b = a + 1
    return (b.cos(), b.exp(), b.tanh(), b.sqrt(), b.sigmoid(), b.reciprocal(), b.rsqrt(), b.log1p(), a.ceil(),
            a.floor(), a.isnan(), ~a)


@case(X, floats(3))
def activations_with_parameters(a, w):
    return (F.gelu(a, approximate="tanh"), F.prelu(a, w), F.elu(a, 0.3), F.celu(a, 2.0), F.leaky_relu(a, 0.2),
            F.softplus(a, 2.0, 1.0))


@case(X, Y)
def arithmetic(a, b):
    d = b.abs() + 1
    return (a + b, a - b, a * b, a / d, torch.add(a, b, alpha=3), torch.sub(a, b, alpha=0.5), 2 - a, 3 * a, a / 4,
            5 / d, torch.rsub(a, b, alpha=2), torch.maximum(a, b), torch.minimum(a, b))


@case(I - 2, J)
def arithmetic_of_integers(a, b):
    d = b + 1
    return (a + b, a - b, a * b, a / d, a // d, a % d, torch.add(a, b, alpha=3), 2 - a, a + 1.5, a * 2, a / 4,
            a // 3, torch.fmod(a, d), a**2, 2**b, a**2.0)


@case(X, I)
def mixed_dtypes(a, b):
    t = a > 0
    return (a + b, b - a, a > b, a.to(torch.int32) + b, a.to(torch.float16) * 2.5, t + b, t + 1, t * 1.5, t + t,
            t * t, a.to(torch.int8) + b.to(torch.uint8), t & (b > 1), t | (b > 1), t ^ (b > 1), b & 3, b | 4, b ^ 1,
            ~t, a + torch.tensor(1.0, dtype=torch.float64), b + torch.tensor(1.5),
            b.to(torch.int32) + torch.tensor(3))


@case(X * 5, Y.abs() + 1)
def division_modes(a, b):
    return (torch.div(a, b, rounding_mode="floor"), torch.div(a, b, rounding_mode="trunc"),
            torch.div(a, b, rounding_mode=None), a // 2, a % 2, torch.remainder(a, -2), torch.fmod(a, 2))


@case(torch.arange(-6, 6), torch.tensor([2, -3] * 6))
def division_modes_of_integers(a, b):
    return (torch.div(a, b, rounding_mode="floor"), torch.div(a, b, rounding_mode="trunc"),
            torch.div(a, -3, rounding_mode="trunc"), torch.remainder(a, -3), torch.fmod(a, 3))


@case(I.float(), J.float(), I)
def comparisons(a, b, c):
    return (a < b, a <= b, a > b, a >= b, a == b, a != b, a < 0, a <= 0.5, a > 1, a >= 1, a == 2, a != 3, c < 1.5,
            c == 2, c != 2.0, torch.logical_and(a, c), torch.logical_or(a, c), torch.logical_xor(a, c))


@case(X)
def powers_and_clamps(a):
    return (a**2, a**3, a.abs()**0.5, 2**a, a.abs()**a, a.clamp(-0.5, 0.5), a.clamp(min=0.1), a.clamp(max=0.2),
            torch.clamp_min(a, 0.3), torch.clamp_max(a, -0.1), torch.clamp(a, a * 0.5, a * 2))


@case(X, Y, Z)
def ternary(a, b, c):
    return (torch.addcmul(a, b, c, value=0.5), torch.addcdiv(a, b, c.abs() + 1, value=2), torch.lerp(a, b, 0.3),
            torch.lerp(a, b, c))


@case(X, floats(2, 4), I)
def selection(a, m, b):
    return (a.masked_fill(a > 0, -1.0), a.masked_fill(a > 0, -math.inf).exp(), a.masked_fill(m[:, None] > 0, 2),
            b.masked_fill(b > 2, -100), torch.where(a > 0, a, 0.0), torch.where(a > 0, 1.0, a),
            torch.where(a > 0, 1.0, 0.0), torch.where(a > 0, a, -a), torch.where(b > 2, b, 0),
            torch.where(b > 1, 1.5, b), b.clamp(1, 3), b.clamp(min=1.5))


# --- creation and shape


@case(X)
def creation(a):
    return (torch.arange(5) + a[0, 0, 0], torch.arange(2, 9, 3) * a[0, 0, 0], torch.arange(0, 1, 0.25) + a[0, 0],
            torch.arange(3.0) * a[0, 0, 0], torch.arange(4, dtype=torch.float32) + a[0, 0],
            torch.arange(10, 0, -2) + a[0, 0, 0], torch.linspace(-1, 1, 4) + a[0, 0], torch.eye(4) + a[0, 0],
            torch.full((2, 4), 3) + a[0, 0], torch.full((4,), 2.5) * a, torch.zeros(4) + a, torch.ones(2, 1, 1) * a,
            torch.full((2,), True) | (a[0, 0, :2] > 0), torch.zeros_like(a) + a,
            torch.ones_like(a, dtype=torch.int64) + a.long(), torch.full_like(a, 0.1) * a, a.new_zeros(4) + a,
            a.new_ones(4) * a, a.new_full((4,), 7) * a, torch.tensor(3.0) * a, torch.scalar_tensor(2.0) * a,
            torch.empty_like(a).fill_(2) * a)


@case(X)
def views(a):
    return (a.view(6, 4), a.reshape(-1, 2), a.flatten(), a.flatten(1), a.unsqueeze(0), a.unsqueeze(-1),
            a[:, :1].squeeze(1), a.unsqueeze(0).squeeze(), a.permute(2, 0, 1), a.transpose(0, -1),
            a.unflatten(2, (2, -1)), a.movedim(0, 2), a.mT, a.swapaxes(0, 1), a.view_as(a),
            a.reshape_as(a.permute(0, 2, 1)), a[0].t(), a[0].T, a.expand(5, 2, 3, 4), a[:, :1].expand(-1, 3, -1),
            a[:, :1].expand_as(a), a.select(1, -1), a[:, 1], a[..., -2:], a[:, ::2], a[1:, 1:3], a.narrow(1, 1, 2),
            a[:, -2], a[-1:])


@case(X)
def pieces(a):
    return (*a.split(2, 1), *a.split([1, 2], 1), *a.chunk(2, 2), *a.chunk(3, 2), *a.unbind(1), *torch.split(a, 3, 2))


@case(X, Y)
def joins(a, b):
    return (torch.cat([a, b], 1), torch.cat([a, b], -1), torch.stack([a, b]), torch.stack([a, b], -1),
            torch.cat([a, b.long()], 0), torch.cat([torch.zeros(0), a[0, 0]]), torch.hstack([a, b]),
            torch.vstack([a, b]))


@case(X, I)
def padding(a, b):
    return (F.pad(a, (1, 2)), F.pad(a, (1, 0, 0, 2), value=3.0), F.pad(a, (-1, 1)), F.pad(a, (1, 2), mode="reflect"),
            F.pad(a, (1, 2), mode="replicate"), F.pad(a[None], (1, 1, 1, 1), mode="reflect"),
            F.pad(b, (1, 2), value=7), F.pad(b > 1, (1, 1), value=True))


@case(X)
def repetition(a):
    return (a.repeat(2, 1, 1), a.repeat(2, 1, 1, 3), a.tile(2), a.repeat_interleave(2, dim=1),
            a.repeat_interleave(2), a.roll(1, 1), a.roll((1, -1), (0, 2)), a.roll(2), a.flip(0, 2), a.tril(),
            a.triu(1), torch.tril(a, -1), *torch.meshgrid(a[0, 0], torch.arange(3.0), indexing="ij"),
            *torch.meshgrid(a[0, 0], torch.arange(3.0), indexing="xy"))


@case(floats(1, 8, 4, 4))
def shuffles(a):
    return F.pixel_shuffle(a, 2), F.pixel_unshuffle(a, 2), F.channel_shuffle(a, 4)


# --- indexing


@case(X, I)
def indexing(a, i):
    return (a[i[0, 0] % 2], a[:, i[0, 0] % 3], a[:, i[0, 0] % 3, i[0, 0] % 4], a[i[0, 0] % 2, :, i[0, 0] % 4],
            a[torch.arange(2), :, torch.tensor([0, 1])], a[:, [0, 2]], a[..., i[0, :, :1] % 4],
            a[:, torch.tensor([True, False, True])], a.gather(1, i % 3), a.index_select(1, i[0, 0] % 3),
            torch.take_along_dim(a, i % 4, 2), F.one_hot(i, 5))


@case(X, I, Y)
def scattering(a, i, b):
    return (a.scatter(1, i % 3, 9.0), a.scatter(2, torch.tensor([0, 3, 1, 2]).expand(2, 3, 4), b),
            a.scatter_add(1, i % 3, b), torch.zeros(2, 3, 5).scatter_(2, i[:, :, :1], 1.0),
            torch.select_scatter(a, b[:, 0], 1, 1), torch.slice_scatter(a, b[:, :2], 1, 1, 3),
            a.index_copy(1, torch.tensor([2, 0]), b[:, :2]))


@case(I, floats(5, 6))
def embedding(i, w):
    return F.embedding(i, w, padding_idx=0)


# --- reductions


@case(X)
def reductions(a):
    return (a.sum(), a.sum(1), a.sum((0, 2), keepdim=True), a.mean(), a.mean(-1), a.mean((1, 2)), a.amax(1),
            a.amin((0, 1)), a.amax(), a.max(), a.min(), a.prod(), a.prod(1), a.var(), a.var(1),
            a.var((1, 2), unbiased=False), a.std(1), a.std(), a.var(dim=1, correction=0), *torch.var_mean(a, 1),
            a.norm(dim=1), torch.linalg.vector_norm(a), a.norm(p=1, dim=2), F.normalize(a, dim=-1),
            torch.logsumexp(a, 1), a.cumsum(0), a.cumsum(-1, dtype=torch.float64), a.diff(), a.diff(dim=1),
            a.diff(n=2), (a > 0).diff(), a.diff(prepend=a[..., :1]))


@case(I)
def reductions_of_integers(a):
    return (a.sum(), a.sum(1), (a > 1).sum(1), a.mean(1, dtype=torch.float32), a.cumsum(1), (a > 1).cumsum(-1),
            a.to(torch.int32).sum(0), a.to(torch.int32).cumsum(0), a.sum(dtype=torch.float32), a.prod(1), a.amax(2),
            a.any(), a.all(1), (a > 0).all(), (a > 2).any(1), (a > 1).all(2, keepdim=True),
            torch.any(a > 2, dim=(0, 1)))


@case(X)
def places_of_extremes(a):
    return (a.argmax(), a.argmax(1), a.argmin(-1, keepdim=True), a.argmax(keepdim=True), *a.max(1),
            *a.min(2, keepdim=True), *a.topk(2), *a.topk(2, 1, largest=False),
            *a.sort(), *a.sort(1, descending=True), *a.aminmax())


# --- linear algebra


@case(floats(2, 3, 4), floats(2, 4, 5), floats(4))
def products(a, b, c):
    return (a @ b, torch.bmm(a, b), a @ b[0], a[0] @ b, a @ c, c @ b, c @ c, c @ b[0], a[0] @ c,
            torch.mm(a[0], b[0]), torch.mv(a[0], c), torch.dot(c, c), torch.baddbmm(a @ b, a, b, beta=0.5, alpha=2),
            torch.addmm(a[0] @ b[0], a[0], b[0], beta=0.5, alpha=2), torch.addmm(c[:1], a[0], b[0]))


@case(X, Y, floats(3, 2, 4))
def einsums(a, b, c):
    return (torch.einsum("bij,bkj->bik", a, b), torch.einsum("bij->bji", a), torch.einsum("bij->b", a),
            torch.einsum("bij,bij->bi", a, b), torch.einsum("...ij,...kj->...ik", a, b),
            torch.einsum("bij,j->bi", a, b[0, 0]), torch.einsum("i,j->ij", a[0, 0], b[0, 0]),
            torch.einsum("bij,bkj,bk->bi", a, b, b[:, :, 0]), torch.einsum("bij,ikj->bik", a, c))


@case(floats(2, 4, 5, 6), floats(2, 4, 5, 6), floats(2, 2, 5, 6))
def attention(q, k, g):
    return (F.scaled_dot_product_attention(q, k, k), F.scaled_dot_product_attention(q, k, k, is_causal=True),
            F.scaled_dot_product_attention(q, k, k, scale=0.3),
            F.scaled_dot_product_attention(q, k, k, attn_mask=(torch.arange(5) < 3)[None, None, None]),
            F.scaled_dot_product_attention(q, k, k, attn_mask=torch.zeros(5, 5) - 1),
            F.scaled_dot_product_attention(q[0], k[0], k[0]),
            F.scaled_dot_product_attention(q, g, g, enable_gqa=True))


@module(X)
class Linears(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 5), nn.Linear(5, 3, bias=False)
        self.w, self.b = nn.Parameter(floats(4, 6)), nn.Parameter(floats(6))

    def forward(self, a):
        return (self.second(self.first(a)), a @ self.w, torch.addmm(self.b, a[0], self.w), a[0] @ self.w,
                self.first(a[0, 0]))


@module(floats(2, 5, 8))
class MultiheadAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)

    def forward(self, a):
        return self.attention(a, a, a, need_weights=False)[0], self.attention(a, a, a)[1], self.layer(a)


class Lstm(nn.Module):
    def __init__(self, bidirectional, batch_first):
        super().__init__()
        self.lstm = nn.LSTM(4, 3, 2, bidirectional=bidirectional, batch_first=batch_first)

    def forward(self, a):
        return self.lstm(a)


for bidirectional in (False, True):
    for batch_first in (False, True):
        add(f"lstm_{bidirectional}_{batch_first}", Lstm(bidirectional, batch_first), floats(5, 2, 4))

# --- convolution, pooling, resampling, normalisation


@module(floats(2, 4, 9, 8))
class Convolutions(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([
            nn.Conv2d(4, 6, 3, padding=1), nn.Conv2d(4, 4, 3, stride=2, groups=4, bias=False),
            nn.Conv2d(4, 8, (2, 4), padding="same"),
            nn.Conv2d(4, 2, 3, dilation=2, padding=(2, 1)), nn.ConvTranspose2d(4, 6, 3, 2, 1, 1),
            nn.ConvTranspose2d(4, 4, 2, 2, groups=2),
            nn.Conv2d(4, 8, 3, padding="valid")])

    def forward(self, a):
        return [layer(a) for layer in self.layers] + [self.layers[0](a[0])]


@module(floats(2, 4, 11))
class Convolutions1d(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Conv1d(4, 6, 3, padding=1, stride=2),
        nn.Conv1d(4, 4, 4, padding="same", groups=2, dilation=2),
                                     nn.ConvTranspose1d(4, 6, 3, 2, 1, 1)])

    def forward(self, a):
        return [layer(a) for layer in self.layers] + [self.layers[0](a[0])]


@case(floats(2, 3, 9, 8))
def pooling(a):
    return (F.max_pool2d(a, 2), F.max_pool2d(a, 3, 2, 1), F.max_pool2d(a, 3, 2, ceil_mode=True),
            F.max_pool2d(a, 2, 1, dilation=2), F.avg_pool2d(a, 2), F.avg_pool2d(a, 3, 2, 1),
            F.avg_pool2d(a, 3, 2, 1, count_include_pad=False), F.avg_pool2d(a, 3, 2, 1, ceil_mode=True),
            F.avg_pool2d(a, 2, divisor_override=3), F.adaptive_avg_pool2d(a, 1), F.adaptive_avg_pool2d(a, (3, 5)),
            F.max_pool2d(a[0], 2), F.adaptive_avg_pool2d(a, (None, 2)))


@case(floats(2, 3, 9))
def pooling_1d(a):
    return (F.max_pool1d(a, 2), F.avg_pool1d(a, 3, 2, 1), F.adaptive_avg_pool1d(a, 3),
            F.max_pool1d(a, 3, 2, 1, ceil_mode=True), F.max_pool1d(a[0], 2))


@case(floats(1, 2, 4, 5))
def resampling(a):
    return (F.interpolate(a, scale_factor=2, mode="bilinear"), F.interpolate(a, size=(7, 9), mode="bilinear"),
            F.interpolate(a, size=(7, 9), mode="bilinear", align_corners=True),
            F.interpolate(a, scale_factor=1.7, mode="bilinear"),
            F.interpolate(a, scale_factor=(1.5, 0.8), mode="bilinear", recompute_scale_factor=True),
            F.interpolate(a, scale_factor=2, mode="nearest"), F.interpolate(a, size=(7, 3), mode="nearest"),
            F.interpolate(a, scale_factor=1.6))


@module(floats(2, 4, 6, 5))
class Normalisations(nn.Module):
    def __init__(self):
        super().__init__()
        self.batch, self.plain = nn.BatchNorm2d(4), nn.BatchNorm1d(4, affine=False)
        self.batch.running_mean.normal_()
        self.batch.running_var.uniform_(0.5, 2)
        self.layers = nn.ModuleList([self.batch, nn.LayerNorm((6, 5)), nn.LayerNorm(5, elementwise_affine=False),
                                     nn.GroupNorm(2, 4), nn.InstanceNorm2d(4, affine=True), nn.RMSNorm(5)])

    def forward(self, a):
        return [layer(a) for layer in self.layers] + [self.plain(a[:, :, 0])]


@case(X, I)
def softmaxes(a, i):
    h = a.half()
    return (a.softmax(-1), a.softmax(1), a.log_softmax(-1), a.softmax(-1, dtype=torch.float64),
            i.softmax(-1, dtype=torch.float32), F.softmin(a, 1), a[0, 0, 0].softmax(0), h.softmax(-1), h * 2,
            a.bfloat16() + a.bfloat16(), h @ h.mT, h.sum(1), h.float(), h.mean(1),
            torch.softmax(h, -1, dtype=torch.float32))


# --- writes in place


@case(X)
def writes_through_views(a):
    b = a.clone()
    c, d = b.view(-1), b[:, 1]
    c[0] = 100.0
    d.add_(1)
    e = b.permute(2, 0, 1)
    e[1].zero_()
    b.clamp_(max=50)
    return b, c, d, e


@case(X)
def writes_through_pieces(a):
    b = torch.zeros(3, 4)
    left, right = b.split(2, 1)
    left.copy_(a[0, :, :2])
    right.fill_(3)
    rows, chunks = b.unbind(0), b.chunk(3, 0)
    rows[1].mul_(2)
    chunks[2].sub_(1)
    return b, left, right, rows[1], chunks[2]


@case(X)
def copies_are_no_aliases(a):
    b = a.clone()
    flat = b.permute(0, 2, 1).reshape(2, -1)
    flat.zero_()
    same = b.contiguous()
    same.add_(1)
    copy = b.permute(0, 2, 1).contiguous()
    copy.add_(5)
    again = b.to(torch.float32)
    again.mul_(3)
    b.to(torch.float64).zero_()
    return b, flat, same, copy, again


@case(X)
def operators_in_place(a):
    b = a.clone()
    b += 1
    b -= 0.5
    b *= 2
    b /= 3
    b.squeeze().relu_()
    c = b.unsqueeze(0)[0]
    c.sigmoid_()
    b.masked_fill_(b > 0.7, 0.0)
    b.tanh_()
    b[:, 1:2, ::2].neg_()
    return b, c


@case(X)
def writes_through_transposes(a):
    b = a.clone().transpose(0, 1)
    b[0].fill_(1.0)
    c = b.flatten(1)
    c.add_(1)
    d = torch.triu(torch.full((4, 4), -math.inf), 1)
    e = torch.zeros(2, 4)
    e[:, 2:] = 1
    e[0] = a[0, 0]
    e.t()[3] = 9
    return b, c, d, e


@case(X, Y)
def writes_at_indices(a, b):
    c, d, e = a.clone(), a.clone(), a.clone()
    c[:, 0] = 5.0
    c[0, :, 1:3] = b[0, :, 1:3]
    c[:, torch.tensor([1, 2])] = b[:, torch.tensor([0, 1])]
    d[a > 0] = 0.0
    e[:, :, -1] += 1
    e[..., 0].mul_(2)
    return c, d, e, a.index_put((torch.tensor([0, 1]), torch.tensor([1, 1])), b[0, :2], accumulate=True)


@module(X)
class Buffers(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(3))
        self.register_buffer("cache", torch.zeros(2, 4, 3))

    def forward(self, a):
        self.count.add_(1)
        self.cache[:, 1:3] = a[:, :2, :3]
        self.cache.index_copy_(1, torch.tensor([0]), a[:, 2:3, :3])
        return self.count * 2, self.cache.sum(1)


@module(X)
class NoGradInside(nn.Module):
    def forward(self, a):
        with torch.no_grad():
            b = a * 2
            c = b + 1
        return c * a, b


# --- dynamic sizes

S, B = Dim("s", min=4, max=16), Dim("b", min=1, max=8)


@case(floats(1, 6, 4), dynamic=({1: S},))
def dynamic_shapes(a):
    n = a.shape[1]
    return (a.view(a.shape[0], -1), a.reshape(-1, 4), a.transpose(1, 2).reshape(a.shape[0], a.shape[2], -1),
            torch.arange(n) + a[0, :, 0], torch.zeros(n, n) + a[0, :, 0], a[:, 1:], a[:, :-1], a[:, -1], a.sum(1),
            torch.cat([a, a], 1), a.expand(2, *a.shape), a.softmax(1), a.mean((1, 2)), a[:, :1].expand(-1, n, -1),
            F.pad(a, (0, 0, 1, 1)), a @ a.mT, a.split(1, 0)[0], a.flatten(0, 1), a.unflatten(2, (2, 2)),
            torch.full((n,), 2.0) * a[0, :, 0])


@case(floats(2, 6, 4), dynamic=({0: B, 1: S},))
def dynamic_batch_and_length(a):
    b, n = a.shape[:2]
    return (a.repeat(1, 2, 1), a.chunk(2, -1)[1], torch.triu(torch.ones(n, n), 1).bool(), a.view(b * n, 2, 2), n * a,
            a / n, F.scaled_dot_product_attention(a[:, None], a[:, None], a[:, None], is_causal=True),
            F.layer_norm(a, (4,)), a.cumsum(1), a.roll(1, 1), a.flip(1), torch.arange(n - 1, -1, -1), a[:, :2],
            n + 0 * a.sum().long(), a.new_zeros(a.shape) + 1, a.masked_fill(torch.arange(n)[None, :, None] < 2, 0.0),
            torch.ones(b, 1, dtype=torch.long).cumsum(0), a.permute(1, 0, 2).contiguous().view(n, -1),
            a.new_ones(n).diff())


@case(floats(2, 3, 8, 8), floats(4, 3, 3, 3), dynamic=({0: B}, None))
def dynamic_batch_of_images(a, w):
    return F.conv2d(a, w, padding=1), F.adaptive_avg_pool2d(a, 1), a.flatten(1), F.max_pool2d(F.relu(a), 2)


# --- quantised


@case(X)
def quantised(a):
    q = torch.ops.quantized_decomposed
    one = q.quantize_per_tensor(a, 0.05, 3, -128, 127, torch.int8)
    scales, zeros = torch.tensor([0.1, 0.2, 0.05]), torch.zeros(3, dtype=torch.int64)
    channels = q.quantize_per_channel(a, scales, zeros, 1, -127, 127, torch.int8)
    scale, zero = q.choose_qparams.tensor(a, -128, 127, 1e-5, torch.int8)
    chosen = q.quantize_per_tensor.tensor(a, scale, zero, -128, 127, torch.int8)
    return (one, q.dequantize_per_tensor(one, 0.05, 3, -128, 127, torch.int8), channels,
            q.dequantize_per_channel(channels, scales, zeros, 1, -127, 127, torch.int8), scale, zero, chosen,
            q.dequantize_per_tensor.tensor(chosen, scale, zero, -128, 127, torch.int8))


def tolerance(tensor):
    """Half precision: a few units in the last place of values of order 10; the rest as float32."""
    return {torch.float16: 2e-2, torch.bfloat16: 1e-1}.get(tensor.dtype, 2e-5)


@pytest.mark.parametrize("decomposed", [False, True], ids=["training", "aten"])
@pytest.mark.parametrize("name", CASES)
def test_operator(name, decomposed, downhaul, tmp_path):
    model, inputs, dynamic = CASES[name]
    # Buffers that the model writes keep the content that the archive has.
    initial = {k: v.clone() for k, v in model.state_dict().items()}
    program = torch.export.export(model, tuple(t.clone() for t in inputs), dynamic_shapes=wrap(model, dynamic))
    if decomposed:
        program = program.run_decompositions()
    torch.export.save(program, tmp_path / "model.pt2")
    with torch.no_grad():
        expected, _ = torch.utils._pytree.tree_flatten(model(*(t.clone() for t in inputs)))
    model.load_state_dict(initial)
    save_file({n: t.clone().contiguous() for n, t in zip("abc", inputs)}, tmp_path / "in.safetensors")
    downhaul.run("run", tmp_path / "model.pt2", "--inputs", tmp_path / "in.safetensors", "--outputs",
    tmp_path / "out.safetensors")
    found = load_file(tmp_path / "out.safetensors")
    for i, want in enumerate(expected):
        key = f"output_{i}" if len(expected) > 1 else "output"
        assert found[key].dtype == want.dtype and found[key].shape == want.shape, key
        torch.testing.assert_close(found[key], want, rtol=tolerance(want), atol=tolerance(want), equal_nan=True,
        msg=lambda m, key=key: f"{key}: {m}")


def wrap(model, dynamic):
    return None if dynamic is None else dict(zip(("a", "b", "c"), dynamic))
