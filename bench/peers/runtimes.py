"""One class per runtime that is measured. Each is loaded in a process of its own (worker.py).

load(job) makes the model ready; run() computes once, from inputs that lie ready in memory to
outputs that lie ready in memory; outputs() returns those of the last run as numpy arrays, in order.
`job` is a dict: folder (with model_spec.json, inputs.safetensors and model.pt2), cache (the files of
prepare.py), threads, and library (libdownhaul.so) for downhaul.
"""
import ctypes
import json
import os
import pathlib

import numpy as np


def read_inputs(folder):
    """The sample inputs as numpy arrays, in call order."""
    from safetensors.numpy import load_file
    folder = pathlib.Path(folder)
    spec = json.loads((folder / "model_spec.json").read_text())
    tensors = load_file(folder / "inputs.safetensors")
    return [np.ascontiguousarray(tensors[entry["name"]]) for entry in spec["inputs"]]


def flatten(result):
    if isinstance(result, dict):
        return list(result.values())
    return list(result) if isinstance(result, (tuple, list)) else [result]


class TorchEager:
    """torch.export.load(...).module(), operator by operator."""

    @staticmethod
    def import_library():
        import torch  # noqa: F401

    def load(self, job):
        import torch
        torch.set_num_threads(job["threads"])
        torch.set_num_interop_threads(1)
        self.guard = torch.inference_mode()
        self.guard.__enter__()
        self.module = torch.export.load(str(pathlib.Path(job["folder"]) / "model.pt2")).module()
        self.inputs = [torch.from_numpy(x) for x in read_inputs(job["folder"])]

    def run(self):
        self.result = self.module(*self.inputs)

    def outputs(self):
        return [t.detach().numpy() for t in flatten(self.result)]


class TorchCompile(TorchEager):
    """The same module through torch.compile (Inductor), weights frozen and prepacked."""

    def load(self, job):
        os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"  # its pool of compilers would share our pipes
        os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(pathlib.Path(job["cache"]) / "inductor"))
        import torch
        import torch._inductor.config
        torch._inductor.config.freezing = True
        super().load(job)
        # Frozen weights are constants only outside inference mode, as Inductor sees it.
        self.guard.__exit__(None, None, None)
        torch.set_grad_enabled(False)
        self.module = torch.compile(torch.export.load(
            str(pathlib.Path(job["folder"]) / "model.pt2")).module())


class OnnxRuntime:
    @staticmethod
    def import_library():
        import onnxruntime  # noqa: F401

    def load(self, job):
        import onnxruntime
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = job["threads"]
        options.inter_op_num_threads = 1
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
        self.session = onnxruntime.InferenceSession(
            str(pathlib.Path(job["cache"]) / "model.onnx"), options, providers=["CPUExecutionProvider"])
        names = [i.name for i in self.session.get_inputs()]
        self.feeds = dict(zip(names, read_inputs(job["folder"]), strict=True))

    def run(self):
        self.result = self.session.run(None, self.feeds)

    def outputs(self):
        return self.result


class OpenVino:
    precision = "f32"

    @staticmethod
    def import_library():
        import openvino  # noqa: F401

    def load(self, job):
        import openvino
        core = openvino.Core()
        compiled = core.compile_model(str(pathlib.Path(job["cache"]) / "model.onnx"), "CPU", {
            "INFERENCE_NUM_THREADS": job["threads"], "NUM_STREAMS": 1, "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_PRECISION_HINT": self.precision})
        self.request = compiled.create_infer_request()
        self.arrays = read_inputs(job["folder"])  # the tensors only point into them
        for i, x in enumerate(self.arrays):
            self.request.set_input_tensor(i, openvino.Tensor(x, shared_memory=True))
        self.count = len(compiled.outputs)

    def run(self):
        self.request.infer()

    def outputs(self):
        return [np.array(self.request.get_output_tensor(i).data) for i in range(self.count)]


class OpenVinoBf16(OpenVino):
    precision = "bf16"


class ExecuTorch:
    """A .pte in the stock runtime."""
    file = "stock_xnnpack.pte"

    @staticmethod
    def import_library():
        from executorch.runtime import Runtime  # noqa: F401

    def load(self, job):
        from executorch.extension.pybindings import portable_lib
        from executorch.runtime import Runtime, Verification
        import torch
        torch.set_num_threads(1)
        portable_lib._unsafe_reset_threadpool(job["threads"])
        path = pathlib.Path(job["cache"]) / self.file
        self.program = Runtime.get().load_program(str(path), verification=Verification.Minimal)
        self.method = self.program.load_method("forward")
        self.inputs = [torch.from_numpy(x) for x in read_inputs(job["folder"])]

    def run(self):
        self.result = self.method.execute(self.inputs)

    def outputs(self):
        return [t.numpy().copy() for t in flatten(self.result)]


class ExecuTorchOurs(ExecuTorch):
    file = "ours_xnnpack.pte"


class DhInput(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("dtype", ctypes.c_int), ("rank", ctypes.c_int32),
                ("sizes", ctypes.POINTER(ctypes.c_int64)), ("data", ctypes.c_void_p)]


class DhOutput(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("data", ctypes.c_void_p), ("bytes", ctypes.c_size_t)]


class DhInfo(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("dtype", ctypes.c_int), ("rank", ctypes.c_int32),
                ("min_sizes", ctypes.POINTER(ctypes.c_int64)),
                ("max_sizes", ctypes.POINTER(ctypes.c_int64))]


# The numbers of dh_dtype in engine_c.h.
DH_DTYPES = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32",
             "float64"]


class DhSessionOptions(ctypes.Structure):
    _fields_ = [("struct_bytes", ctypes.c_size_t), ("num_threads", ctypes.c_int32),
                ("precision", ctypes.c_int)]


class Downhaul:
    """A file in downhaul's engine, through libdownhaul.so."""

    file = None  # the .pt2 itself
    precision = 0  # DH_PRECISION_F32

    @staticmethod
    def import_library():
        pass

    def check(self, code):
        if code != 0:
            raise RuntimeError(self.library.dh_last_error().decode())

    def load(self, job):
        self.library = ctypes.CDLL(job["library"])
        self.library.dh_last_error.restype = ctypes.c_char_p
        self.library.dh_model_num_outputs.restype = ctypes.c_size_t
        self.model, self.session = ctypes.c_void_p(), ctypes.c_void_p()
        path = (pathlib.Path(job["cache"]) / self.file if self.file
                else pathlib.Path(job["folder"]) / "model.pt2")
        self.check(self.library.dh_model_load(str(path).encode(), None, ctypes.byref(self.model)))
        options = DhSessionOptions(ctypes.sizeof(DhSessionOptions), job["threads"], self.precision)
        self.check(self.library.dh_session_create_with(self.model, ctypes.byref(options),
                                                       ctypes.byref(self.session)))
        self.arrays = read_inputs(job["folder"])
        self.sizes = [(ctypes.c_int64 * x.ndim)(*x.shape) for x in self.arrays]
        self.ins = (DhInput * len(self.arrays))(*[
            DhInput(None, DH_DTYPES.index(str(x.dtype)), x.ndim, sizes, x.ctypes.data)
            for x, sizes in zip(self.arrays, self.sizes, strict=True)])
        self.num_ins = ctypes.c_size_t(len(self.ins))
        self.check(self.library.dh_session_reshape(self.session, self.ins, self.num_ins))
        self.results = []
        for i in range(self.library.dh_model_num_outputs(self.model)):
            index, info = ctypes.c_size_t(i), DhInfo()
            sizes, rank = (ctypes.c_int64 * 16)(), ctypes.c_int32()
            self.check(self.library.dh_model_output(self.model, index, ctypes.byref(info)))
            self.check(self.library.dh_session_output_sizes(self.session, index, sizes, 16,
                                                            ctypes.byref(rank)))
            self.results.append(np.zeros(list(sizes[:rank.value]), DH_DTYPES[info.dtype]))
        self.outs = (DhOutput * len(self.results))(*[
            DhOutput(None, x.ctypes.data, x.nbytes) for x in self.results])
        self.num_outs = ctypes.c_size_t(len(self.outs))

    def run(self):
        code = self.library.dh_session_run(self.session, self.ins, self.num_ins, self.outs,
                                           self.num_outs)
        if code != 0:
            self.check(code)

    def outputs(self):
        return [x.copy() for x in self.results]


class DownhaulXnnpack(Downhaul):
    file = "ours_xnnpack.pte"


class DownhaulPortable(Downhaul):
    file = "ours_portable.pte"


class DownhaulBf16(Downhaul):
    """The .pt2 with linear layers in bf16."""
    precision = 1  # DH_PRECISION_BF16


RUNTIMES = {
    "downhaul .pt2": Downhaul,
    "downhaul xnnpack .pte": DownhaulXnnpack,
    "downhaul portable .pte": DownhaulPortable,
    "OpenVINO": OpenVino,
    "ONNX Runtime": OnnxRuntime,
    "torch.compile": TorchCompile,
    "torch eager": TorchEager,
    "ExecuTorch XNNPACK": ExecuTorch,
    "our .pte in ExecuTorch": ExecuTorchOurs,
    "OpenVINO bf16": OpenVinoBf16,
    "downhaul .pt2 bf16": DownhaulBf16,
}
# What a ratio is taken to: the fastest of these in f32.
F32_PEERS = ["OpenVINO", "ONNX Runtime", "torch.compile", "torch eager", "ExecuTorch XNNPACK"]
