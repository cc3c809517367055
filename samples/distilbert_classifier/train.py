#!/usr/bin/env python3
"""Teaches the sample DistilBERT to tell where a sentence is from, and writes the files of this folder.

    train.py train    --work DIR             fine-tunes all weights, from ../distilbert
    train.py evaluate --work DIR             accuracy on held-out passages, confusion, baselines
    train.py export   --work DIR --out DIR   config.json, model.safetensors, tokenizer files

The sentences are those of samples/text/corpus.py: `samples/distilbert/train.py fetch --work DIR` gets
them. Needs what tools/peers/setup installs. Some minutes on one core.
"""

import argparse
import collections
import json
import logging
import math
import os
import pathlib
import random
import shutil
import sys
import time
import warnings

warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)
os.environ.setdefault("HF_HUB_OFFLINE", "1")
sys.modules.setdefault("torchvision", None)  # transformers imports it where it is installed; not needed
HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parent / "distilbert"
sys.path.insert(0, str(HERE.parent / "text"))

import corpus  # noqa: E402
import torch  # noqa: E402
from tokenizers import Tokenizer  # noqa: E402

LABELS = {"bible": "King James Version", "wordnet": "WordNet example", "debian": "Debian manual"}
LENGTH = 64
ROWS = 32  # sentences a step
STEPS = 1200
RATE = 4e-4
SEED = 7


def examples(work):
    """(training, held out): lists of (sentence, label). A sentence counts once. One that is trained on
    is not held out as well, wherever else it stands: the Bible repeats itself."""
    training, held_out = {}, {}
    for source, passage in corpus.passages(work / "corpus"):
        into = held_out if corpus.is_held_out(passage) else training
        for sentence in corpus.sentences(passage):
            if corpus.is_english(sentence):
                into.setdefault(corpus.plain(sentence).strip(), (sentence, list(LABELS).index(source)))
    return list(training.values()), [e for key, e in held_out.items() if key not in training]


def encode(sentences):
    tokenizer = Tokenizer.from_file(str(SOURCE / "tokenizer.json"))
    tokenizer.enable_truncation(LENGTH)
    return [e.ids for e in tokenizer.encode_batch(sentences)]


def padded(rows):
    length = max(map(len, rows))
    ids = torch.tensor([row + [0] * (length - len(row)) for row in rows])
    return {"input_ids": ids, "attention_mask": (torch.arange(length) < torch.tensor([[len(r)] for r in rows])).long()}


def make_model(weights):
    from transformers import DistilBertConfig, DistilBertForSequenceClassification
    settings = json.loads((SOURCE / "config.json").read_text())
    for key in ("architectures", "id2label", "label2id", "dtype"):
        settings.pop(key)
    config = DistilBertConfig(**settings, architectures=["DistilBertForSequenceClassification"],
                              id2label=dict(enumerate(LABELS.values())), label2id={v: i for i, v in enumerate(LABELS.values())})
    config._attn_implementation = "sdpa"
    torch.manual_seed(SEED)
    model = DistilBertForSequenceClassification(config)
    left_out = model.load_state_dict(weights, strict=False).missing_keys
    assert all(key.startswith(("pre_classifier.", "classifier.")) for key in left_out), left_out
    return model


def train(work):
    from safetensors.torch import load_file
    found, _ = examples(work)
    rows = encode([sentence for sentence, _ in found])
    labels = torch.tensor([label for _, label in found])
    model = make_model(load_file(SOURCE / "model.safetensors")).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.01)
    rng = random.Random(SEED)
    order, average, began = [], None, time.process_time()
    for step in range(STEPS):
        if len(order) < ROWS:
            order = list(range(len(rows)))
            rng.shuffle(order)
            order = [i for at in range(0, len(order), 64 * ROWS)  # rows of nearly one length pad little
                     for group in [sorted(order[at:at + 64 * ROWS], key=lambda i: len(rows[i]))]
                     for batch in rng.sample(range(0, len(group), ROWS), len(range(0, len(group), ROWS)))
                     for i in group[batch:batch + ROWS]]
        chosen, order = order[:ROWS], order[ROWS:]
        rate = RATE * min(1.0, (step + 1) / 100) * 0.5 * (1 + math.cos(math.pi * step / STEPS))
        for group in optimizer.param_groups:
            group["lr"] = rate
        logits = model(**padded([rows[i] for i in chosen])).logits
        loss = torch.nn.functional.cross_entropy(logits, labels[chosen])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        average = loss.item() if average is None else 0.98 * average + 0.02 * loss.item()
        if (step + 1) % 100 == 0:
            print(f"step {step + 1}  {(time.process_time() - began) / 60:.1f} CPU min  loss {average:.3f}", flush=True)
    # Kept in 16 bits, half the size; what is measured below is what is kept.
    torch.save({key: value.half() for key, value in model.state_dict().items()}, work / "classifier.pt")


def load(work):
    return make_model(torch.load(work / "classifier.pt", weights_only=True)).eval()


def by_word_counts(training, held_out, rows_of):
    """Labels by naive Bayes over word pieces, the classifier that needs no network."""
    counts = [collections.Counter() for _ in LABELS]
    for row, (_, label) in zip(rows_of(training), training):
        counts[label].update(row[1:-1])
    sizes = collections.Counter(label for _, label in training)
    words = len({w for c in counts for w in c})
    logs = [(math.log(sizes[k] / len(training)), c, math.log(c.total() + words)) for k, c in enumerate(counts)]
    for row in rows_of(held_out):
        scores = [prior + sum(math.log(c[w] + 1) - total for w in row[1:-1]) for prior, c, total in logs]
        yield scores.index(max(scores))


@torch.inference_mode()
def evaluate(work):
    training, held_out = examples(work)
    model = load(work)
    rows = encode([sentence for sentence, _ in held_out])
    confusion = torch.zeros(3, 3, dtype=torch.int64)
    loss = 0.0
    for start in range(0, len(rows), ROWS):
        logits = model(**padded(rows[start:start + ROWS])).logits
        labels = torch.tensor([label for _, label in held_out[start:start + ROWS]])
        loss += torch.nn.functional.cross_entropy(logits, labels, reduction="sum").item()
        for truth, said in zip(labels.tolist(), logits.argmax(-1).tolist()):
            confusion[truth, said] += 1
    counted = sum(said == label for said, (_, label) in
                  zip(by_word_counts(training, held_out, lambda e: encode([s for s, _ in e])), held_out))
    print(f"sentences: {len(training)} of training, {len(held_out)} held out")
    print("of training:", {name: sum(label == k for _, label in training) for k, name in enumerate(LABELS)})
    print(f"accuracy {confusion.trace() / len(rows):.4f}, loss {loss / len(rows):.4f}; "
          f"the commonest class {confusion.sum(1).max() / len(rows):.4f}, word counts (naive Bayes) {counted / len(rows):.4f}")
    print("rows: where it is from; columns: what the model says\n", confusion.tolist())


def export(work, out):
    from safetensors.torch import save_file
    out.mkdir(parents=True, exist_ok=True)
    kept = torch.load(work / "classifier.pt", weights_only=True)
    save_file(kept, out / "model.safetensors", metadata={"format": "pt"})
    (out / "model.safetensors").chmod(0o644)
    config = json.loads(load(work).config.to_json_string())
    config["dtype"] = "float32"  # what to compute in
    (out / "config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
    for name in ("vocab.txt", "tokenizer.json", "tokenizer_config.json"):
        shutil.copy(SOURCE / name, out / name)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=["train", "evaluate", "export"])
    parser.add_argument("--work", type=pathlib.Path, required=True, help="folder with corpus/, and for the weights")
    parser.add_argument("--out", type=pathlib.Path, default=HERE)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.step == "export":
        export(options.work, options.out)
    else:
        globals()[options.step](options.work)


if __name__ == "__main__":
    main()
