"""KServe's own server with a model of two classes, dark and light; it runs in an environment that has kserve.

python tests/support/kserve_server.py PORT
"""

from __future__ import annotations

import sys

import numpy as np
from kserve import InferOutput, InferResponse, Model, ModelServer


class Brightness(Model):
    def __init__(self) -> None:
        super().__init__("brightness")
        self.ready = True

    def get_input_types(self) -> list[dict[str, object]]:
        return [{"name": "images", "datatype": "FP32", "shape": [-1, 3, 8, 8]}]

    def get_output_types(self) -> list[dict[str, object]]:
        return [{"name": "logits", "datatype": "FP32", "shape": [-1, 2]}]

    def predict(self, payload, headers=None, response_headers=None):  # type: ignore[no-untyped-def]
        images = payload.inputs[0].as_numpy()
        excess = 9 * (images.mean((1, 2, 3)) - 0.5)
        logits = np.stack([-excess, excess], 1).astype(np.float32)
        output = InferOutput("logits", list(logits.shape), "FP32")
        output.set_data_from_numpy(logits, binary_data=True)
        return InferResponse(payload.id, self.name, [output])


if __name__ == "__main__":
    ModelServer(http_port=int(sys.argv[1]), enable_grpc=False, workers=1).start([Brightness()])
