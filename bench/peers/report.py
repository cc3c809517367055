#!/usr/bin/env python3
"""Tables and the plot of what compare.py measured.

    report.py RESULTS.json... --out DIR       several runs become one report, in their order
"""
import argparse
import csv
import json
import pathlib

from runtimes import F32_PEERS

OURS = "downhaul .pt2"
COLUMNS = ["model", "threads", "runtime", "median_ms", "q1_ms", "q3_ms", "min_ms", "max_ms", "runs",
           "ratio", "max_abs", "busy", "load_ms", "first_run_ms", "error"]


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|---" + "|--:" * (len(head) - 1) + "|"]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows]) + "\n"


def latency_table(rows):
    """One model, one thread count: every runtime, fastest first."""
    lines = []
    for row in sorted(rows, key=lambda r: r.get("median_ms", float("inf"))):
        if "median_ms" not in row:
            lines.append([row["runtime"], "-", "-", "-", "-", "-", row.get("error", "")[:60]])
            continue
        lines.append([row["runtime"], f"{row['median_ms']:.2f}",
                      f"{row['q1_ms']:.2f} - {row['q3_ms']:.2f}", f"{row['min_ms']:.2f}",
                      f"{row['ratio']:.2f}" if "ratio" in row else "-", f"{row['busy']:.2f}",
                      "-" if row["max_abs"] is None else f"{row['max_abs']:.1e}"])
    where = f"{rows[0]['model']}, {rows[0]['threads']} thread{'s' if rows[0]['threads'] > 1 else ''}"
    head = [where, "median ms", "quartiles", "min", "to fastest f32 peer", "busy", "max abs to torch"]
    return table(head, lines)


def groups(rows):
    found = {}
    for row in rows:
        found.setdefault((row["model"], row["threads"]), []).append(row)
    return found


def summary_table(rows):
    """Ours beside the fastest f32 peer, one line per model and thread count."""
    lines = []
    for (model, threads), group in groups(rows).items():
        medians = {r["runtime"]: r["median_ms"] for r in group if "median_ms" in r}
        peers = {name: medians[name] for name in F32_PEERS if name in medians}
        if OURS not in medians or not peers:
            continue
        best = min(peers, key=peers.get)
        line = [f"{model}, {threads}", f"{medians[OURS]:.2f}", f"{best} {peers[best]:.2f}",
                f"{medians[OURS] / peers[best]:.2f}"]
        for name in ("downhaul xnnpack .pte", "downhaul portable .pte"):
            line.append(f"{medians[name] / medians[OURS]:.2f}" if name in medians else "-")
        lines.append(line)
    return table(["model, threads", "ours ms", "fastest f32 peer, ms", "ratio",
                  "our xnnpack .pte / .pt2", "our portable .pte / .pt2"], lines)


def alone_table(rows):
    lines = []
    for row in rows:
        if "error" in row:
            continue
        mib = {key: row[key] / 2**20 for key in row if key.endswith("_bytes")}
        lines.append([f"{row['model']}: {row['runtime']}", f"{row['load_ms']:.0f}",
                      f"{row['load_to_first_output_ms']:.0f}",
                      f"{mib['steady_above_imported_bytes']:.0f}",
                      f"{mib['peak_above_imported_bytes']:.0f}", f"{mib['steady_rss_bytes']:.0f}",
                      f"{mib['peak_rss_bytes']:.0f}"])
    return table(["1 thread, a process of its own", "load ms", "load to first output ms",
                  "steady MiB above imports", "peak MiB above imports", "steady RSS MiB",
                  "peak RSS MiB"], lines)


def plot(rows, path):
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    everyone = list(dict.fromkeys(r["runtime"] for r in rows if "ratio" in r))
    wanted = [OURS, *F32_PEERS]
    shown = [name for name in wanted if name in everyone]
    counts = sorted({r["threads"] for r in rows})
    figure, axes = plt.subplots(1, len(counts), figsize=(7 * len(counts), 6), sharey=True, squeeze=False)
    for axis, threads in zip(axes[0], counts, strict=True):
        models = list(dict.fromkeys(r["model"] for r in rows if r["threads"] == threads))
        height = 0.8 / max(len(shown), 1)
        for n, name in enumerate(shown):
            ratios = {r["model"]: r["ratio"] for r in rows
                      if r["threads"] == threads and r["runtime"] == name and "ratio" in r}
            places = [m + n * height for m in range(len(models))]
            axis.barh(places, [ratios.get(m, 0) for m in models], height, label=name)
        axis.axvline(1, color="black", linewidth=0.8)
        axis.set_yticks([m + 0.4 - height / 2 for m in range(len(models))], models)
        axis.set_xlim(0, 3)
        axis.set_title(f"{threads} thread{'s' if threads > 1 else ''}")
        axis.set_xlabel("median latency, in units of the fastest f32 peer (cut at 3)")
    axes[0][0].invert_yaxis()  # both share it
    axes[0][-1].legend(loc="lower right")
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def write(result, folder):
    rows = result["latency"]
    with open(folder / "results.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)
    machine, versions = result["machine"], result["versions"]
    text = [f"{result['date']}: {machine.get('cpu', '')}, {machine['cpus']} CPUs "
            f"({', '.join(machine.get('instructions', []))}); {result['rounds']} rounds; "
            + ", ".join(f"{k} {v}" for k, v in versions.items()) + "\n"]
    if rows:
        text.append(summary_table(rows))
    text += [latency_table(group) for group in groups(rows).values()]
    if result["alone"]:
        text.append(alone_table(result["alone"]))
    (folder / "results.md").write_text("\n".join(text))
    if rows:
        plot(rows, folder / "ratios.png")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", nargs="+", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    args = parser.parse_args()
    results = [json.loads(path.read_text()) for path in args.results]
    merged = {**results[-1], "latency": [r for one in results for r in one["latency"]],
              "alone": [r for one in results for r in one["alone"]]}
    args.out.mkdir(parents=True, exist_ok=True)
    write(merged, args.out)


if __name__ == "__main__":
    main()
