"""Corners: sizes, types and values at which lowerings go wrong. Each case is a small function, exported
by torch, lowered to both backends, and run by us (the program and both files) and by the stock runtime
(both files); all of them must give what torch eager gives, on every set of inputs."""

import math
import warnings

import pytest
import torch
import torch.nn.functional as F
from paths import Paths, as_list
from torch import nn
from torch.export import Dim

warnings.filterwarnings("ignore")
NAN, INF = math.nan, math.inf
CASES, REFUSED = {}, {}


class Function(nn.Module):
    """A function of one to three tensors a, b, c as a module; its default values become buffers."""

    def __init__(self, function):
        super().__init__()
        self.function = function


class Of1(Function):
    def forward(self, a):
        return self.function(a)


class Of2(Function):
    def forward(self, a, b):
        return self.function(a, b)


class Of3(Function):
    def forward(self, a, b, c):
        return self.function(a, b, c)


class Case:
    def __init__(self, module, sets, dynamic=None, tolerance=1e-5, **more):
        if not isinstance(module, nn.Module):
            module = (Of1, Of2, Of3)[len(sets[0]) - 1](module)
        self.module, self.tolerance, self.more = module.eval(), tolerance, more
        self.sets = [dict(zip("abc", given)) for given in sets]
        self.dynamic = None if dynamic is None else dict(zip("abc", dynamic))


def case(*sets, **more):
    """Decorator: each of `sets` is a tuple of inputs, or the only input; the first is exported with."""
    sets = [given if isinstance(given, tuple) else (given,) for given in sets]

    def register(function):
        CASES[function.__name__] = Case(function() if isinstance(function, type) else function, sets, **more)
        return function
    return register


def refused(message, *inputs, dynamic=None):
    """Decorator: lowering ends with exit code 1 and one line that has these words."""
    def register(function):
        REFUSED[function.__name__] = (Case(function, [inputs], dynamic), message)
        return function
    return register


def f(*sizes):
    return torch.randn(sizes)


def i(*sizes, low=0, high=5, dtype=torch.int64):
    return torch.randint(low, high, sizes, dtype=dtype)


torch.manual_seed(4711)
N, TWO = Dim("n", min=1, max=9), Dim("n", min=2, max=9)
M = Dim("m", min=2, max=6)

# --- attention and its masks

ONES, NONE = torch.ones(2, 5, dtype=torch.int64), torch.zeros(2, 5, dtype=torch.int64)
SOME = torch.tensor([[1, 1, 1, 0, 0], [0, 0, 0, 0, 0]])
HOLES = torch.tensor([[0, 1, 0, 1, 0], [1, 0, 0, 0, 0]])
Q = f(2, 2, 5, 4)
MASKS = [(Q, ONES), (Q, NONE), (Q, SOME), (Q, HOLES), (Q * 30, SOME)]


@case(*MASKS)
def attention_with_bool_mask(a, b):
    return F.scaled_dot_product_attention(a, a, a, attn_mask=b.bool()[:, None, None, :])


@case(*MASKS)
def attention_with_lowest_number_as_mask(a, b):
    mask = (1 - b[:, None, None, :].float()) * torch.finfo(torch.float32).min
    return F.scaled_dot_product_attention(a, a, a, attn_mask=mask)


@case(*MASKS)
def attention_by_hand_with_minus_ten_thousand(a, b):
    scores = a @ a.transpose(-1, -2) / 2 + (1 - b[:, None, None, :].float()) * -10000.0
    return scores.softmax(-1) @ a


@case(*MASKS)
def attention_by_hand_with_minus_infinity(a, b):
    """A row without keys is NaN, and only that row."""
    scores = (a @ a.transpose(-1, -2)).masked_fill(b[:, None, None, :] == 0, -INF)
    return scores.softmax(-1) @ a


@case(*MASKS)
def causal_attention_with_padding(a, b):
    mask = b.bool()[:, None, None, :] & torch.ones(5, 5, dtype=torch.bool).tril()
    return F.scaled_dot_product_attention(a, a, a, attn_mask=mask)


@case(*MASKS)
def padded_mean_of_rows(a, b):
    rows = a.transpose(1, 2).flatten(2)
    weights = b[:, :, None].float()
    return (rows * weights).sum(1) / weights.sum(1).clamp(min=1e-9)


@case((f(1, 2, 3, 4), f(1, 2, 7, 4)), (f(1, 2, 3, 4) * 50, f(1, 2, 7, 4)))
def cross_attention(a, b):
    return F.scaled_dot_product_attention(a, b, b), F.scaled_dot_product_attention(b, a, a, scale=0.25)


@case((f(1, 4, 5, 4), f(1, 2, 5, 4)))
def attention_with_shared_heads(a, b):
    return F.scaled_dot_product_attention(a, b.repeat_interleave(2, 1), b.repeat_interleave(2, 1), is_causal=True)


# --- the row of a token that may be missing

IDS = [torch.tensor(v) for v in ([[5, 103, 7, 8]], [[103, 1, 2, 3]], [[1, 2, 3, 103]], [[1, 2, 3, 4]],
                                 [[1, 103, 103, 2]], [[103, 103, 103, 103]])]
TWO_IDS = [torch.cat([a, b]) for a, b in zip(IDS, reversed(IDS))]


class FirstMask(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.head = nn.Embedding(200, 6), nn.Linear(6, 9)

    def rows(self, a):
        return self.head(self.table(a))

    def forward(self, a):
        at = (a == 103).int().argmax(1)
        return self.rows(a)[torch.arange(a.shape[0]), at]


@case(*IDS)
class RowOfFirstMask(FirstMask):
    pass


@case(*TWO_IDS, dynamic=({0: N},))
class RowOfFirstMaskOfABatch(FirstMask):
    pass


@case(*IDS)
class RowOfMaskByGather(FirstMask):
    def forward(self, a):
        at = (a == 103).float().argmax(1)
        return self.rows(a).gather(1, at[:, None, None].expand(-1, 1, 9))[:, 0]


@case(*IDS)
class RowOfMaskByProduct(FirstMask):
    def forward(self, a):
        first = F.one_hot((a == 103).int().argmax(1), 4).float()
        return (first[:, :, None] * self.rows(a)).sum(1)


@case(*IDS, dynamic=({1: Dim("t", min=4, max=7)},))
class RowOfLastToken(FirstMask):
    def forward(self, a):
        return self.rows(a)[:, -1], self.rows(a)[:, 0], self.rows(a)[:, 1:-1]


@case(*TWO_IDS)
class MeanOfAllMasks(FirstMask):
    def forward(self, a):
        here = (a == 103).float()[:, :, None]
        return (self.rows(a) * here).sum(1) / here.sum(1)


# --- NaN and infinities

ODD = torch.tensor([[NAN, 1.0, -2.0, INF], [0.0, -0.0, -INF, 3.5]])
PLAIN = f(2, 4)


@case(PLAIN, ODD)
def nan_through_activations(a):
    return (F.relu(a), F.relu6(a), F.leaky_relu(a), F.hardtanh(a), a.clamp(-1, 1), a.clamp(min=0.5), torch.sigmoid(a),
            torch.tanh(a), F.elu(a), a.abs(), -a, a * 0, a.floor(), a.ceil(), a.log(), a.exp(), a**2)


@case(PLAIN, torch.where(ODD.isinf(), 2.0, ODD))
def nan_through_soft_activations(a):
    return F.gelu(a), F.gelu(a, approximate="tanh"), F.silu(a), F.hardswish(a), F.hardsigmoid(a), a.sqrt()


@case(PLAIN, ODD)
def nan_in_comparisons(a):
    return (a == a, a != a, a < 1, a >= 1, a.isnan(), a.isinf(), torch.where(a > 0, a, 7.0), torch.where(a.isnan(), 0.0, a),
            torch.nan_to_num(a, 1.0, 2.0, -2.0), a.isfinite())


@case(PLAIN, ODD)
def nan_in_reductions(a):
    return a.sum(1), a.mean(0), a.amax(1), a.amin(0), a.argmax(1), a.argmin(1), a.max(1)[0], a.softmax(1)


@case((PLAIN, f(2, 4)), (ODD, f(2, 4)), (PLAIN, ODD), (ODD, ODD.flip(1)))
def nan_in_pairs(a, b):
    return a + b, a - b, a * b, torch.maximum(a, b), torch.minimum(a, b), a / b, torch.max(a, b)


@case(PLAIN, ODD)
def nan_in_linear_and_norm(a, w=f(3, 4)):
    return F.linear(a, w), F.layer_norm(a, (4,)), a @ w.t()


@case(f(1, 2, 4, 4), torch.where(torch.arange(32).reshape(1, 2, 4, 4) == 5, NAN, f(1, 2, 4, 4)))
def nan_in_images(a, w=f(3, 2, 3, 3)):
    """Pools with a window are the runtime's: its max pooling passes over NaN."""
    return F.adaptive_avg_pool2d(a, 1), F.interpolate(a, scale_factor=2), F.conv2d(a, w, padding=1), F.pad(a, (1, 1)), a.mean((2, 3))


@case(torch.tensor([[1e20, 3e10, -3e20, 1e-40]]), torch.tensor([[-1e20, 88.0, 89.0, -104.0]]))
def very_large_and_very_small(a):
    return a.exp(), a * 2, a.softmax(-1), a.sigmoid(), a.tanh(), (a * 1e-30).square(), a.log_softmax(-1)


# --- nothing: batches of none and sizes of zero


@case((f(0, 4), f(3, 4)))
def empty_batch(a, b):
    return F.linear(a, b), F.relu(a), F.layer_norm(a, (4,)), a.softmax(1), a + 1, torch.cat([a, b]), a.sum(1), a.reshape(0, 2, 2)


@case((f(0, 3, 5, 5), f(4, 3, 3, 3)))
def empty_batch_of_images(a, b):
    return F.conv2d(a, b), F.max_pool2d(a, 2), a.mean((2, 3)), F.relu(a).permute(0, 2, 3, 1)


@case((f(2, 0), f(0, 3)))
def sum_over_nothing(a, b):
    return a @ b, a.sum(1), a.sum(), a.mean(1), torch.cat([a, a], 1), a.prod(1), (a > 0).all(1), (a > 0).any()


@case((f(5, 4), torch.zeros(0, dtype=torch.int64)))
def lookup_of_nothing(a, b):
    return F.embedding(b, a), a[b], a.index_select(0, b), a[2:2], a[:, 4:], a.narrow(0, 5, 0)


@case((f(2, 3), f(0, 3)))
def concatenation_with_nothing(a, b):
    return torch.cat([b, a, b]), torch.cat([a[:0], a]), torch.cat([a[:, :0], a, a], 1) * 2


@case(f(2, 3, 0, 4))
def heads_without_rows(a):
    return F.scaled_dot_product_attention(a, a, a), a.transpose(2, 3) * 2, a.flatten(2)


# --- images of odd sizes

IMAGE = f(1, 3, 7, 11)
for stride in (1, 2, 3):
    @case(IMAGE)
    def odd_images(a, w=f(4, 3, 3, 5), s=stride):
        return (F.conv2d(a, w, stride=s), F.conv2d(a, w, stride=s, padding=(1, 2), dilation=(2, 1)), F.max_pool2d(a, 3, s),
                F.avg_pool2d(a, (3, 2), s, padding=(1, 0)), F.max_pool2d(a, 3, s, padding=1, ceil_mode=True),
                F.avg_pool2d(a, 3, s, padding=1, count_include_pad=False), F.avg_pool2d(a, 3, s, ceil_mode=True))
    CASES[f"odd_images_{stride}"] = CASES.pop("odd_images")

for size in (1, 2, 3, 5, (4, 7), (7, 11), (9, 2)):
    @case(IMAGE)
    def adaptive(a, size=size):
        return F.adaptive_avg_pool2d(a, size), F.adaptive_avg_pool2d(a * 2, (size[0] if isinstance(size, tuple) else size, None))
    CASES[f"adaptive_pool_{size}"] = CASES.pop("adaptive")


@case(IMAGE)
def convolutions_in_groups(a, w=f(6, 1, 3, 3), v=f(9, 3, 1, 1), u=f(3, 1, 2, 2)):
    return (F.conv2d(a, w, groups=3), F.conv2d(a, v), F.conv2d(a, u, groups=3, stride=2), F.conv2d(a, w, groups=3, padding="same"),
            F.conv2d(a, u, groups=3, padding="same"), F.conv2d(a, v, padding=1))


@case(f(1, 4, 5, 3))
def transposed_convolutions(a, w=f(4, 3, 3, 3), v=f(4, 2, 2, 2)):
    return (F.conv_transpose2d(a, w), F.conv_transpose2d(a, w, stride=2, padding=1, output_padding=1),
            F.conv_transpose2d(a, v, stride=2), F.conv_transpose2d(a, v[:, :1], groups=4), F.conv_transpose2d(a, v, dilation=2))


@case(f(2, 3, 9))
def signals(a, w=f(4, 3, 3)):
    return F.conv1d(a, w), F.conv1d(a, w, padding=2, stride=2), F.max_pool1d(a, 2), F.avg_pool1d(a, 3), F.adaptive_avg_pool1d(a, 2)


@case(IMAGE)
def paddings(a):
    return (F.pad(a, (1, 2)), F.pad(a, (0, 0, 1, 0), value=3.0), F.pad(a, (-1, 1, 0, -2)), F.pad(a, (0, 0, 0, 0, 1, 1)),
            F.pad(a, (2, 1, 1, 2), mode="reflect"), F.pad(a, (2, 1, 1, 2), mode="replicate"), F.pad(a, (-1, -1)))


for name, rule in {"nearest": {}, "bilinear": {"align_corners": False}, "corners": {"align_corners": True}}.items():
    @case(IMAGE, f(1, 3, 7, 11) * 100)
    def enlarged(a, mode="nearest" if name == "nearest" else "bilinear", rule=rule):
        def to(**how):
            return F.interpolate(a, mode=mode, **how, **rule)
        return (to(scale_factor=3), to(scale_factor=5), to(scale_factor=(1, 3)), to(scale_factor=1.5), to(scale_factor=0.7),
                to(size=(13, 5)), to(size=(1, 1)), to(size=(7, 11)), to(size=(1, 23)))
    CASES[f"enlarged_{name}"] = CASES.pop("enlarged")


@case(f(1, 1, 1, 1))
def image_of_one_pixel(a, w=f(2, 1, 3, 3)):
    return F.conv2d(a, w, padding=1), F.max_pool2d(a, 1), F.interpolate(a, size=(3, 2), mode="bilinear"), F.adaptive_avg_pool2d(a, 1)


@case(f(1, 3, 6, 6).contiguous(memory_format=torch.channels_last))
def channels_last_image(a, w=f(4, 3, 3, 3).contiguous(memory_format=torch.channels_last)):
    return F.conv2d(a, w), a + 1, a.mean((2, 3)), a.reshape(1, 3, 36)


@case(f(2, 8, 5, 3))
def norms_of_images(a, w=f(8), b=f(8)):
    return (F.group_norm(a, 2, w, b), F.group_norm(a, 8), F.instance_norm(a), F.batch_norm(a, w, w.abs() + 1, b, w),
            F.layer_norm(a, (5, 3)), F.normalize(a, dim=1))


@case(f(1, 8, 3, 5))
def shuffles(a):
    return F.pixel_shuffle(a, 2), F.pixel_unshuffle(a[:, :, :2, :4], 2), F.channel_shuffle(a, 4), a.flip(2), a.roll(1, 3), a.transpose(2, 3).flip(3)


# --- sizes that vary, at their bounds and between


@case(*[f(n, 4) for n in (4, 3, 9)], dynamic=({0: Dim("n", min=3, max=9)},))
def batch(a, w=f(5, 4)):
    return F.linear(a, w), a.mean(0), a.softmax(0), a.reshape(-1), a.t(), a.sum(), a[-1], a[1:], a + torch.arange(a.shape[0])[:, None]


@case(*[f(n, 3, 6, 5) for n in (3, 1, 9)], dynamic=({0: N},))
def batch_of_images(a, w=f(4, 3, 3, 3)):
    y = F.relu(F.conv2d(a, w, padding=1))
    return y, F.adaptive_avg_pool2d(y, 1).flatten(1), F.max_pool2d(y, 2), F.interpolate(y, scale_factor=2, mode="bilinear")


@case(*[f(1, n, 8) for n in (3, 1, 9)], dynamic=({1: N},))
def length_of_attention(a, w=f(24, 8)):
    q, k, v = F.linear(a, w).reshape(1, -1, 3, 2, 4).permute(2, 0, 3, 1, 4).unbind(0)
    y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    return y.transpose(1, 2).reshape(1, a.shape[1], 8), F.scaled_dot_product_attention(q, k, v)


@case(*[(f(n, m), f(m, n)) for n, m in ((3, 4), (1, 2), (9, 6), (1, 6), (9, 2))], dynamic=({0: N, 1: M}, {0: M, 1: N}))
def two_sizes(a, b):
    return a @ b, a + b.t(), torch.cat([a, a], 1), a[:, None] * b.t()[None], torch.cat([a.reshape(-1), b.reshape(-1)]), a.sum(1)


@case(*[f(2 * n, 3) for n in (3, 2, 9)], dynamic=({0: 2 * TWO},))
def even_size(a):
    return a[::2], a.reshape(a.shape[0] // 2, 6), a[: a.shape[0] // 2], a.reshape(2, -1, 3).sum(0), a.chunk(2)[1]


@case(*[(f(n), f(n + 1)) for n in (3, 2, 9)], dynamic=({0: TWO}, {0: TWO + 1}))
def sizes_one_apart(a, b):
    return a + b[1:], b[:-1] * a, torch.cat([a, b]), torch.outer(a, b), b[:1] + a


@case(*[i(n, high=7) for n in (4, 1, 9)], dynamic=({0: N},))
def positions(a, table=f(9, 3), words=f(7, 3)):
    at = torch.arange(a.shape[0])
    return words[a] + table[at], table[: a.shape[0]], (at[:, None] >= at[None]).float(), torch.ones(a.shape[0], 2), a.shape[0] * a


# --- element types


@case((i(2, 3), f(2, 3)))
def integers_with_floats(a, b):
    return (a + b, a * 2.5, a / 2, a > b, torch.where(a > 2, a, b), a.float() @ b.t(), torch.cat([a, b]), a.double() + b, b.long(),
            a.int() + a, a.bool() & (b > 0), b + (a > 1), a**2, b**a, a.half().float())


@case((i(6, low=-7, high=8), torch.tensor([3, -3, 2, -2, 1, 7])))
def integer_divisions(a, b):
    return (a // b, a % b, torch.div(a, b, rounding_mode="trunc"), torch.div(a, b, rounding_mode="floor"), torch.fmod(a, b), a / b,
            a // 3, a // -3, a % 3, a % -3, torch.remainder(a, 5), 7 // b, 7 % b, a.int() // b.int(), a.int() % b.int())


@case((f(6) * 4, f(6)), (torch.tensor([5.0, -5.0, 2.0, 7.5, -7.5, 1.0]), torch.tensor([0.0, 0.0, INF, -2.5, 2.5, INF])))
def float_divisions(a, b):
    return (a / b, torch.div(a, b, rounding_mode="trunc"), torch.div(a, b, rounding_mode="floor"), torch.fmod(a, b), a % 2.5, a // 2,
            torch.remainder(a, -1.5), 1 / b)


@case((torch.tensor([2**31 - 1, -(2**31), 2**40, -1]), torch.tensor([1, -1, 3, 5])))
def integers_beyond_32_bits(a, b):
    return a + b, a * b, a - 1, a > 2**31, a.eq(2**40), a // 3, a & 255, a.float(), torch.maximum(a, b), a.sum()


@case(torch.tensor([2**31 - 1, -(2**31), 5, -7], dtype=torch.int32))
def integers_that_wrap(a):
    return a + 1, a - 1, a * 3, a.long() + 1, -a, a.to(torch.int8), a.to(torch.uint8), a.abs()


@case((i(2, 4, low=0, high=250, dtype=torch.uint8), i(2, 4, low=-100, high=100, dtype=torch.int8)))
def bytes_of_both_signs(a, b):
    return a + b, a.float() / 255, a + a, b * b, a.int() - b, a > b, torch.cat([a, a]), b.float().softmax(1), (a ^ 3), b // 2


@case((f(2, 3) > 0, f(2, 3) > 0))
def truth_values(a, b):
    return (a & b, a | b, ~a, a ^ b, a == b, a.float(), a.sum(), a.any(1), a.all(0), a + b, a * b, torch.where(a, 1, 2),
            torch.where(a, 1.5, -1.0), a.int().cumsum(1), a.logical_not())


@case(f(2, 4).double())
def double_precision(a, w=f(3, 4).double()):
    return F.linear(a, w), a.softmax(1), a.float(), F.relu(a), a.exp(), a + torch.ones(4), a.mean()


@case(f(3, 4).half(), tolerance=2e-3)
def half_precision(a, w=f(2, 4).half()):
    return a + 1, F.linear(a, w), a.softmax(1), a.float(), F.relu(a), a.sum(1), a * a


@case(i(2, 3))
def reductions_of_integers(a):
    return a.sum(), a.sum(1), a.amax(0), a.argmax(1), a.float().mean(1), a.max(), a.min(1)[0], a.cumsum(1), a.prod(1), a.any(0)


@case((i(3, high=4), f(4, 2)))
def indices_of_every_kind(a, b):
    return (b[a], b[a.int()], b[:, 1], b[-1], b[[0, 2]], b[torch.tensor([3, -1])], b.index_select(0, a), F.embedding(a, b),
            b.gather(0, a[:, None]), F.one_hot(a, 4), b[a, a % 2], b[None, :, None])


@case(f(3, 5))
def order_statistics(a):
    return a.topk(2, 1)[0], a.topk(2, 1)[1], a.max(1)[1], a.amin(), a.argmax(), a.argmax(1, keepdim=True), torch.zeros(3, 5).argmax(1)


# --- broadcasting, ranks, slices


@case((f(8, 1, 6, 1), f(7, 1, 5)))
def wide_broadcasts(a, b):
    return a + b, a * b, torch.maximum(a, b), torch.where(a > 0, a, b), a - b, a == b, a / (b.abs() + 1)


@case((f(2, 1, 3, 4), f(5, 4, 6)))
def matmul_broadcasts(a, b, v=f(6)):
    return a @ b, a[0, 0] @ b, a @ b[0], a[0, 0, 0] @ b, b @ v, a @ b[:, :, 0].t()


@case(f(1, 2, 1, 3, 1, 2))
def rank_of_six(a):
    return a + 1, a.permute(5, 3, 1, 0, 2, 4), a.sum((1, 3)), a.softmax(3), a.expand(2, 2, 2, 3, 2, 2), a.squeeze(), a.reshape(12)


@case(f(1, 2, 1, 2, 1, 2, 2, 1))
def rank_of_eight(a):
    return a + 1, F.relu(a), a.permute(7, 6, 5, 4, 3, 2, 1, 0), a.sum(3), a * a.flip(1), a.mean((1, 6)), a.transpose(1, 6) + a[..., :1]


@case((torch.tensor(2.5), f(3)))
def numbers_of_rank_zero(a, b):
    return a + 1, a * b, b.sum() * a, torch.relu(a), a[None] + b, torch.cat([a[None], b]), a.expand(3, 1), b.mean(), a > b


@case(f(4))
def vectors(a, w=f(3, 4), b=f(3)):
    return F.linear(a, w, b), a @ a, w @ a, a.softmax(0), F.layer_norm(a, (4,)), a[:, None] * a, torch.outer(a, b)


@case(f(6, 7))
def slices(a):
    return (a[::2], a[1::3, ::4], a[-3:-1], a[:100], a[4:2], a[..., -1], a[2:5, 3], a[:, None], a[-100:], a.narrow(1, 2, 3), a[5], a[0:1],
            a[:, [1, 1, 0]], a.select(1, -2), a[0])


@case(f(6, 7))
def parts(a):
    return (*a.split(4), *a.split([1, 2, 4], 1), *a.chunk(4), *a.unbind(0)[:2], a.unbind(1)[-1], torch.stack(a.chunk(3)[0:2]))


@case(f(2, 3))
def repeats(a):
    return (a.repeat(2, 1), a.repeat(2, 2, 1), a.tile(3), a.expand(4, 2, 3), a.repeat_interleave(2, 0), torch.stack([a, a * 2], 1),
            torch.cat([a, a], -1), a.flip(0), a.flip(0, 1), a.roll(1), a.roll((1, 2), (0, 1)), torch.meshgrid(a[0], a[1], indexing="ij")[1])


@case(f(4, 4))
def triangles(a):
    return a.tril(), a.triu(1), a.tril(-1), a.masked_fill(torch.ones(4, 4, dtype=torch.bool).triu(1), -INF).softmax(-1), a * torch.eye(4)


@case(f(2, 3))
def counting_down(a):
    """Steps below zero where they are constants."""
    return a * torch.arange(6, 0, -2), torch.arange(3, -3, -1) + a[0, 0], a[:, torch.arange(2, -1, -1)], torch.linspace(1, -1, 3) * a


@case((f(2, 3, 4), f(2, 4, 5)))
def products(a, b):
    return (torch.einsum("bij,bjk->bik", a, b), torch.einsum("bij,bjk->kib", a, b), torch.bmm(a, b), torch.baddbmm(a @ b, a, b, alpha=2, beta=0.5),
            torch.addmm(a[0] @ b[0], a[0], b[0], beta=2), a.square().sum(-1).sqrt(), a.norm(dim=2))


@case(f(3, 4))
def statistics(a):
    return (a.var(1), a.var(1, unbiased=False), a.std(0), a.logsumexp(1), a.log_softmax(0), a.cumsum(0), a.sum(), F.normalize(a), a.mean((0, 1), keepdim=True), torch.linalg.vector_norm(a, dim=1))


@case(f(2, 3, 4))
def layer_norms(a, w=f(4), b=f(4)):
    return (F.layer_norm(a, (4,), w, b, 1e-12), F.layer_norm(a, (3, 4)), F.layer_norm(a * 0, (4,), w, b), F.rms_norm(a, (4,), w, 1e-6),
            F.layer_norm(a, (4,), w), (a - a.mean(-1, keepdim=True)) / (a.var(-1, keepdim=True, unbiased=False) + 1e-5).sqrt())


# --- inputs and outputs

CONSTANT = f(2, 3)


@case((f(2, 3), f(2, 3)))
def same_output_twice(a, b):
    y = a + b
    return y, y, y * 2, y


@case((f(2, 3), f(2, 3)))
def input_as_output(a, b):
    return a, b + 1, a, b


@case((f(2, 3), f(4)))
def unused_input(a, b):
    return a * 2


@case((f(2, 3), f(4)))
def nothing_but_inputs(a, b):
    return b, a


@case(f(2, 3))
def constants_as_outputs(a, c=CONSTANT):
    return c, a + c, c * 2, torch.arange(3), torch.full((2, 2), 7.0), c[0], c


@case(f(2, 3))
def views_of_the_input_as_outputs(a):
    return a.reshape(6), a.t(), a[0], a[:, 1:], a.reshape(3, 2) + 1, a.expand(2, 2, 3), a.unsqueeze(0)


@case(f(2, 3))
def outputs_that_are_used_on(a):
    y = F.relu(a)
    z = y * 2
    return y, z, z.reshape(3, 2), z + y, y.t()


@case(f(2, 3))
def named_outputs(a):
    return {"first": a + 1, "nested": {"x": a * 2, "list": [a.sum(), a]}, "again": a + 1}


@case((f(2, 3), f(2, 3)))
def written_copy_of_the_input(a, b):
    c = a.clone()
    c[0] = b[1]
    c[:, 1] += 1
    c.mul_(2)
    return c, a + c, c.t()


@case(f(2, 3))
class TiedWeights(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(3, 3, bias=False), nn.Linear(3, 3, bias=False)
        self.second.weight = self.first.weight

    def forward(self, a):
        return self.second(F.relu(self.first(a))), self.first.weight[0] + a, self.first.weight.t()


@case((i(2, 3, high=5), f(2, 4)))
class TiedTable(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(5, 4)

    def forward(self, a, b):
        return self.table(a) @ self.table.weight.t(), b @ self.table.weight.t(), F.linear(b, self.table.weight)


@case(f(2, 5, 3), tolerance=2e-5)
class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(3, 4, 2, batch_first=True, bidirectional=True)

    def forward(self, a):
        y, (h, c) = self.lstm(a)
        return y, h, c


# --- what cannot be lowered says so in one line


@refused("aten.nonzero.default", f(4))
def sizes_that_depend_on_data(a):
    return a.nonzero()


@refused("2 operators are not supported: aten.rot90.default (1 node), aten.unfold.default (2 nodes)", f(4, 4))
def unknown_operators_are_named_at_once(a):
    return a.rot90() + 1, a.unfold(0, 2, 1), a.unfold(1, 2, 2)


@refused("enlarging the dynamic size", f(1, 2, 4, 4), dynamic=({2: N},))
def enlarging_a_dynamic_size_by_a_factor(a):
    return F.interpolate(a, scale_factor=2)


@refused("batch norm in training mode", f(2, 3, 4, 4))
def batch_norm_in_training(a):
    return F.batch_norm(a, torch.zeros(3), torch.ones(3), training=True)


@refused("complex", torch.randn(4, dtype=torch.complex64))
def complex_numbers(a):
    return a * 2


def expected_of(module, inputs):
    with torch.no_grad():
        return [v if isinstance(v, torch.Tensor) else torch.tensor(v) for v in as_list(module(*(v.clone() for v in inputs.values())))]


@pytest.mark.parametrize("name", CASES)
def test_corner(name, downhaul, stock_runtime, tmp_path):
    c = CASES[name]
    paths = Paths(downhaul, stock_runtime, tmp_path, c.module, c.sets[0], dynamic=c.dynamic, **c.more)
    failures = []
    for number, inputs in enumerate(c.sets):
        try:
            paths.check(inputs, expected_of(c.module, inputs), tolerance=c.tolerance)
        except AssertionError as e:
            failures.append(f"inputs {number}: {e}")
    assert not failures, "\n".join(failures)


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name, downhaul, tmp_path):
    c, message = REFUSED[name]
    program = torch.export.export(c.module, tuple(c.sets[0].values()), dynamic_shapes=c.dynamic)
    torch.export.save(program, tmp_path / "model.pt2")
    for backend in ("portable", "xnnpack"):
        said = downhaul.refuse("lower", tmp_path / "model.pt2", "--backend", backend, "--out", tmp_path)
        assert message in said and said.count("\n") == 1, said
