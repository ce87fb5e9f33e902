"""An ONNX file as a member: a torch module whose logits onnxruntime computes.

It computes in float32 on the device of the images, the CPU or a CUDA device. The batch dimension of the file may be
free or fixed. If it is fixed, a batch is run in pieces of that size, and the last piece is padded.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from smoothcert.engine.errors import DeviceError, MemberError, reason
from smoothcert.engine.onnx.vetting import vetted, whole
from smoothcert.extras import needed_by

with needed_by("an ONNX member"):
    import onnx
    import onnxruntime

VERSION: str = onnxruntime.__version__
PROVIDERS = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}
"""The execution provider of onnxruntime for each type of device."""
_OUT_OF_MEMORY = ("Failed to allocate memory", "bad_alloc", "out of memory")
"""The words in the errors of onnxruntime that report a lack of memory; there is no error class for it."""


class OnnxNetwork(nn.Module):
    """The classifier in an ONNX file, after vetting. It maps images [N, C, H, W] to logits [N, classes]."""

    def __init__(self, data: bytes) -> None:
        super().__init__()
        model = vetted(data)
        self.input, self.rows = _image_input(model.graph)
        self.output = _logits_output(model.graph)
        self._data: bytes = model.SerializeToString(deterministic=True)
        self._sha256 = hashlib.sha256(self._data).hexdigest()
        self._sessions: dict[torch.device, Any] = {}
        self.eval()

    @classmethod
    def read(cls, path: Path) -> OnnxNetwork:
        """Read the network in a file, including tensors that are in other files of the same folder."""
        try:
            return cls(whole(path))
        except OSError as error:
            raise MemberError(f"{path}: {error.strerror}") from error
        except MemberError as error:
            raise MemberError(f"{path}: {error}") from error

    def forward(self, x: Tensor) -> Tensor:
        if x.dtype != torch.float32:
            raise MemberError(f"an ONNX member computes in float32, and the images are {x.dtype}")
        # A trace would contain the logits of one batch as constants.
        if torch.jit.is_tracing():  # type: ignore[attr-defined, no-untyped-call]
            raise MemberError("an ONNX member cannot be traced: onnxruntime computes it")
        session = self._session(x.device)
        if self.rows is None:
            return self._run(session, x)
        return torch.cat([self._run_padded(session, part, self.rows) for part in torch.split(x, self.rows)])

    def optimised(self, device: torch.device, dtype: torch.dtype) -> tuple[nn.Module, str]:
        """This network itself: onnxruntime optimises the graph when it reads it (see `engine.form`)."""
        return self, "onnxruntime"

    def library_versions(self) -> dict[str, str]:
        """The version of onnxruntime, for certificates."""
        return {"onnxruntime": VERSION}

    def extra_repr(self) -> str:
        """The digest of the file, so that `network_digest` covers it."""
        return f"sha256={self._sha256}"

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the sessions: a copy starts its own."""
        return {**vars(self), "_sessions": {}}

    def _run_padded(self, session: Any, images: Tensor, rows: int) -> Tensor:
        missing = rows - len(images)
        padded = torch.cat([images, images.new_zeros(missing, *images.shape[1:])]) if missing else images
        return self._run(session, padded)[: len(images)]

    def _run(self, session: Any, images: Tensor) -> Tensor:
        images = images.contiguous()
        try:
            if images.device.type == "cpu":
                (logits,) = session.run([self.output], {self.input: images.numpy()})
            else:
                logits = self._run_bound(session, images)
        except Exception as error:  # onnxruntime's errors have no common class of their own
            if any(words in str(error) for words in _OUT_OF_MEMORY):
                raise torch.OutOfMemoryError(str(error)) from error
            raise MemberError(f"onnxruntime cannot run the network: {reason(error)}") from error
        found = torch.from_numpy(logits).to(images.device, torch.float32)
        if len(found) != len(images):
            raise MemberError(f"the ONNX network returns shape {tuple(found.shape)} for {len(images)} images")
        return found

    def _run_bound(self, session: Any, images: Tensor) -> Any:
        """The logits, in host memory, of images that stay on their CUDA device."""
        index = images.device.index or 0
        torch.cuda.current_stream(
            images.device
        ).synchronize()  # onnxruntime uses a stream of its own, and must not read too early
        binding = session.io_binding()
        binding.bind_input(self.input, "cuda", index, "float32", list(images.shape), images.data_ptr())
        binding.bind_output(self.output, "cpu")
        session.run_with_iobinding(binding)
        return binding.copy_outputs_to_cpu()[0]

    def _session(self, device: torch.device) -> Any:
        if device not in self._sessions:
            self._sessions[device] = _start(self._data, device)
        return self._sessions[device]


def _start(data: bytes, device: torch.device) -> Any:
    """A session on this device; DeviceError where onnxruntime cannot compute there."""
    provider = PROVIDERS.get(device.type)
    available = onnxruntime.get_available_providers()
    if provider is None or provider not in available:
        raise DeviceError(
            f"onnxruntime {VERSION} cannot compute on {str(device)!r} here: it has "
            f"{', '.join(available)}{'; onnxruntime-gpu has CUDA' if device.type == 'cuda' else ''}"
        )
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.use_deterministic_compute = True
    options.log_severity_level = 3  # 3 stands for errors, which are also raised
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # waiting threads sleep
    chosen = (provider, {"device_id": device.index or 0}) if device.type == "cuda" else provider
    try:
        session = onnxruntime.InferenceSession(data, options, providers=[chosen])
    except Exception as error:  # onnxruntime's errors have no common class of their own
        raise MemberError(f"onnxruntime cannot read the network: {reason(error)}") from error
    session.disable_fallback()
    if (first := session.get_providers()[0]) != provider:
        raise DeviceError(f"onnxruntime would compute on {first} and not on {str(device)!r}: see its log")
    return session


def _image_input(graph: Any) -> tuple[str, int | None]:
    """The name of the only input, and its batch dimension if that is fixed."""
    constants = {tensor.name for tensor in graph.initializer}  # older files list these among the inputs
    inputs = [each for each in graph.input if each.name not in constants]
    if len(inputs) != 1:
        names = ", ".join(each.name for each in inputs) or "none"
        raise MemberError(f"the ONNX file has {len(inputs)} inputs ({names}); it must have one, of images [N, C, H, W]")
    (images,) = inputs
    tensor = images.type.tensor_type
    if tensor.elem_type != onnx.TensorProto.FLOAT:
        kind = onnx.TensorProto.DataType.Name(tensor.elem_type)
        raise MemberError(f"the input {images.name!r} of the ONNX file is of {kind}; it must be FLOAT, in [0, 1]")
    sizes = tensor.shape.dim
    if tensor.HasField("shape") and len(sizes) != 4:
        raise MemberError(
            f"the input {images.name!r} of the ONNX file has {len(sizes)} dimensions; it must be [N, C, H, W]"
        )
    fixed = sizes[0].dim_value if len(sizes) and sizes[0].HasField("dim_value") else 0
    return str(images.name), int(fixed) if fixed > 0 else None


def _logits_output(graph: Any) -> str:
    """The name of the output with the logits: the only output, or the one that is called `logits`."""
    names = [each.name for each in graph.output]
    if len(names) == 1:
        return str(names[0])
    if "logits" in names:
        return "logits"
    raise MemberError(
        f"the ONNX file has {len(names)} outputs ({', '.join(names)}); it must have one, or one that is called logits"
    )
