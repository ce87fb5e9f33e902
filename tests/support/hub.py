"""A hub's cache with tiny models, in the layout of huggingface_hub: files are links into `blobs`."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from torch import Tensor, nn

from smoothcert.engine.vision import mend_torchvision

REVISION = "0123456789abcdef0123456789abcdef01234567"
TIMM = f"timm/resnet10t.test@{REVISION}"
RESNET = f"hf://test/resnet@{REVISION}"
VIT = f"hf://test/vit@{REVISION}"
CLASSES = ("cat", "dog", "ship")
MEAN, STD = (0.5, 0.4, 0.3), (0.2, 0.25, 0.3)
SHAPE = (3, 32, 32)


def as_json(value: Any) -> bytes:
    return json.dumps(value).encode()


def put(cache: Path, repository: str, files: Mapping[str, bytes], revision: str = REVISION) -> Path:
    """Put a model into the cache, as a download does; returns the folder of the snapshot."""
    root = cache / f"models--{repository.replace('/', '--')}"
    snapshot, blobs = root / "snapshots" / revision, root / "blobs"
    snapshot.mkdir(parents=True, exist_ok=True)
    blobs.mkdir(exist_ok=True)
    for name, data in files.items():
        blob = blobs / hashlib.sha256(data).hexdigest()
        blob.write_bytes(data)
        (snapshot / name).unlink(missing_ok=True)
        (snapshot / name).symlink_to(Path("..") / ".." / "blobs" / blob.name)
    return snapshot


def randomised(network: nn.Module, seed: int) -> nn.Module:
    """The network in eval mode, with weights that give its classes different logits."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, tensor in network.state_dict().items():
            if tensor.is_floating_point():
                random = torch.randn(tensor.shape, generator=generator)
                tensor.copy_(random.abs() + 0.5 if name.endswith("running_var") else 0.3 * random)
    return network.eval()


def timm_network(seed: int = 0) -> nn.Module:
    mend_torchvision()
    import timm

    return randomised(timm.create_model("resnet10t", num_classes=3, **TIMM_ARGUMENTS), seed)


TIMM_ARGUMENTS = {"channels": [8, 8, 16, 16], "stem_width": 8}


def timm_files(seed: int = 0, **changed: Any) -> dict[str, bytes]:
    config = {
        "architecture": "resnet10t",
        "num_classes": 3,
        "num_features": 16,
        "model_args": TIMM_ARGUMENTS,
        "label_names": list(CLASSES),
        "pretrained_cfg": {"input_size": SHAPE, "mean": MEAN, "std": STD, "num_classes": 3, "interpolation": "bicubic"},
        **changed,
    }
    return {"config.json": as_json(config), "model.safetensors": save(plain_state(timm_network(seed)))}


def plain_state(network: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.contiguous() for name, tensor in network.state_dict().items()}


PREPROCESSOR = {
    "do_resize": True,
    "size": {"height": 32, "width": 32},
    "do_rescale": True,
    "rescale_factor": 1 / 255,
    "do_normalize": True,
    "image_mean": MEAN,
    "image_std": STD,
    "image_processor_type": "ViTImageProcessor",
}


def transformers_network(kind: str, seed: int = 0) -> Any:
    """A tiny classifier of transformers, `resnet` or `vit`."""
    mend_torchvision()
    import transformers

    labels = {"num_labels": 3, "id2label": dict(enumerate(CLASSES)), "label2id": {c: i for i, c in enumerate(CLASSES)}}
    if kind == "resnet":
        config: Any = transformers.ResNetConfig(
            embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic", **labels
        )
        return randomised(transformers.ResNetForImageClassification(config), seed)
    config = transformers.ViTConfig(
        hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32, image_size=32, patch_size=8,
        **labels,
    )  # fmt: skip
    return randomised(transformers.ViTForImageClassification(config), seed)


def transformers_files(folder: Path, network: Any, **changed: Any) -> dict[str, bytes]:
    """The files that `save_pretrained` writes, and a preprocessor; `changed` are keys of config.json.

    The network may be the name of one of `transformers_network`.
    """
    from transformers.utils import logging

    logging.disable_progress_bar()
    chosen = transformers_network(network) if isinstance(network, str) else network
    chosen.save_pretrained(folder)
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    files["config.json"] = as_json({**json.loads(files["config.json"]), **changed})
    return files | {"preprocessor_config.json": as_json(PREPROCESSOR)}


def normalised(x: Tensor) -> Tensor:
    return (x - torch.tensor(MEAN).view(1, 3, 1, 1)) / torch.tensor(STD).view(1, 3, 1, 1)


@contextmanager
def serving(repository: str, files: Mapping[str, bytes]) -> Iterator[tuple[str, list[str]]]:
    """A server with as much of the hub's protocol as a download needs: its address, and the paths of its requests.

    It has `files` of one repository at REVISION, and answers 404 to everything else.
    """
    paths: list[str] = []
    listed = [{"type": "file", "path": name, "size": len(data), "oid": "0" * 40} for name, data in files.items()]

    class Hub(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            paths.append(self.path)
            content = self._content()
            self.send_response(404 if content is None else 200)
            self.send_header("Content-Length", str(len(content or b"")))
            self.send_header("X-Repo-Commit", REVISION)
            self.send_header("ETag", f'"{hashlib.sha256(content or b"").hexdigest()}"')
            self.end_headers()

        def do_GET(self) -> None:
            self.do_HEAD()
            self.wfile.write(self._content() or b"")

        def _content(self) -> bytes | None:
            path = self.path.partition("?")[0]
            if path == f"/api/models/{repository}/tree/{REVISION}":
                return as_json(listed)
            return files.get(path.removeprefix(f"/{repository}/resolve/{REVISION}/"))

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", paths
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
