#!/usr/bin/env python3
"""Trains the sample GPT-2 from Debian's packaged English, and writes the files of this folder.

    train.py fetch   --work DIR              downloads and unpacks the packages (no root needed)
    train.py prepare --work DIR              text -> byte pairs -> token ids
    train.py train   --work DIR --minutes 30 next-token training; may be stopped, goes on
    train.py evaluate --work DIR             held-out loss beside that of word frequencies
    train.py export  --work DIR --out DIR    config.json, model.safetensors, tokenizer files

Needs torch, transformers, tokenizers, safetensors and numpy (tools/peers/setup), and Debian for
`fetch`.
"""

import argparse
import json
import logging
import math
import os
import pathlib
import sys
import time
import warnings

warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)
os.environ.setdefault("HF_HUB_OFFLINE", "1")
sys.modules.setdefault("torchvision", None)  # transformers imports it where it is installed; not needed
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "text"))

import corpus  # noqa: E402
import numpy as np  # noqa: E402
import torch  # noqa: E402

VOCAB_SIZE = 4096
END = "<|endoftext|>"
LENGTH = 128
ROWS = 16  # sequences a step
SEED = 7


def prepare(work):
    from tokenizers import ByteLevelBPETokenizer
    found = list(corpus.passages(work / "corpus"))
    held = [corpus.is_held_out(text) for _, text in found]
    training = [text for (_, text), h in zip(found, held) if not h]
    tokenizer = ByteLevelBPETokenizer(add_prefix_space=False)
    tokenizer.train_from_iterator(training, vocab_size=VOCAB_SIZE, min_frequency=2, special_tokens=[END],
                                  show_progress=False)
    (work / "tokenizer").mkdir(exist_ok=True)
    tokenizer.save_model(str(work / "tokenizer"))
    tokenizer.save(str(work / "tokenizer/tokenizer.json"), pretty=False)
    end = tokenizer.token_to_id(END)
    for name, kept in (("train", False), ("held_out", True)):
        texts = [text for (_, text), h in zip(found, held) if h == kept]
        ids = []
        for encoding in tokenizer.encode_batch(texts):
            ids += [end, *encoding.ids]
        np.save(work / f"{name}.npy", np.array(ids, np.int16))
        print(f"{name}: {len(texts)} passages, {len(ids)} tokens, {sum(map(len, texts))} characters")
        (work / f"{name}.json").write_text(json.dumps({"characters": sum(map(len, texts)), "passages": len(texts)}))


def make_model():
    from transformers import GPT2Config, GPT2LMHeadModel
    torch.manual_seed(SEED)
    config = GPT2Config(vocab_size=VOCAB_SIZE, n_positions=LENGTH, n_embd=192, n_layer=4, n_head=6, resid_pdrop=0.0,
                        embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=0, eos_token_id=0, initializer_range=0.03,
                        architectures=["GPT2LMHeadModel"])
    config._attn_implementation = "sdpa"
    return GPT2LMHeadModel(config)


class Muon(torch.optim.Optimizer):
    """Momentum whose update is made nearly orthogonal: every direction of a matrix moves alike.

    It needs about half the steps of Adam for the matrices of a small transformer. The coefficients
    are those of the published fifth-order Newton-Schulz iteration.
    """

    def __init__(self, matrices, lr):
        super().__init__(matrices, {"lr": lr})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                momentum = self.state[p].setdefault("momentum", torch.zeros_like(p))
                momentum.mul_(0.95).add_(p.grad)
                x = p.grad.add(momentum, alpha=0.95)
                tall = x.shape[0] > x.shape[1]
                x = x.T if tall else x
                x = x / (x.norm() + 1e-7)
                for _ in range(5):
                    a = x @ x.T
                    x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
                x = x.T if tall else x
                p.add_(x, alpha=-group["lr"] * max(1, max(p.shape) / min(p.shape)) ** 0.5)


def train(work, minutes):
    ids = torch.from_numpy(np.load(work / "train.npy").astype(np.int64))
    model = make_model().train()
    matrices = [p for n, p in model.named_parameters() if p.ndim == 2 and ".h." in n]
    others = [p for n, p in model.named_parameters() if not (p.ndim == 2 and ".h." in n)]
    rates = (0.02, 2e-3)
    optimizers = [Muon(matrices, rates[0]), torch.optim.AdamW(others, lr=rates[1], betas=(0.9, 0.98), weight_decay=0.0)]
    checkpoint = work / "gpt2.pt"
    steps, used = 0, 0.0
    if checkpoint.exists():
        saved = torch.load(checkpoint, weights_only=True)
        model.load_state_dict(saved["model"])
        for optimizer, state in zip(optimizers, saved["optimizers"]):
            optimizer.load_state_dict(state)
        steps, used = saved["steps"], saved["seconds"]
    budget, last, average = minutes * 60, time.monotonic(), None
    while used < budget:
        progress = used / budget
        scale = min(1.0, steps / 50) * (1.0 if progress < 0.4 else max(0.0, (1 - progress) / 0.6))
        for optimizer, rate in zip(optimizers, rates):
            for group in optimizer.param_groups:
                group["lr"] = rate * scale
        generator = torch.Generator().manual_seed(SEED * 1000003 + steps)
        starts = torch.randint(0, len(ids) - LENGTH - 1, (ROWS,), generator=generator)
        rows = torch.stack([ids[s:s + LENGTH + 1] for s in starts])
        logits = model(input_ids=rows[:, :-1]).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten())
        model.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer in optimizers:
            optimizer.step()
        steps += 1
        now = time.monotonic()
        used, last = used + now - last, now
        average = loss.item() if average is None else 0.98 * average + 0.02 * loss.item()
        if steps % 50 == 0 or used >= budget:
            print(f"step {steps}  {used / 60:.1f} min  loss {average:.3f}", flush=True)
        if steps % 200 == 0 or used >= budget:
            torch.save({"model": model.state_dict(), "optimizers": [o.state_dict() for o in optimizers],
                        "steps": steps, "seconds": used}, work / "gpt2.new")
            os.replace(work / "gpt2.new", checkpoint)


def load(work):
    model = make_model().eval()
    saved = torch.load(work / "gpt2.pt", weights_only=True)
    # Kept in 16 bits, half the size; what is measured is what is kept.
    model.load_state_dict({key: value.half() for key, value in saved["model"].items()})
    return model, saved["steps"]


@torch.inference_mode()
def evaluate(work):
    model, steps = load(work)
    held = torch.from_numpy(np.load(work / "held_out.npy").astype(np.int64))
    seen = torch.from_numpy(np.load(work / "train.npy").astype(np.int64))
    total, count = 0.0, 0
    for start in range(0, len(held) - 1, LENGTH):
        row = held[start:start + LENGTH + 1]
        loss = torch.nn.functional.cross_entropy(model(input_ids=row[None, :-1]).logits[0], row[1:], reduction="sum")
        total, count = total + loss.item(), count + len(row) - 1
    frequency = (torch.bincount(seen, minlength=VOCAB_SIZE) + 1).double()
    by_frequency = -(frequency / frequency.sum()).log()[held[1:]].mean().item()
    characters = json.loads((work / "held_out.json").read_text())["characters"]
    print(f"steps {steps}, tokens seen {steps * ROWS * LENGTH}")
    print(f"held out: {count} tokens, loss {total / count:.3f} nats, perplexity {math.exp(total / count):.1f}, "
          f"{total / characters / math.log(2):.3f} bits a character")
    print(f"word-piece frequencies alone: loss {by_frequency:.3f}, perplexity {math.exp(by_frequency):.1f}")


def export(work, out):
    from safetensors.torch import save_file
    out.mkdir(parents=True, exist_ok=True)
    model, _ = load(work)
    config = json.loads(model.config.to_json_string())
    config["dtype"] = "float32"  # what to compute in
    (out / "config.json").write_text(json.dumps(config, indent=1, sort_keys=True) + "\n")
    weights = {n: p.half() for n, p in model.transformer.state_dict().items()
               if not n.endswith((".attn.bias", ".attn.masked_bias"))}
    save_file(weights, out / "model.safetensors", metadata={"format": "pt"})
    (out / "model.safetensors").chmod(0o644)
    for name in ("vocab.json", "merges.txt", "tokenizer.json"):
        (out / name).write_bytes((work / "tokenizer" / name).read_bytes())
    (out / "tokenizer_config.json").write_text(json.dumps(
        {"tokenizer_class": "GPT2Tokenizer", "model_max_length": LENGTH, "bos_token": END, "eos_token": END,
         "unk_token": END}, indent=1) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=["fetch", "prepare", "train", "evaluate", "export"])
    parser.add_argument("--work", type=pathlib.Path, required=True)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=pathlib.Path)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.step == "fetch":
        corpus.fetch(options.work / "corpus")
    elif options.step == "prepare":
        prepare(options.work)
    elif options.step == "train":
        train(options.work, options.minutes)
    elif options.step == "evaluate":
        evaluate(options.work)
    else:
        export(options.work, options.out)


if __name__ == "__main__":
    main()
