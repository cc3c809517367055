"""Writes src/ops/op_cases.dh: for every operator small graphs with the values that torch gives.

usage: make_op_cases.py OUTPUT

Each graph applies one operator to constants and returns its results, each followed by what is
expected. The tests of src/ops read the file; run this again when an operator is added.
"""

import sys

import numpy as np
import torch
import torch.nn.functional as F

DTYPES = {
    "bool": torch.bool, "u8": torch.uint8, "i8": torch.int8, "i16": torch.int16,
    "i32": torch.int32, "i64": torch.int64, "f16": torch.float16, "bf16": torch.bfloat16,
    "f32": torch.float32, "f64": torch.float64,
}
NAMES = {v: k for k, v in DTYPES.items()}


class Cases:
    """Collects the text of all graphs."""

    def __init__(self):
        self.text = []
        self.count = {}
        self.seed = 0

    def tensor(self, *sizes, dtype="f32", low=-3.0, high=3.0):
        """Multiples of 1/8 (short to write, exact in every float), or integers."""
        self.seed += 1
        g = torch.Generator().manual_seed(self.seed)
        if dtype == "bool":
            return torch.randint(0, 2, sizes, generator=g).bool()
        if dtype[0] in "iu":
            low = 0 if dtype == "u8" and low < 0 else low
            return torch.randint(int(low), int(high) + 1, sizes, generator=g).to(DTYPES[dtype])
        return (torch.randint(int(low * 8), int(high * 8) + 1, sizes, generator=g) / 8).to(
            DTYPES[dtype])

    def add(self, op, operands, attrs, *expected):
        """operands: tensors or None, in the order of the schema; attrs: text by name."""
        number = self.count.get(op, 0)
        self.count[op] = number + 1
        lines = [f"graph {op}.{number} {{"]
        names = []
        for i, t in enumerate(operands):
            if t is None:
                names.append("none")
                continue
            lines.append(f"  const %a{i}: {declare(t)}")
            names.append(f"%a{i}")
        names += [f"{k}={show(v)}" for k, v in attrs.items()]
        results = ", ".join(f"%y{i}: {kind(e)}" for i, e in enumerate(expected))
        lines.append(f"  {results} = {op}({', '.join(names)})")
        for i, e in enumerate(expected):
            lines.append(f"  const %e{i}: {declare(e)}")
        lines.append("  return " + ", ".join(f"%y{i}, %e{i}" for i in range(len(expected))))
        lines.append("}")
        self.text.append("\n".join(lines))


def kind(t):
    return f"{NAMES[t.dtype]}[{','.join(str(s) for s in t.shape)}]"


def number(v):
    if isinstance(v, (bool, np.bool_)):
        return str(int(v))
    if isinstance(v, (int, np.integer)):
        return str(v)
    if np.isnan(v):
        return "nan"
    if np.isinf(v):
        return "inf" if v > 0 else "-inf"
    text = str(v)
    return text[:-2] if text.endswith(".0") else text


def declare(t):
    flat = t.detach().contiguous().reshape(-1)
    if t.dtype == torch.bfloat16:
        flat = flat.float()
    return f"{kind(t)} = [{', '.join(number(v) for v in flat.numpy())}]"


def show(v):
    if isinstance(v, bool):
        return "true" if v else "false"
    if isinstance(v, str):
        return v if v in DTYPES else f'"{v}"'
    if isinstance(v, (list, tuple)):
        return "[" + ",".join(str(x) for x in v) + "]"
    return str(v)


SPECIAL = [float("nan"), float("inf"), float("-inf"), 0.0, 0.5, 1.5, 2.5, -0.5, -1.5, -2.5]


def unary(c):
    special = torch.tensor(SPECIAL)
    x = c.tensor(3, 5)
    for op in ["ceil", "floor", "round", "trunc", "abs", "sign", "neg"]:
        f = getattr(torch, op)
        c.add(op, [x], {}, f(x))
        c.add(op, [special], {}, f(special))
        i = c.tensor(6, dtype="i32")
        c.add(op, [i], {}, f(i))
    for op in ["isinf", "isnan", "logical_not"]:
        c.add(op, [special], {}, getattr(torch, op)(special))
        i = c.tensor(2, 3, dtype="i64", low=-1, high=1)
        c.add(op, [i], {}, getattr(torch, op)(i))
    for dtype in ["bool", "u8", "i64"]:
        t = c.tensor(5, dtype=dtype)
        c.add("bitwise_not", [t], {}, torch.bitwise_not(t))
    for op in ["cos", "erf", "exp", "expm1", "sin", "tanh"]:
        c.add(op, [x], {}, getattr(torch, op)(x))
        h = c.tensor(4, dtype="bf16")
        c.add(op, [h], {}, getattr(torch, op)(h))
    positive = c.tensor(3, 4, low=0.125, high=6)
    for op in ["log", "log1p", "reciprocal", "rsqrt", "sqrt"]:
        c.add(op, [positive], {}, getattr(torch, op)(positive))
        h = c.tensor(4, dtype="f16", low=0.125)
        c.add(op, [h], {}, getattr(torch, op)(h))
    c.add("log", [special], {}, torch.log(special))


def activations(c):
    x = torch.arange(-40, 41, 5) / 8
    c.add("clamp", [x], {"min": 0.0}, F.relu(x))
    c.add("clamp", [x], {"min": 0.0, "max": 6.0}, F.relu6(x))
    c.add("clamp", [x], {"max": -1.5}, torch.clamp(x, max=-1.5))
    c.add("clamp", [torch.tensor(SPECIAL)], {"min": -1.0, "max": 2.0},
          torch.clamp(torch.tensor(SPECIAL), -1, 2))
    c.add("clamp", [x], {"min": 2.0, "max": 1.0}, torch.clamp(x, 2, 1))
    i = c.tensor(7, dtype="i64", low=-9, high=9)
    c.add("clamp", [i], {"min": -2.0, "max": 3.0}, torch.clamp(i, -2, 3))
    c.add("elu", [x], {}, F.elu(x))
    c.add("elu", [x], {"alpha": 0.5}, F.elu(x, 0.5))
    c.add("gelu", [x], {}, F.gelu(x))
    c.add("gelu", [x], {"approximate": "tanh"}, F.gelu(x, approximate="tanh"))
    c.add("gelu", [x.half()], {}, F.gelu(x.half()))
    c.add("hardsigmoid", [x], {}, F.hardsigmoid(x))
    c.add("hardswish", [x], {}, F.hardswish(x))
    c.add("leaky_relu", [x], {}, F.leaky_relu(x))
    c.add("leaky_relu", [x], {"negative_slope": 0.25}, F.leaky_relu(x, 0.25))
    c.add("mish", [x], {}, F.mish(x))
    p = c.tensor(2, 3, 2)
    w = c.tensor(3)
    c.add("prelu", [p, w], {}, F.prelu(p, w))
    c.add("prelu", [p, w[:1]], {}, F.prelu(p, w[:1]))
    c.add("sigmoid", [x], {}, torch.sigmoid(x))
    c.add("silu", [x], {}, F.silu(x))
    c.add("softplus", [x], {}, F.softplus(x))
    c.add("softplus", [x], {"beta": 2.0, "threshold": 3.0}, F.softplus(x, 2.0, 3.0))


def binary(c):
    a, b = c.tensor(2, 1, 3), c.tensor(4, 3)
    b[b == 0] = 0.5
    i, j = c.tensor(2, 3, dtype="i64", low=-7, high=7), c.tensor(2, 3, dtype="i64", low=1, high=4)
    j[0] = -j[0]
    p, q = c.tensor(3, 2, dtype="bool"), c.tensor(1, 2, dtype="bool")
    scalar = torch.tensor(1.5)
    for op in ["add", "sub", "mul", "maximum", "minimum", "floor_divide", "fmod", "remainder"]:
        f = getattr(torch, op)
        c.add(op, [a, b], {}, f(a, b))
        c.add(op, [b, a[:, :, :1] + 0.0625], {}, f(b, a[:, :, :1] + 0.0625))
        c.add(op, [i, j], {}, f(i, j))
        c.add(op, [b, scalar], {}, f(b, scalar))
        c.add(op, [scalar, b], {}, f(scalar, b))
    for op in ["add", "mul", "maximum", "minimum"]:
        c.add(op, [p, q], {}, getattr(torch, op)(p, q))
    n = torch.tensor(SPECIAL)
    for op in ["maximum", "minimum", "floor_divide", "remainder", "fmod", "div"]:
        c.add(op, [n, n.flip(0)], {}, getattr(torch, op)(n, n.flip(0)))
    low = torch.tensor([-128, 127, -128], dtype=torch.int8)
    c.add("add", [low, low], {}, low + low)
    c.add("mul", [low, low], {}, low * low)
    c.add("div", [a, b], {}, a / b)
    h = c.tensor(3, 4, dtype="f16")
    c.add("mul", [h, h + 1], {}, h * (h + 1))
    c.add("add", [h.bfloat16(), h.bfloat16() * 3], {}, h.bfloat16() + h.bfloat16() * 3)
    base = c.tensor(3, 4, low=0.25)
    c.add("pow", [base, a[:1, 0, :1]], {}, torch.pow(base, a[:1, 0, :1]))
    c.add("pow", [a, torch.tensor(3.0)], {}, torch.pow(a, 3.0))
    c.add("pow", [i, j.abs()], {}, torch.pow(i, j.abs()))
    for op in ["eq", "ne", "lt", "le", "gt", "ge"]:
        f = getattr(torch, op)
        x, y = c.tensor(3, 4, low=-1, high=1), c.tensor(4, low=-1, high=1)
        c.add(op, [x, y], {}, f(x, y))
        c.add(op, [i, j], {}, f(i, j))
        c.add(op, [n, n], {}, f(n, n))
        c.add(op, [p, q], {}, f(p, q))
    for op in ["logical_and", "logical_or", "logical_xor"]:
        f = getattr(torch, op)
        z = c.tensor(2, 3, dtype="i64", low=-1, high=1)
        c.add(op, [p, q], {}, f(p, q))
        c.add(op, [i, z], {}, f(i, z))
    for op in ["bitwise_and", "bitwise_or", "bitwise_xor"]:
        f = getattr(torch, op)
        c.add(op, [p, q], {}, f(p, q))
        c.add(op, [i, j], {}, f(i, j))
    cond = c.tensor(4, 1, dtype="bool")
    c.add("where", [cond, a, b[0]], {}, torch.where(cond, a, b[0]))
    c.add("where", [cond, i[:1], j[1]], {}, torch.where(cond, i[:1], j[1]))


def types_and_creation(c):
    x = torch.tensor([-2.75, -0.5, 0.0, 0.5, 1.0, 2.75, 100.0])
    for dtype in DTYPES:
        if dtype in ("u8", "i8"):
            y = x.clamp(0, 100)
        else:
            y = x
        c.add("cast", [y], {"dtype": dtype}, y.to(DTYPES[dtype]))
    i = c.tensor(5, dtype="i64", low=-300, high=300)
    for dtype in ["bool", "u8", "i32", "f16", "f32"]:
        c.add("cast", [i], {"dtype": dtype}, i.to(DTYPES[dtype]))
    c.add("arange", [], {"start": 2, "end": 11, "step": 3}, torch.arange(2, 11, 3))
    c.add("arange", [], {"start": 5, "end": -2, "step": -2}, torch.arange(5, -2, -2))
    c.add("arange", [], {"start": 0, "end": 4, "dtype": "f32"},
          torch.arange(0, 4, dtype=torch.float32))
    c.add("arange", [], {"start": 3, "end": 3}, torch.arange(3, 3))
    c.add("dim_scalar", [], {"value": 7}, torch.tensor(7))
    c.add("full", [], {"size": [2, 3], "value": 1.5, "dtype": "f32"}, torch.full((2, 3), 1.5))
    c.add("full", [], {"size": [], "value": -4.0, "dtype": "i64"}, torch.tensor(-4))


def shapes(c):
    x = c.tensor(2, 3, 4)
    i = c.tensor(2, 3, 4, dtype="i64")
    c.add("concat", [x, x[:, :1], c_second := x[:, 1:] * 2], {"dim": 1},
          torch.cat([x, x[:, :1], c_second], 1))
    c.add("concat", [i, i + 1], {"dim": -1}, torch.cat([i, i + 1], -1))
    c.add("expand", [x[:, :1]], {"size": [5, 2, 3, 4]}, x[:, :1].expand(5, 2, 3, 4))
    c.add("expand", [torch.tensor(2.5)], {"size": [2, 2]}, torch.full((2, 2), 2.5))
    c.add("flip", [x], {"dims": [0, 2]}, x.flip(0, 2))
    c.add("pad", [x], {"before": [0, 1, 2], "after": [0, 0, 1], "value": 7.5},
          F.pad(x, (2, 1, 1, 0), value=7.5))
    c.add("pad", [x], {"before": [0, 0, -1], "after": [0, -1, 2]}, F.pad(x, (-1, 2, 0, -1)))
    c.add("pad", [x], {"before": [0, 0, 3], "after": [0, 0, 2], "mode": "reflect"},
          F.pad(x, (3, 2), mode="reflect"))
    y = x[None]
    c.add("pad", [y], {"before": [0, 0, 2, 1], "after": [0, 0, 1, 3], "mode": "reflect"},
          F.pad(y, (1, 3, 2, 1), mode="reflect"))
    c.add("pad", [y], {"before": [0, 0, 2, 1], "after": [0, 0, 0, 5], "mode": "replicate"},
          F.pad(y, (1, 5, 2, 0), mode="replicate"))
    c.add("permute", [x], {"dims": [2, 0, 1]}, x.permute(2, 0, 1))
    c.add("permute", [i], {"dims": [0, 2, 1]}, i.permute(0, 2, 1))
    s = c.tensor(1, 8, 2, 3)
    c.add("pixel_shuffle", [s], {"factor": 2}, F.pixel_shuffle(s, 2))
    u = c.tensor(2, 2, 4, 6)
    c.add("pixel_unshuffle", [u], {"factor": 2}, F.pixel_unshuffle(u, 2))
    c.add("repeat", [x[:, :2, :2]], {"repeats": [2, 1, 3]}, x[:, :2, :2].repeat(2, 1, 3))
    c.add("repeat", [x[0]], {"repeats": [2, 1, 1]}, x[0].repeat(2, 1, 1))
    c.add("reshape", [x], {"shape": [2, 12]}, x.reshape(2, 12))
    c.add("reshape", [x], {"shape": [2, 1, 3, 2, 2]}, x.reshape(2, 1, 3, 2, 2))
    c.add("reshape", [x[:1, :1, :1]], {"shape": []}, x[:1, :1, :1].reshape(()))
    c.add("roll", [x], {"shifts": [1, -2], "dims": [1, 2]}, x.roll((1, -2), (1, 2)))
    c.add("slice", [x], {"dim": -1, "start": 1, "end": 4, "step": 2}, x[:, :, 1:4:2])
    c.add("slice", [i], {"dim": 0, "start": 1, "end": 1}, i[1:1])
    c.add("slice_scatter", [x, x[:, :2] * 2], {"dim": 1, "start": 0, "end": 3, "step": 2},
          torch.slice_scatter(x, x[:, :2] * 2, 1, 0, 3, 2))
    for d in [-1, 0, 2]:
        c.add("tril", [x], {"diagonal": d}, x.tril(d))
        c.add("triu", [x], {"diagonal": d}, x.triu(d))


def indexing(c):
    w = c.tensor(5, 3)
    ids = torch.tensor([[0, 4], [2, 2]])
    c.add("embedding", [w, ids], {}, F.embedding(ids, w))
    c.add("embedding", [w, ids.int()], {}, F.embedding(ids, w))
    x = c.tensor(3, 4, 2)
    g = c.tensor(3, 3, 2, dtype="i64", low=0, high=3)
    c.add("gather", [x, g], {"dim": 1}, torch.gather(x, 1, g))
    c.add("gather", [x, g[:2]], {"dim": -2}, torch.gather(x, -2, g[:2]))
    k = torch.tensor([3, 0, 3])
    c.add("index_select", [x, k], {"dim": 1}, x.index_select(1, k))
    p, q = torch.tensor([2, -1, 0]), torch.tensor([[0], [3]])
    c.add("index", [x, p], {}, x[p])
    c.add("index", [x, None, q], {}, x[:, q])
    c.add("index", [x, p, q], {}, x[p, q])
    c.add("index", [x, p, None, torch.tensor([1, 0, -2])], {}, x[p, :, torch.tensor([1, 0, -2])])
    c.add("index", [x, None, None, torch.tensor([1, 0, -2])], {}, x[:, :, torch.tensor([1, 0, -2])])
    y = c.tensor(2, 3, 4, 2)
    c.add("index", [y, None, torch.tensor([0, 2]), torch.tensor([-1, 1])], {},
          y[:, torch.tensor([0, 2]), torch.tensor([-1, 1])])
    values = c.tensor(3, 2)
    c.add("index_put", [x, values, torch.tensor([0, 1, 2]), torch.tensor([1, 1, 3])], {},
          x.index_put((torch.tensor([0, 1, 2]), torch.tensor([1, 1, 3])), values))
    c.add("index_put", [x, torch.tensor(9.5), None, torch.tensor([2, -4])], {},
          torch.index_put(x.permute(1, 0, 2), (torch.tensor([2, -4]),),
                          torch.tensor(9.5)).permute(1, 0, 2))
    c.add("index_put", [x, values, torch.tensor([1, 1, -2]), torch.tensor([2, 2, 2])],
          {"accumulate": True},
          x.index_put((torch.tensor([1, 1, -2]), torch.tensor([2, 2, 2])), values, accumulate=True))
    rows = torch.tensor([3, 0, -2])
    c.add("batched_select", [x, rows], {}, x[torch.arange(3), rows][:, None])
    start = torch.tensor(1)
    c.add("read_rows", [x, start], {"dim": 1, "length": 2}, x[:, 1:3])
    c.add("read_rows", [x, start], {"dim": 0, "length": 1, "offset": 1}, x[2:3])
    c.add("write_rows", [x, x[:, :2] + 1, start], {"dim": 1},
          torch.cat([x[:, :1], x[:, :2] + 1, x[:, 3:]], 1))


def reductions(c):
    x = c.tensor(2, 3, 4)
    i = c.tensor(2, 3, dtype="i64")
    for dims, keep in [([1], False), ([0, 2], True), ([0, 1, 2], False)]:
        a = {"dims": dims, "keepdim": keep}
        c.add("amax", [x], a, torch.amax(x, dims, keep))
        c.add("amin", [x], a, torch.amin(x, dims, keep))
        c.add("sum", [x], a, torch.sum(x, dims, keep))
        c.add("mean", [x], a, torch.mean(x, dims, keep))
        c.add("var", [x], a, torch.var(x, dims, keepdim=keep))
        c.add("var", [x], a | {"correction": 0}, torch.var(x, dims, correction=0, keepdim=keep))
    n = torch.tensor([[1.0, float("nan"), 2.0], [4.0, 3.0, 4.0]])
    for op in ["amax", "amin"]:
        c.add(op, [n], {"dims": [1]}, getattr(torch, op)(n, 1))
        c.add(op, [i], {"dims": [0]}, getattr(torch, op)(i, 0))
    b = c.tensor(3, 4, dtype="bool")
    for op in ["all", "any"]:
        c.add(op, [b], {"dims": [1]}, getattr(torch, op)(b, 1))
        c.add(op, [x], {"dims": [0], "keepdim": True}, getattr(torch, op)(x, 0, True))
        c.add(op, [b[:0]], {"dims": [0]}, getattr(torch, op)(b[:0], 0))
    c.add("sum", [i], {"dims": [0]}, i.sum(0))
    c.add("sum", [x[:0]], {"dims": [0]}, x[:0].sum(0))
    h = c.tensor(2, 9, dtype="bf16")
    c.add("sum", [h], {"dims": [1]}, h.float().sum(1).bfloat16())
    c.add("prod", [x], {"dims": [2]}, x.prod(2))
    c.add("prod", [i], {"dims": [1], "keepdim": True}, i.prod(1, True))
    t = torch.tensor([[1.0, 5.0, 5.0, 0.0, 0.0], [2.0, float("nan"), 7.0, float("nan"), 1.0]])
    for op in ["argmax", "argmin"]:
        f = getattr(torch, op)
        c.add(op, [t], {"dim": 1}, f(t, 1))
        c.add(op, [x], {"dim": 0, "keepdim": True}, f(x, 0, True))
        c.add(op, [i], {"dim": -1}, f(i, -1))
    c.add("argmax", [b.long()], {"dim": 1}, b.long().argmax(1))
    c.add("cumsum", [x], {"dim": 1}, x.cumsum(1))
    c.add("cumsum", [i], {"dim": -1}, i.cumsum(-1))
    # Distinct values: torch leaves the order of equal ones open.
    d = torch.randperm(24, generator=torch.Generator().manual_seed(3)).reshape(2, 3, 4) / 8 - 1
    c.add("topk", [d], {"k": 2}, *d.topk(2))
    c.add("topk", [d], {"k": 2, "dim": 1, "largest": False}, *d.topk(2, 1, False))
    v = torch.tensor([1.0, float("nan"), 3.0, 2.0])
    c.add("topk", [v], {"k": 3}, *v.topk(3))
    c.add("topk", [v], {"k": 4, "largest": False}, *v.topk(4, largest=False))
    c.add("topk", [i[0] * 3 + torch.arange(3)], {"k": 1}, *(i[0] * 3 + torch.arange(3)).topk(1))


def products(c):
    x, w, b = c.tensor(2, 3, 5), c.tensor(4, 5), c.tensor(4)
    c.add("linear", [x, w, b], {}, F.linear(x, w, b))
    c.add("linear", [x, w], {}, F.linear(x, w))
    c.add("linear", [x[0, 0], w, b], {}, F.linear(x[0, 0], w, b))
    c.add("linear", [x, w.t(), b], {"weight_transposed": True}, F.linear(x, w, b))
    c.add("linear", [x.bfloat16(), w.bfloat16()], {},
          F.linear(x.bfloat16().float(), w.bfloat16().float()).bfloat16())
    big, wide = c.tensor(1, 300, low=-1, high=1), c.tensor(2, 300, low=-1, high=1)
    c.add("linear", [big, wide], {}, F.linear(big, wide))
    a, m = c.tensor(2, 1, 3, 4), c.tensor(3, 4, 2)
    c.add("matmul", [a, m], {}, a @ m)
    keys, queries = c.tensor(2, 3, 2, 4), c.tensor(2, 4, 2, 5)
    c.add("channel_matmul", [keys, queries], {}, torch.einsum("nchw,nwhu->nchu", keys, queries))
    c.add("matmul", [a.mT, m], {"transpose_self": True}, a @ m)
    c.add("matmul", [a, m.mT], {"transpose_other": True}, a @ m)
    c.add("matmul", [a[0, 0].mT, m[0].mT], {"transpose_self": True, "transpose_other": True},
          a[0, 0] @ m[0])
    q, k, v = c.tensor(2, 3, 4, 6), c.tensor(2, 3, 5, 6), c.tensor(2, 3, 5, 2)
    attend = F.scaled_dot_product_attention
    c.add("attention", [q, k, v], {}, attend(q, k, v))
    c.add("attention", [q, k, v], {"scale": 0.25}, attend(q, k, v, scale=0.25))
    c.add("attention", [q, k, v], {"is_causal": True}, attend(q, k, v, is_causal=True))
    mask = c.tensor(2, 1, 4, 5, dtype="bool")
    mask[0, 0, 1] = False
    c.add("attention", [q, k, v, mask], {}, attend(q, k, v, mask))
    c.add("attention", [q[0], k[0], v[0], mask[1, 0]], {}, attend(q[0], k[0], v[0], mask[1, 0]))
    soft = c.tensor(4, 5)
    soft[2] = float("-inf")
    c.add("attention", [q, k, v, soft], {}, attend(q, k, v, soft))
    c.add("attention", [q, k, v, soft[:1]], {}, attend(q, k, v, soft[:1]))
    # Two tokens at 1 + offset of a buffer whose later keys nobody may see.
    for offset in [0, 1]:
        end = 3 + offset
        seen = torch.tensor([[j <= 1 + offset + i for j in range(end)] for i in range(2)])
        some = [q[..., :2, :], k[..., :end, :], v[..., :end, :]]
        room = [torch.cat([t, torch.full_like(t[..., :2, :], 1e30)], -2) for t in some[1:]]
        c.add("cached_attention", [some[0], *room, None, torch.tensor(1)], {"offset": offset},
              attend(*some, seen))
        bias = torch.tensor([[0.5, -1.0, 2.0, 0.25, 1.0, -2.0]] * 2)[:, :end + 2] * (offset + 1)
        c.add("cached_attention", [some[0], *room, bias, torch.tensor(1)],
              {"offset": offset, "scale": 0.25},
              attend(*some, bias[:, :end].masked_fill(~seen, float("-inf")), scale=0.25))


def images(c):
    def conv(x, w, b, attrs, pad=(0, 0, 0, 0), **kwargs):
        """pad is top, left, bottom, right."""
        padded = F.pad(x, (pad[1], pad[3], pad[0], pad[2]))
        y = F.conv2d(padded, w, b, **kwargs)
        attrs = attrs | ({"padding": list(pad)} if any(pad) else {})
        c.add("conv2d", [x, w, b], attrs, y)
        c.add("conv2d", [x.permute(0, 2, 3, 1), w, b], attrs | {"layout": "nhwc"},
              y.permute(0, 2, 3, 1))

    x = c.tensor(2, 4, 5, 6)
    conv(x, c.tensor(3, 4, 3, 3), c.tensor(3), {})
    conv(x, c.tensor(3, 4, 1, 1), None, {})
    conv(x, c.tensor(4, 2, 3, 2), c.tensor(4), {"groups": 2, "stride": [2, 1]}, (1, 0, 2, 1),
         groups=2, stride=(2, 1))
    conv(x, c.tensor(4, 1, 3, 3), c.tensor(4), {"groups": 4, "stride": [2, 2]}, (1, 1, 1, 1),
         groups=4, stride=2)
    conv(x[:1], c.tensor(8, 1, 2, 3), None, {"groups": 4, "dilation": [2, 1]}, (0, 2, 3, 0),
         groups=4, dilation=(2, 1))
    conv(x[:1], c.tensor(2, 4, 2, 2), c.tensor(2), {"dilation": [3, 2], "stride": [1, 3]},
         (2, 1, 0, 3), dilation=(3, 2), stride=(1, 3))
    # 'same' with an even kernel: the odd row goes to the bottom.
    ones = torch.ones(1, 1, 5, 1)
    conv(ones, torch.ones(1, 1, 4, 1), None, {}, (1, 0, 2, 0))

    t = c.tensor(2, 4, 3, 2)
    w = c.tensor(4, 3, 3, 2)
    y = F.conv_transpose2d(t, w, c_bias := c.tensor(3))
    c.add("conv_transpose2d", [t, w, c_bias], {}, y)
    c.add("conv_transpose2d", [t.permute(0, 2, 3, 1), w, c_bias], {"layout": "nhwc"},
          y.permute(0, 2, 3, 1))
    c.add("conv_transpose2d", [t, w], {"stride": [2, 3], "padding": [1, 0, 1, 0],
                                       "output_padding": [1, 2]},
          F.conv_transpose2d(t, w, None, (2, 3), (1, 0), (1, 2)))
    g = c.tensor(4, 2, 2, 2)
    c.add("conv_transpose2d", [t, g], {"groups": 2, "dilation": [2, 1], "stride": [2, 2]},
          F.conv_transpose2d(t, g, None, 2, 0, 0, 2, (2, 1)))
    c.add("conv_transpose2d", [t, w], {"stride": [2, 2], "padding": [0, 1, 1, 0]},
          F.conv_transpose2d(t, w, None, 2)[:, :, :-1, 1:])

    p = c.tensor(1, 2, 5, 6)
    for ceil in (False, True):
        a = {"kernel": [3, 2], "stride": [2, 2], "ceil_mode": ceil}
        c.add("max_pool2d", [p], a, F.max_pool2d(p, (3, 2), 2, 0, 1, ceil))
        c.add("avg_pool2d", [p], a, F.avg_pool2d(p, (3, 2), 2, 0, ceil))
        q = {"kernel": [3, 3], "stride": [2, 3], "padding": [1, 1, 1, 1], "ceil_mode": ceil}
        c.add("max_pool2d", [p], q, F.max_pool2d(p, 3, (2, 3), 1, 1, ceil))
        for include in (False, True):
            c.add("avg_pool2d", [p], q | {"count_include_pad": include},
                  F.avg_pool2d(p, 3, (2, 3), 1, ceil, include))
        c.add("avg_pool2d", [p], q | {"divisor_override": 5},
              F.avg_pool2d(p, 3, (2, 3), 1, ceil, True, 5))
    # The last window would start in the right padding: it is dropped.
    e = c.tensor(1, 1, 2, 4)
    c.add("max_pool2d", [e], {"kernel": [2, 2], "stride": [2, 3], "padding": [1, 1, 1, 1],
                              "ceil_mode": True}, F.max_pool2d(e, 2, (2, 3), 1, 1, True))
    c.add("max_pool2d", [p], {"kernel": [2, 2], "stride": [1, 2], "dilation": [2, 3]},
          F.max_pool2d(p, 2, (1, 2), 0, (2, 3)))
    pi = c.tensor(1, 2, 4, 4, dtype="i32")
    c.add("max_pool2d", [pi], {"kernel": [2, 2], "stride": [2, 2]}, F.max_pool2d(pi, 2))
    nan = p.clone()
    nan[0, 0, 1, 1] = float("nan")
    c.add("max_pool2d", [nan], {"kernel": [2, 2], "stride": [2, 2]}, F.max_pool2d(nan, 2))
    c.add("max_pool2d", [p.permute(0, 2, 3, 1)], {"kernel": [2, 2], "stride": [2, 2],
                                                 "layout": "nhwc"},
          F.max_pool2d(p, 2).permute(0, 2, 3, 1))
    c.add("avg_pool2d", [p.permute(0, 2, 3, 1)], {"kernel": [2, 2], "stride": [2, 2],
                                                 "layout": "nhwc"},
          F.avg_pool2d(p, 2).permute(0, 2, 3, 1))
    for size in ([1, 1], [2, 4], [5, 6], [3, 8]):
        c.add("adaptive_avg_pool2d", [p], {"output_size": size}, F.adaptive_avg_pool2d(p, size))
    c.add("adaptive_avg_pool2d", [p.permute(0, 2, 3, 1)], {"output_size": [2, 4],
                                                          "layout": "nhwc"},
          F.adaptive_avg_pool2d(p, (2, 4)).permute(0, 2, 3, 1))

    small = torch.tensor([[[[0.0, 1.0], [2.0, 3.0]]]])
    bilinear, nearest = torch.ops.aten.upsample_bilinear2d.vec, torch.ops.aten.upsample_nearest2d.vec
    for image, size in [(small, [4, 4]), (p, [7, 9]), (p, [3, 2]), (p, [1, 1])]:
        for corners in (False, True):
            c.add("upsample_bilinear2d", [image], {"output_size": size, "align_corners": corners},
                  bilinear(image, size, corners, None))
        c.add("upsample_nearest2d", [image], {"output_size": size}, nearest(image, size, None))
    for scale in ([1.7, 2.3], [0.6, 0.9]):
        out = [int(5 * scale[0]), int(6 * scale[1])]
        a = {"output_size": out, "scale_h": scale[0], "scale_w": scale[1]}
        c.add("upsample_bilinear2d", [p], a, bilinear(p, None, False, scale))
        c.add("upsample_bilinear2d", [p], a | {"align_corners": True},
              bilinear(p, None, True, scale))
        c.add("upsample_nearest2d", [p], a, nearest(p, None, scale))
    hwc = p.permute(0, 2, 3, 1)
    c.add("upsample_bilinear2d", [hwc], {"output_size": [7, 9], "layout": "nhwc"},
          bilinear(p, [7, 9], False, None).permute(0, 2, 3, 1))
    c.add("upsample_nearest2d", [hwc], {"output_size": [7, 9], "layout": "nhwc"},
          nearest(p, [7, 9], None).permute(0, 2, 3, 1))
    pu = c.tensor(1, 1, 2, 3, dtype="u8", high=255)
    c.add("upsample_nearest2d", [pu], {"output_size": [4, 6]}, nearest(pu, [4, 6], None))


def normalisation(c):
    x = c.tensor(2, 4, 3, 2)
    w, b, m, v = c.tensor(4), c.tensor(4), c.tensor(4), c.tensor(4, low=0.25)
    c.add("batch_norm", [x, w, b, m, v], {}, F.batch_norm(x, m, v, w, b))
    c.add("batch_norm", [x, None, None, m, v], {"eps": 0.001}, F.batch_norm(x, m, v, eps=0.001))
    c.add("batch_norm", [x[:, :, 0, 0], w, b, m, v], {}, F.batch_norm(x[:, :, 0, 0], m, v, w, b))
    lw, lb = c.tensor(3, 2), c.tensor(3, 2)
    c.add("layer_norm", [x, lw, lb], {"normalized_shape": [3, 2]}, F.layer_norm(x, (3, 2), lw, lb))
    c.add("layer_norm", [x, None, lb[0]], {"normalized_shape": [2], "eps": 0.1},
          F.layer_norm(x, (2,), None, lb[0], 0.1))
    # A constant row, and one far from zero.
    rows = torch.tensor([[3.0, 3.0, 3.0, 3.0], [1000.0, 1001.0, 1002.0, 1003.0]])
    c.add("layer_norm", [rows], {"normalized_shape": [4]},
          F.layer_norm(rows.double(), (4,)).float())
    seq = c.tensor(2, 4, 1, 3)
    c.add("channel_norm", [seq, w, b], {"eps": 1e-7},
          F.layer_norm(seq.transpose(1, 3), [4], w, b, 1e-7).transpose(1, 3).contiguous())
    c.add("channel_norm", [seq], {}, F.layer_norm(seq.transpose(1, 3), [4]).transpose(1, 3).contiguous())
    c.add("group_norm", [x, w, b], {"num_groups": 2}, F.group_norm(x, 2, w, b))
    c.add("group_norm", [x], {"num_groups": 4, "eps": 0.01}, F.group_norm(x, 4, eps=0.01))
    for dim in (0, 2, -1):
        c.add("softmax", [x], {"dim": dim}, torch.softmax(x, dim))
        c.add("log_softmax", [x], {"dim": dim}, torch.log_softmax(x, dim))
    inf = float("inf")
    s = torch.tensor([[1.0, -inf, 2.0], [-inf, -inf, -inf], [88.0, 89.0, 1.0]])
    c.add("softmax", [s], {"dim": 1}, torch.softmax(s, 1))
    c.add("log_softmax", [s], {"dim": 1}, torch.log_softmax(s, 1))
    h = c.tensor(2, 5, dtype="f16")
    c.add("softmax", [h], {"dim": 1}, torch.softmax(h.float(), 1).half())


def quantisation(c):
    import torch.ao.quantization.fx._decomposed  # noqa: F401, registers the operators
    q = torch.ops.quantized_decomposed
    x = c.tensor(3, 4, low=-6, high=6)
    scale, zero = torch.tensor(0.0625), torch.tensor(3, dtype=torch.int32)
    a = {"quant_min": -128, "quant_max": 127, "dtype": "i8"}
    y = q.quantize_per_tensor(x, 0.0625, 3, -128, 127, torch.int8)
    c.add("quantize", [x, scale, zero], a, y)
    c.add("dequantize", [y, scale, zero], {},
          q.dequantize_per_tensor(y, 0.0625, 3, -128, 127, torch.int8))
    scales = torch.tensor([0.25, 0.01, 3.0])
    zeros = torch.tensor([0, -7, 20])
    z = q.quantize_per_channel(x, scales, zeros, 0, -100, 100, torch.int8)
    c.add("quantize", [x, scales, zeros], a | {"quant_min": -100, "quant_max": 100}, z)
    c.add("dequantize", [z, scales, zeros], {},
          q.dequantize_per_channel(z, scales, zeros, 0, -100, 100, torch.int8))
    t, ts, tz = x.t().contiguous(), scales, zeros
    zt = q.quantize_per_channel(t, ts, tz, 1, 0, 255, torch.uint8)
    c.add("quantize", [t, ts, tz], {"axis": 1, "quant_min": 0, "quant_max": 255, "dtype": "u8"}, zt)
    c.add("dequantize", [zt, ts, tz], {"axis": -1},
          q.dequantize_per_channel(zt, ts, tz, 1, 0, 255, torch.uint8))
    inf = torch.tensor([float("inf"), float("-inf"), 1e30])
    c.add("quantize", [inf, scale, zero], a, torch.tensor([127, -128, 127], dtype=torch.int8))


def later_additions(c):
    """Operators added after the first writing; at the end, so that the cases above keep their numbers."""
    x = c.tensor(3, 5)
    c.add("atan", [x], {}, torch.atan(x))


def main():
    c = Cases()
    for family in (unary, activations, binary, types_and_creation, shapes, indexing, reductions,
                   products, images, normalisation, quantisation, later_additions):
        family(c)
    with open(sys.argv[1], "w") as f:
        f.write("# Operators on small constants with the results that torch "
                f"{torch.__version__.split('+')[0]} gives.\n"
                "# Written by tests/peers/make_op_cases.py.\n\n")
        f.write("\n\n".join(c.text) + "\n")
    print(f"{len(c.text)} cases of {len(c.count)} operators")


if __name__ == "__main__":
    main()
