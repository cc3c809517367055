#!/usr/bin/env python3
"""One thread of downhaul's tokenizers against one thread of the library `tokenizers`, in turns.

    bench/tokenizer_speed.py --bench build/release/src/text/tokenizer_bench [--lines 50000] [--passes 7]

Both encode the same lines with ids, offsets and masks. Prints the median of the passes and their
ratio. The library is called for all lines at once (encode_batch), without threads."""

import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"
sys.path.append(str(pathlib.Path(__file__).parent.parent / "tests" / "peers"))

from tokenizer_texts import real_lines  # noqa: E402
from tokenizer_zoo import make_zoo  # noqa: E402

NAMES = ["word_pieces", "minilm", "byte_pairs", "byte_pairs_roberta"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bench", required=True)
    parser.add_argument("--lines", type=int, default=50000)
    parser.add_argument("--passes", type=int, default=7)
    args = parser.parse_args()
    lines = real_lines(args.lines, seed=2)
    with tempfile.TemporaryDirectory() as folder:
        zoo = make_zoo(pathlib.Path(folder), real_lines(20000, seed=1), 8000)
        sets = {"all lines": lines, "ASCII lines": [line for line in lines if line.isascii()]}
        print("| tokenizer | texts | MB | tokens | tokenizers, MB/s | its encode_batch_fast | downhaul, MB/s | ratio |")
        print("|---|---|--:|--:|--:|--:|--:|--:|")
        for kind, texts in sets.items():
            file = pathlib.Path(folder) / "lines.txt"
            file.write_text("\n".join(texts))
            size = file.stat().st_size / 1e6
            for name in NAMES:
                path, peer = zoo[name]
                peer.no_truncation()
                peer.no_padding()
                if name == "minilm":
                    path = pathlib.Path(folder) / "minilm.json"
                    peer.save(str(path))
                own, theirs, fast, tokens = [], [], [], 0
                for _ in range(args.passes):
                    begin = time.perf_counter()
                    encodings = peer.encode_batch(texts)
                    theirs.append(time.perf_counter() - begin)
                    tokens = sum(len(e) for e in encodings)
                    del encodings
                    begin = time.perf_counter()
                    peer.encode_batch_fast(texts)
                    fast.append(time.perf_counter() - begin)
                    said = subprocess.run([args.bench, path, file, "1"], capture_output=True, text=True, check=True)
                    seconds, count, _ = said.stdout.split()
                    own.append(float(seconds))
                    assert int(count) == tokens, f"{name}: {count} tokens, expected {tokens}"
                a, b, c = (size / statistics.median(v) for v in (theirs, fast, own))
                print(f"| {name} | {kind} | {size:.1f} | {tokens} | {a:.1f} | {b:.1f} | {c:.1f} | {c / a:.1f} |", flush=True)


if __name__ == "__main__":
    main()
