#!/usr/bin/env python3
"""Trains the sample DistilBERT from Debian's packaged English, and exports it.

    train.py fetch  --work DIR               downloads and unpacks the packages (no root needed)
    train.py prepare --work DIR              text -> passages -> vocabulary -> token ids
    train.py train  --work DIR --minutes 60  masked-language-model training; may be stopped, goes on
    train.py evaluate --work DIR             held-out loss and accuracy, by source
    train.py export --work DIR --out DIR     model.pt2, model.safetensors, model_spec.json, tokenizer, prompts.json

Needs torch, transformers, tokenizers, safetensors and numpy (tools/peers/setup), and Debian for
`fetch`. About an hour on one core.
"""

import argparse
import collections
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

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
PAD, UNK, CLS, SEP, MASK = range(5)
VOCAB_SIZE = 6400
LENGTH = 64  # of the exported program, and the longest sequence in training
SEED = 7

# Sentences of held-out passages, each with one word masked; `export` checks that they are held out,
# that the training text does not have them too, and that the word is one entry of the vocabulary.
PROMPTS = [
    ("Behold, a [MASK] shall reign in righteousness, and princes shall rule in judgment.", "king"),
    ("And the LORD said unto him, Go, return on thy [MASK] to the wilderness of Damascus:", "way"),
    ("Blessed be the LORD out of Zion, which dwelleth at [MASK].", "jerusalem"),
    ("And Noah builded an [MASK] unto the LORD;", "altar"),
    ("he has responsibility for the running of two companies at the same [MASK].", "time"),
    ("he hit his fist on the [MASK]. she struck her head on the low ceiling.", "table"),
]


# --------------------------------------------------------------------------------- preparation


def fetch(args):
    corpus.fetch(args.work / "corpus")


def prepare(args):
    import numpy as np
    from tokenizers import BertWordPieceTokenizer
    from tokenizers.processors import BertProcessing

    found = list(corpus.passages(args.work / "corpus"))
    sizes = collections.Counter()
    for source, text in found:
        sizes[source] += len(text)
    print("characters:", dict(sizes), "passages:", len(found))
    held_out = [corpus.is_held_out(text) for _, text in found]
    training = [text for (_, text), held in zip(found, held_out) if not held]

    tokenizer = BertWordPieceTokenizer(lowercase=True)
    tokenizer.train_from_iterator(training, vocab_size=VOCAB_SIZE, min_frequency=5, limit_alphabet=64,
                                  special_tokens=SPECIAL, show_progress=False)
    tokenizer.post_processor = BertProcessing(("[SEP]", SEP), ("[CLS]", CLS))
    tokenizer.save(str(args.work / "tokenizer.json"), pretty=False)
    vocab = tokenizer.get_vocab()
    (args.work / "vocab.txt").write_text("\n".join(sorted(vocab, key=vocab.get)) + "\n")

    # A sequence is as many whole sentences of one passage as fit.
    sets = {"train": ([], []), "held": ([], [])}
    for (source, text), held in zip(found, held_out):
        pieces = tokenizer.encode_batch(corpus.sentences(text), add_special_tokens=False)
        ids, out = [], sets["held" if held else "train"]

        def flush():
            if len(ids) >= 6 and ids.count(UNK) * 20 <= len(ids):
                out[0].append([CLS, *ids, SEP])
                out[1].append(list(corpus.SOURCES).index(source))

        for piece in pieces:
            part = piece.ids[: LENGTH - 2]
            if len(ids) + len(part) > LENGTH - 2:
                flush()
                ids = []
            ids = ids + part
        flush()
    arrays = {}
    for name, (rows, sources) in sets.items():
        arrays[name] = np.full((len(rows), LENGTH), PAD, np.int16)
        for row, ids in zip(arrays[name], rows):
            row[: len(ids)] = ids
        arrays[name + "_source"] = np.array(sources, np.int8)
        print(f"{name}: {len(rows)} sequences, {sum(map(len, rows))} tokens")
    np.savez(args.work / "data.npz", **arrays)
    (args.work / "passages.json").write_text(json.dumps(
        {"characters": sizes, "passages": len(found), "held_out": sum(held_out)}))
    held_text = [text for (_, text), held in zip(found, held_out) if held]
    for name, texts in (("training.txt", training), ("held_out.txt", held_text)):
        (args.work / name).write_text("\n".join(texts) + "\n")


# ------------------------------------------------------------------------------------ training


def make_model():
    from transformers import DistilBertConfig, DistilBertForMaskedLM
    config = DistilBertConfig(vocab_size=VOCAB_SIZE, max_position_embeddings=LENGTH, dim=192, n_layers=3,
                              n_heads=6, hidden_dim=576, dropout=0.0, attention_dropout=0.0,
                              initializer_range=0.05, pad_token_id=PAD,
                              architectures=["DistilBertForMaskedLM"])
    config._attn_implementation = "sdpa"
    return DistilBertForMaskedLM(config)


def look_at_neighbours(model):
    """Starts some attention heads as looks at the neighbouring places.

    From random weights it takes most of an hour until attention finds out that neighbours matter;
    until then the loss stays near that of word frequencies. Positions start as sines and cosines, in
    which a step is a rotation: the query of a head is its own position rotated by its step. Words
    leave those dimensions empty at first.
    """
    import torch
    config = model.config
    pairs, per_head = config.dim // 4, config.dim // config.n_heads // 2
    waves = torch.logspace(math.log10(1.6), math.log10(0.03), pairs)
    angles = torch.arange(config.max_position_embeddings)[:, None] * waves
    size = model.distilbert.embeddings.word_embeddings.weight.std().item()
    with torch.no_grad():
        places = model.distilbert.embeddings.position_embeddings.weight.zero_()
        places[:, : 2 * pairs : 2] = 1.4 * size * angles.sin()
        places[:, 1 : 2 * pairs : 2] = 1.4 * size * angles.cos()
        model.distilbert.embeddings.word_embeddings.weight[:, : 2 * pairs] *= 0.2
        for layer, steps in enumerate(([-1, 1, -2, 2], [-1, 1, -3, 3], [-1, 1])):
            attention = model.distilbert.transformer.layer[layer].attention
            for head, step in enumerate(steps):
                rows = slice(head * 2 * per_head, (head + 1) * 2 * per_head)
                query = attention.q_lin.weight[rows].mul_(0.2)
                key = attention.k_lin.weight[rows].mul_(0.2)
                for n in range(per_head):
                    wave = n * pairs // per_head
                    turn = step * waves[wave]
                    sin, cos = 2 * wave, 2 * wave + 1
                    query[2 * n, sin] += 1.2 * turn.cos()
                    query[2 * n, cos] += 1.2 * turn.sin()
                    query[2 * n + 1, sin] -= 1.2 * turn.sin()
                    query[2 * n + 1, cos] += 1.2 * turn.cos()
                    key[2 * n, sin] += 1.2
                    key[2 * n + 1, cos] += 1.2


def start_from_counts(model, rows):
    """Words start where counts put them: output biases at the log of a word's frequency, embeddings at
    the singular vectors of how much more often than by chance two words stand near each other.
    """
    import numpy as np
    import torch
    words = model.config.vocab_size
    counts = np.bincount(rows.numpy().ravel(), minlength=words).astype(np.float32)
    counts[:MASK + 1] = 0
    near = np.zeros((words, words), np.float32)
    table = rows.numpy().astype(np.int64)
    for step in (1, 2, 3):
        left, right = table[:, :-step].ravel(), table[:, step:].ravel()
        both = (left > MASK) & (right > MASK)
        near += np.bincount(left[both] * words + right[both], minlength=words * words).reshape(words, words) / step
    near += near.T
    total = near.sum()
    smooth = near.sum(1) ** 0.75
    smooth /= smooth.sum()
    chance = np.outer(near.sum(1), smooth)
    with np.errstate(divide="ignore", invalid="ignore"):
        near = np.maximum(np.nan_to_num(np.log(near / chance), neginf=0.0, posinf=0.0), 0.0)
    torch.manual_seed(SEED)
    left, values, _ = torch.svd_lowrank(torch.from_numpy(near), q=model.config.dim // 2 + 16, niter=3)
    meaning = (left * values.sqrt())[:, : model.config.dim // 2]
    with torch.no_grad():
        table = model.distilbert.embeddings.word_embeddings.weight
        rare = table.clone()
        table[:, -meaning.shape[1]:] = meaning / meaning.std() * table.std()
        table[: MASK + 1] = rare[: MASK + 1]
        frequency = torch.from_numpy((counts + 1) / (counts.sum() + words))
        model.vocab_projector.bias.copy_(frequency.log())


def masked_logits(model, ids, hidden_at):
    """Logits of the places in `hidden_at` (bool, like ids) only: the projection is the dear part."""
    hidden = model.distilbert(input_ids=ids, attention_mask=(ids != PAD).long()).last_hidden_state
    hidden = model.activation(model.vocab_transform(hidden[hidden_at]))
    return model.vocab_projector(model.vocab_layer_norm(hidden))


def batches(rows, per_batch, rng):
    """Batches of about `per_batch` tokens for ever, each of rows of nearly one length."""
    import torch
    lengths = (rows != PAD).sum(1)
    while True:
        order = torch.randperm(len(rows), generator=rng)
        for pool in order.split(8192):
            pool = pool[lengths[pool].argsort()]
            groups, start = [], 0
            while start < len(pool):
                end = min(len(pool), start + max(8, per_batch // int(lengths[pool[min(len(pool) - 1, start + 64)]])))
                groups.append(pool[start:end])
                start = end
            for n in torch.randperm(len(groups), generator=rng):
                yield rows[groups[n]][:, : int(lengths[groups[n]].max())].long()


def train(args):
    import numpy as np
    import torch
    torch.set_num_threads(args.threads)
    torch.manual_seed(SEED)
    rng = torch.Generator().manual_seed(SEED)
    data = np.load(args.work / "data.npz")
    rows = torch.from_numpy(data["train"])
    model = make_model()
    if not (args.work / "checkpoint.pt").exists():
        start_from_counts(model, rows)
        look_at_neighbours(model)
    decayed = [p for p in model.parameters() if p.dim() > 1]
    other = [p for p in model.parameters() if p.dim() <= 1]
    optimizer = torch.optim.AdamW([{"params": decayed, "weight_decay": 0.02},
                                   {"params": other, "weight_decay": 0.0}], lr=args.rate, betas=(0.9, 0.98))
    state = {"step": 0, "seconds": 0.0, "tokens": 0}
    file = args.work / "checkpoint.pt"
    if file.exists():
        saved = torch.load(file)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        state = saved["state"]
        rng.manual_seed(SEED + state["step"])
    budget = args.minutes * 60
    began = saved_at = said_at = time.monotonic() - state["seconds"]
    running = None

    def save():
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "state": state},
                   file.with_suffix(".part"))
        os.replace(file.with_suffix(".part"), file)

    for ids in batches(rows, args.batch_tokens, rng):
        state["seconds"] = time.monotonic() - began
        done = state["seconds"] / budget
        if done >= 1:
            break
        warm = min(1.0, (state["step"] + 1) / 200)
        for group in optimizer.param_groups:
            group["lr"] = args.rate * warm * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * done)))
        share = 0.15 + 0.2 * torch.rand(1, generator=rng)
        chosen = (torch.rand(ids.shape, generator=rng) < share) & (ids > MASK)
        if not chosen.any():
            continue
        wanted = ids[chosen]
        ids = torch.where(chosen, MASK, ids)
        with torch.autocast("cpu", torch.bfloat16, enabled=args.bf16):
            logits = masked_logits(model, ids, chosen)
        loss = torch.nn.functional.cross_entropy(logits.float(), wanted)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        state["step"] += 1
        state["tokens"] += ids.numel()
        running = loss.item() if running is None else 0.98 * running + 0.02 * loss.item()
        now = time.monotonic()
        if now - said_at > 30:
            said_at = now
            print(f"{state['seconds'] / 60:.1f} min, step {state['step']}, {state['tokens'] / 1e6:.2f} M tokens, "
                  f"{state['tokens'] / state['seconds']:.0f} tokens/s, loss {running:.3f}", flush=True)
        if now - saved_at > 120:
            saved_at = now
            save()
    save()
    print("done", state)


def load(args):
    import torch
    model = make_model().eval()
    saved = torch.load(args.work / "checkpoint.pt")
    model.load_state_dict(saved["model"])
    return model, saved["state"]


def evaluate(args):
    """15 % of the held-out tokens masked, drawn once with a fixed seed."""
    import numpy as np
    import torch
    torch.set_num_threads(args.threads)
    model, state = load(args)
    data = np.load(args.work / "data.npz")
    rows, sources = torch.from_numpy(data["held"]).long(), data["held_source"]
    rng = torch.Generator().manual_seed(SEED)
    sums = collections.defaultdict(lambda: [0, 0.0, 0, 0])
    with torch.inference_mode():
        for start in range(0, len(rows), 64):
            ids = rows[start: start + 64]
            chosen = (torch.rand(ids.shape, generator=rng) < 0.15) & (ids > MASK)
            wanted = ids[chosen]
            logits = masked_logits(model, torch.where(chosen, MASK, ids), chosen)
            losses = torch.nn.functional.cross_entropy(logits, wanted, reduction="none")
            top = logits.topk(5).indices == wanted[:, None]
            of = sources[start: start + 64][chosen.nonzero()[:, 0].numpy()]
            for n, source in enumerate(of):
                for key in ("all", list(corpus.SOURCES)[source]):
                    s = sums[key]
                    s[0] += 1
                    s[1] += losses[n].item()
                    s[2] += bool(top[n, 0])
                    s[3] += bool(top[n].any())
    result = {key: {"masked_tokens": n, "loss": round(loss / n, 3), "top1": round(one / n, 4),
                    "top5": round(five / n, 4)} for key, (n, loss, one, five) in sums.items()}
    result = {"training": state, "sequences": len(rows), "held_out": result}
    print(json.dumps(result, indent=1))
    (args.work / "evaluation.json").write_text(json.dumps(result))


# -------------------------------------------------------------------------------------- export


def encode(tokenizer, text):
    ids = tokenizer.encode(text).ids
    assert len(ids) <= LENGTH, text
    return ids + [PAD] * (LENGTH - len(ids)), [1] * len(ids) + [0] * (LENGTH - len(ids))


def save_checkpoint(model, out):
    """The folder as transformers takes it, too."""
    from safetensors.torch import save_file
    config = model.config.to_dict()
    config.pop("_name_or_path", None)
    (out / "config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
    weights = model.state_dict()
    del weights["vocab_projector.weight"]  # the word embeddings
    save_file(weights, out / "model.safetensors", metadata={"format": "pt"})
    (out / "model.safetensors").chmod(0o644)
    (out / "tokenizer_config.json").write_text(json.dumps({
        "tokenizer_class": "BertTokenizer", "do_lower_case": True, "model_max_length": LENGTH,
        **{f"{name}_token": token for name, token in zip(("pad", "unk", "cls", "sep", "mask"), SPECIAL)}}, indent=2) + "\n")


def export_prompts(module, tokenizer, args):
    """prompts.json, and each prompt as the program takes it beside the logits; returns the prompts."""
    import torch
    from safetensors.torch import save_file
    texts = {name: corpus.plain((args.work / name).read_text()) for name in ("training.txt", "held_out.txt")}
    prompts = []
    for n, (text, word) in enumerate(PROMPTS):
        whole = corpus.plain(text.replace("[MASK]", word)).strip()
        if whole not in texts["held_out.txt"] or whole in texts["training.txt"]:
            raise SystemExit(f"not held out: {whole}")
        if tokenizer.token_to_id(word) is None:
            raise SystemExit(f"not in the vocabulary: {word}")
        ids, mask = encode(tokenizer, text)
        inputs = {"input_ids": torch.tensor([ids]), "attention_mask": torch.tensor([mask])}
        with torch.inference_mode():
            logits = module(*inputs.values())
        top = logits[0].topk(5)
        prompts.append({"text": text, "word": word, "word_id": tokenizer.token_to_id(word),
                        "input_ids": ids, "attention_mask": mask,
                        "top5": [{"id": i, "token": tokenizer.id_to_token(i), "logit": round(v, 4)}
                                 for v, i in zip(top.values.tolist(), top.indices.tolist())]})
        print(text, "->", [t["token"] for t in prompts[-1]["top5"]], f"({word})")
        folder = args.out if n == 0 else args.out / "cases" / f"{n:03d}_{word}"
        folder.mkdir(parents=True, exist_ok=True)
        save_file(inputs, folder / "inputs.safetensors")
        save_file({"logits": logits.clone()}, folder / "expected.safetensors")
    lines = ",\n".join("  " + json.dumps(p) for p in prompts)
    (args.out / "prompts.json").write_text(f"[\n{lines}\n]\n")
    return prompts


def export(args):
    import shutil

    import torch
    from tokenizers import Tokenizer

    class FillMask(torch.nn.Module):
        """Vocabulary logits of each row's first [MASK]."""

        def __init__(self, model):
            super().__init__()
            self.model = model

        def forward(self, input_ids, attention_mask):
            logits = self.model(input_ids=input_ids, attention_mask=attention_mask).logits
            place = (input_ids == MASK).to(torch.int64).argmax(dim=1)
            return logits[torch.arange(input_ids.shape[0]), place]

    torch.set_num_threads(args.threads)
    model, _ = load(args)
    module = FillMask(model).eval()
    args.out.mkdir(parents=True, exist_ok=True)
    prompts = export_prompts(module, Tokenizer.from_file(str(args.work / "tokenizer.json")), args)

    example = (torch.tensor([prompts[0]["input_ids"]]), torch.tensor([prompts[0]["attention_mask"]]))
    with torch.inference_mode():
        program = torch.export.export(module, example)
    for node in program.graph.nodes:  # stack traces hold this machine's paths
        node.meta.pop("stack_trace", None)
    torch.export.save(program, args.out / "model.pt2")

    for name in ("vocab.txt", "tokenizer.json"):
        shutil.copy(args.work / name, args.out / name)
    save_checkpoint(model, args.out)
    spec = {
        "name": "distilbert", "model_id": "distilbert-sample", "task": "fill-mask",
        "seq_len": LENGTH, "batch": 1, "exported_program": "model.pt2", "tokenizer": "tokenizer.json",
        "vocabulary": "vocab.txt", "mask_token_id": MASK, "sample": "prompts.json",
        "inputs": [{"name": "input_ids", "shape": [1, LENGTH], "dtype": "int64"},
                   {"name": "attention_mask", "shape": [1, LENGTH], "dtype": "int64"}],
        "outputs": [{"name": "logits", "shape": [1, VOCAB_SIZE], "dtype": "float32"}],
    }
    (args.out / "model_spec.json").write_text(json.dumps(spec, indent=2) + "\n")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("step", choices=["fetch", "prepare", "train", "evaluate", "export"])
    p.add_argument("--work", type=pathlib.Path, required=True, help="folder for corpus and checkpoint")
    p.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).parent)
    p.add_argument("--minutes", type=float, default=60.0)
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--rate", type=float, default=2e-3)
    p.add_argument("--batch-tokens", type=int, default=1024)
    p.add_argument("--bf16", action="store_true", help="multiply in bfloat16 (fast where the CPU has it)")
    args = p.parse_args()
    globals()[args.step](args)
    return 0


if __name__ == "__main__":
    sys.exit(main())
