"""Members that are ONNX files, run by onnxruntime. This needs the extra `onnx`."""
