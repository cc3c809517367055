#!/usr/bin/env python3
"""Holds downhaul's tokenizers against the library `tokenizers`, token by token.

    compare_tokenizers.py --binary downhaul --lines 100000 --strings 200000 [--report FILE]

Prints one line a tokenizer: texts, tokens, differences. Exit code 1 when there is one."""

import argparse
import itertools
import json
import pathlib
import subprocess
import sys
import tempfile

from tokenizer_texts import every_character, generated, real_lines
from tokenizer_zoo import make_zoo

VOCABULARY = 8000
CHUNK = 10000  # texts at a time: the encodings of all at once do not fit into memory
TRAINING_LINES = 20000
# Offsets are not compared where bytes are dropped: the library counts them wrongly then.
IDS_ONLY = ["byte_pairs_dropping"]
FIELDS = {"ids": "ids", "offsets": "offsets", "type_ids": "type_ids", "attention_mask": "attention_mask",
          "special_tokens_mask": "special_tokens_mask"}


def own(binary, path, texts, *options):
    """One dict a text; texts are strings or pairs."""
    with tempfile.TemporaryDirectory() as folder:
        given = pathlib.Path(folder) / "texts.jsonl"
        given.write_text("".join(json.dumps(t) + "\n" for t in texts))
        done = subprocess.run([binary, "tokenize", "--tokenizer", path, "--json-lines", given, "--json", *options],
                              capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.split("\n")[:-1]]


def byte_starts(text):
    """Where each character begins in UTF-8, and the end."""
    return list(itertools.accumulate((len(c.encode()) for c in text), initial=0))


def differences(peer, texts, found, ids_only=False):
    """(text, what differs) for each text of which something differs; the number of tokens."""
    wrong, tokens = [], 0
    wanted = peer.encode_batch([tuple(t) if isinstance(t, list) else t for t in texts])
    assert len(found) == len(wanted)
    for text, got, want in zip(texts, found, wanted):
        tokens += len(want.ids)
        for field, name in FIELDS.items():
            expected = getattr(want, name)
            if ids_only and field == "offsets":
                continue
            if field == "offsets":
                expected = [list(pair) for pair in expected]
            if got[field] != expected:
                wrong.append((text, f"{field}: {got[field]}, expected {expected}"))
                break
        else:
            # Bytes cover the same characters as code points.
            starts = [byte_starts(t) for t in (text if isinstance(text, list) else [text])]
            for chars, data, which in zip(got["offsets"], got["byte_offsets"], got["sequence"]):
                if data != ([starts[which][chars[0]], starts[which][chars[1]]] if which >= 0 else [0, 0]):
                    wrong.append((text, f"byte offsets {data} for characters {chars}"))
                    break
    return wrong, tokens


def compare(binary, folder, lines, strings, characters):
    training = real_lines(TRAINING_LINES, seed=1)
    zoo = make_zoo(folder, training, VOCABULARY)
    sets = {"lines": real_lines(lines, seed=2), "strings": generated(strings, seed=3)}
    if characters:
        sets["characters"] = every_character()
    results = []
    for name, (path, peer) in zoo.items():
        for kind, texts in sets.items():
            wrong, tokens = [], 0
            for first in range(0, len(texts), CHUNK):
                chunk = texts[first:first + CHUNK]
                found = differences(peer, chunk, own(binary, path, chunk), name in IDS_ONLY)
                wrong, tokens = wrong + found[0], tokens + found[1]
            results.append({"tokenizer": name, "texts": kind, "count": len(texts), "tokens": tokens, "wrong": wrong})
    return results


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", required=True)
    parser.add_argument("--lines", type=int, default=100000)
    parser.add_argument("--strings", type=int, default=200000)
    parser.add_argument("--report")
    args = parser.parse_args()
    rows, failed = [], False
    with tempfile.TemporaryDirectory() as folder:
        for r in compare(args.binary, pathlib.Path(folder), args.lines, args.strings, True):
            rows.append(f"| {r['tokenizer']} | {r['texts']} | {r['count']} | {r['tokens']} | {len(r['wrong'])} |")
            print(rows[-1], flush=True)
            for text, what in r["wrong"][:3]:
                print(f"    {text!r}: {what}"[:1000])
            failed |= bool(r["wrong"])
    if args.report:
        head = f"{args.lines} lines, {args.strings} strings, every character: " + ("DIFFERENCES" if failed else "no difference")
        pathlib.Path(args.report).write_text("\n".join(
            [head, "", "| tokenizer | texts | count | tokens | differences |", "|---|---|--:|--:|--:|", *rows, ""]))
    return failed


if __name__ == "__main__":
    sys.exit(main())
