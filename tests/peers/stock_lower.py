#!/usr/bin/env python3
"""Lowers .pt2 files with stock ExecuTorch, to compare downhaul's files and figures with.

    stock_lower.py FOLDER_OR_PT2 ... [--backend portable|xnnpack|both] [--out DIR] [--missing]

Writes stock_BACKEND.pte and stock_BACKEND.json beside each program (or into DIR). Every lowering
is a process of its own, so that its time and its peak memory are those of a whole run.

The JSON has
    pte_bytes, pte_size_mb (bytes / 1e6)
    call_sites                delegate calls
    kernel_calls              kernel calls outside delegates, and kernels: how many of each operator
    graph_nodes               all other nodes of the lowered graph (alloc and getitem too), as Arm's
                              course counts fallbacks after to_executorch; and nodes: by target
    edge_graph_nodes          the same before memory is planned: the course's other count
    planned_bytes             activation memory, by buffer
    seconds, process_seconds, peak_rss_bytes
    error                     instead of the above, when stock ExecuTorch cannot lower the program
"""

import argparse
import collections
import json
import logging
import os
import pathlib
import resource
import subprocess
import sys
import time
import warnings

STARTED = time.perf_counter()
BACKENDS = ("portable", "xnnpack")


def node_targets(graph):
    """(number of delegate calls, other call_function nodes by target)"""
    others, calls = collections.Counter(), 0
    for node in graph.nodes:
        if node.op != "call_function":
            continue
        name = str(node.target)
        if "executorch_call_delegate" in name:
            calls += 1
        elif name.startswith("<EdgeOpOverload: "):
            others[name.removeprefix("<EdgeOpOverload: ").partition(">")[0]] += 1
        else:
            others[name.partition(" at 0x")[0].lstrip("<").removeprefix("function ").removeprefix("built-in function ")
                   .rstrip(">")] += 1
    return calls, others


def emitted_calls(program):
    """(delegate calls, kernel calls by operator) of the instructions that the runtime will see"""
    kernels, calls = collections.Counter(), 0
    for plan in program.execution_plan:
        for chain in plan.chains:
            for instruction in chain.instructions:
                kind = type(instruction.instr_args).__name__
                if kind == "DelegateCall":
                    calls += 1
                elif kind == "KernelCall":
                    op = plan.operators[instruction.instr_args.op_index]
                    kernels[f"{op.name}.{op.overload}" if op.overload else op.name] += 1
    return calls, kernels


def lower(pt2, backend, pte):
    import torch
    from executorch.exir import to_edge_transform_and_lower
    torch.set_num_threads(1)

    partitioners = []
    if backend == "xnnpack":
        from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
        partitioners.append(XnnpackPartitioner())
    began = time.perf_counter()
    edge = to_edge_transform_and_lower(torch.export.load(pt2), partitioner=partitioners)
    _, edge_nodes = node_targets(edge.exported_program().graph)
    lowered = edge.to_executorch()
    with open(pte, "wb") as f:
        lowered.write_to_file(f)
    seconds = time.perf_counter() - began

    program = lowered.executorch_program
    calls, kernels = emitted_calls(program)
    graph_calls, nodes = node_targets(lowered.exported_program().graph)
    assert calls == graph_calls, (calls, graph_calls)
    size = os.path.getsize(pte)
    return {
        "pte_bytes": size, "pte_size_mb": round(size / 1e6, 2),
        "call_sites": calls,
        "kernel_calls": sum(kernels.values()), "kernels": dict(kernels.most_common()),
        "graph_nodes": sum(nodes.values()), "nodes": dict(nodes.most_common()),
        "edge_graph_nodes": sum(edge_nodes.values()), "edge_nodes": dict(edge_nodes.most_common()),
        "planned_bytes": [list(p.non_const_buffer_sizes) for p in program.execution_plan],
        "seconds": round(seconds, 2),
    }


def one(args):
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    report = {"backend": args.backend}
    try:
        report |= lower(str(args.programs[0]), args.backend, str(args.pte))
    except Exception as e:  # whatever it is, it is the answer that stock ExecuTorch gives
        args.pte.unlink(missing_ok=True)
        report["error"] = f"{type(e).__name__}: {str(e).strip()[:400]}"
    report["process_seconds"] = round(time.perf_counter() - STARTED, 2)
    report["peak_rss_bytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    args.pte.with_suffix(".json").write_text(json.dumps(report, indent=1) + "\n")
    return 0


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("programs", nargs="+", type=pathlib.Path)
    p.add_argument("--backend", choices=[*BACKENDS, "both"], default="both")
    p.add_argument("--out", type=pathlib.Path, help="folder (default: the program's)")
    p.add_argument("--missing", action="store_true", help="only what has no JSON yet")
    p.add_argument("--pte", type=pathlib.Path, help=argparse.SUPPRESS)  # set in the child process
    args = p.parse_args()
    if args.pte:
        return one(args)
    failed = 0
    for path in args.programs:
        pt2 = path / "model.pt2" if path.is_dir() else path
        folder = args.out or pt2.parent
        folder.mkdir(parents=True, exist_ok=True)
        for backend in BACKENDS if args.backend == "both" else [args.backend]:
            pte = folder / f"stock_{backend}.pte"
            if args.missing and pte.with_suffix(".json").exists():
                continue
            child = subprocess.run([sys.executable, __file__, pt2, "--backend", backend, "--pte", pte],
                                   capture_output=True, text=True)
            if child.returncode:
                print(f"{pt2} {backend}: process ended with {child.returncode}\n{child.stderr[-2000:]}")
                failed += 1
                continue
            r = json.loads(pte.with_suffix(".json").read_text())
            failed += "error" in r
            print(f"{pt2.parent.name} {backend}: " + (r.get("error") or
                  "{call_sites} call sites, {kernel_calls} kernel calls ({graph_nodes} nodes), {pte_size_mb} MB, "
                  "{process_seconds} s, {rss:.2f} GB".format(**r, rss=r["peak_rss_bytes"] / 1e9)), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
