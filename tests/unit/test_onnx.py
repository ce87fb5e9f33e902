"""ONNX members: the same network as in torch, with the same examination."""

from __future__ import annotations

import copy
import hashlib
import pickle
import warnings
from pathlib import Path
from typing import Any

import onnx
import onnxruntime
import pytest
import torch
from onnx import helper

from models.addition import Addition, add
from models.errors import ProgramError, TrainingError
from models.registry import load
from models.training.frozen import FrozenClassifier
from smoothcert import Gaussian, Smoothed, verify
from smoothcert.engine.case import certify
from smoothcert.engine.engine import Engine
from smoothcert.engine.ensemble import Ensemble, assemble
from smoothcert.engine.errors import DeviceError, MemberError
from smoothcert.engine.form import prepare
from smoothcert.engine.identity import network_digest
from smoothcert.engine.onnx.network import OnnxNetwork
from smoothcert.engine.onnx.vetting import CONTROL_FLOW, OPERATORS
from smoothcert.procedures import Fixed, Sequential
from smoothcert.question import Question
from tests.support.engines import NOISE, SHAPE, Patches, images
from tests.support.onnx_files import FLOAT, initializer, model_of, patches_file, patches_model, subgraph
from workers.replay import replay

CLASSES = ("a", "b", "c", "d")


def refusal(model: Any) -> str:
    with pytest.raises(MemberError) as error:
        OnnxNetwork(model if isinstance(model, bytes) else model.SerializeToString())
    return str(error.value)


def added(folder: Path, *files: bytes, name: str = "foreign") -> Ensemble:
    paths = [folder / f"member-{place}.onnx" for place in range(len(files))]
    for path, data in zip(paths, files, strict=True):
        path.write_bytes(data)
    return add(name, paths, Addition(CLASSES, SHAPE, noise=NOISE), zoo=folder / "zoo")


# --- the same network


@pytest.mark.parametrize("rows", ["n", 1, 5, 64])
def test_its_logits_are_those_of_the_network_whatever_the_batch_dimension(rows: int | str) -> None:
    form = prepare(OnnxNetwork(patches_file(rows=rows)), name="m", classes=4, input_shape=SHAPE, batch=32)
    assert form.kind == "onnxruntime"
    x = torch.rand(70, *SHAPE)
    with torch.no_grad():
        assert torch.allclose(form(x), Patches(0).eval()(x), atol=1e-5)


def test_an_older_file_lists_its_tensors_among_the_inputs() -> None:
    model = patches_model()
    for tensor in model.graph.initializer:
        model.graph.input.append(helper.make_tensor_value_info(tensor.name, FLOAT, tensor.dims))
    x = torch.rand(3, *SHAPE)
    assert torch.allclose(OnnxNetwork(model.SerializeToString())(x), OnnxNetwork(patches_file())(x), atol=1e-6)


def test_copies_have_the_same_file_and_other_sessions() -> None:
    network, x = OnnxNetwork(patches_file()), torch.rand(3, *SHAPE)
    logits = network(x)
    for other in (copy.deepcopy(network), pickle.loads(pickle.dumps(network))):
        assert not other._sessions
        assert torch.equal(other(x), logits)
        assert network_digest(other) == network_digest(network)
    assert network_digest(OnnxNetwork(patches_file(1))) != network_digest(network)


def test_it_computes_in_float32() -> None:
    with pytest.raises(MemberError, match=r"computes in float32, and the images are torch\.bfloat16"):
        prepare(OnnxNetwork(patches_file()), name="m", classes=4, input_shape=SHAPE, precision="bfloat16")


def test_a_device_that_onnxruntime_does_not_have_is_named() -> None:
    with pytest.raises(DeviceError, match=r"cannot compute on 'meta' here: it has .*CPUExecutionProvider"):
        OnnxNetwork(patches_file())(torch.zeros(1, *SHAPE, device="meta"))


# --- the same examination


def test_a_network_that_mixes_the_images_of_a_batch_is_refused() -> None:
    nodes = [
        helper.make_node("ReduceMean", ["x"], ["m"], axes=[0], keepdims=1),
        helper.make_node("Sub", ["x", "m"], ["centred"]),
        helper.make_node("Flatten", ["centred"], ["flat"]),
        helper.make_node("MatMul", ["flat", "w"], ["logits"]),
    ]
    model = model_of(nodes, [initializer("w", torch.rand(48, 4).numpy())])
    with pytest.raises(MemberError, match="different logits when other images are beside it"):
        prepare(OnnxNetwork(model.SerializeToString()), name="m", classes=4, input_shape=SHAPE)


def test_another_number_of_classes_is_refused(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(patches_file())
    with pytest.raises(MemberError, match=r"m\.onnx: .* logits of shape \(\d+, 4\), not \(\d+, 3\)"):
        add("x", [tmp_path / "m.onnx"], Addition(CLASSES[:3], SHAPE, noise=NOISE), zoo=tmp_path / "zoo")
    assert not list((tmp_path / "zoo").iterdir())


def test_images_of_another_shape_are_refused(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(patches_file())
    with pytest.raises(ProgramError, match=r"m\.onnx: the program cannot take images of shape \(2, 3, 8, 8\)"):
        add("x", [tmp_path / "m.onnx"], Addition(CLASSES, (3, 8, 8), noise=NOISE), zoo=tmp_path / "zoo")


# --- an error is an error


def brittle() -> OnnxNetwork:
    """A network that fails on an image whose first pixel is 10 or more, because it looks up row `int(pixel)` of ten."""
    nodes = [
        helper.make_node("Flatten", ["x"], ["flat"]),
        helper.make_node("Gather", ["flat", "first"], ["pixel"], axis=1),
        helper.make_node("Abs", ["pixel"], ["positive"]),
        helper.make_node("Cast", ["positive"], ["row"], to=onnx.TensorProto.INT64),
        helper.make_node("Gather", ["table", "row"], ["logits"], axis=0),
    ]
    table = torch.arange(4.0).expand(10, 4).numpy()
    first = torch.tensor(0).numpy()
    return OnnxNetwork(model_of(nodes, [initializer("table", table), initializer("first", first)]).SerializeToString())


def test_an_error_in_a_batch_is_an_error_and_never_a_vote() -> None:
    voters = assemble([brittle()], classes=CLASSES, input_shape=SHAPE, batch=32)
    with Engine(voters, batch=32) as engine:
        calm = Question(Gaussian(0.25), Fixed(n0=32, n=256))
        (certificate,) = certify(engine, images(1), calm, seed="s")
        assert certificate.class_index == 3
        assert certificate.counts.total == certificate.samples
        with pytest.raises(MemberError, match=r"onnxruntime cannot run the network: .*out of data bounds"):
            certify(engine, images(1), Question(Gaussian(4.0), Fixed(n0=32, n=4096)), seed="s")
        (again,) = certify(engine, images(1), calm, seed="s")
        assert again.counts == certificate.counts


def test_the_wrong_number_of_rows_is_an_error() -> None:
    nodes = [
        helper.make_node("Flatten", ["x"], ["flat"]),
        helper.make_node("Slice", ["flat", "start", "stop", "columns"], ["some"]),
        helper.make_node("ReduceSum", ["some", "rows"], ["logits"], keepdims=1),
    ]
    numbers = {"start": [0], "stop": [4], "columns": [1], "rows": [0]}
    model = model_of(nodes, [initializer(name, torch.tensor(value).numpy()) for name, value in numbers.items()])
    with pytest.raises(MemberError, match=r"returns shape \(1, 4\) for 2 images"):
        OnnxNetwork(model.SerializeToString())(torch.zeros(2, *SHAPE))


def test_a_denoiser_cannot_be_trained_in_front_of_it(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(patches_file())
    with pytest.raises(TrainingError, match=r"m\.onnx: onnxruntime computes no gradients"):
        FrozenClassifier.read(tmp_path / "m.onnx", classes=4, input_shape=SHAPE, device="cpu")


def test_it_is_not_traced() -> None:
    """A trace would hold the logits of one batch as constants. Torch runs it if another runtime traces members."""
    network = OnnxNetwork(patches_file())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(MemberError, match="an ONNX member cannot be traced"):
            torch.jit.trace(network, torch.zeros(1, *SHAPE))


# --- in the zoo


def test_an_ensemble_of_files_is_certified_and_replayed_from_the_zoo_alone(tmp_path: Path) -> None:
    added(tmp_path, patches_file(0), patches_file(1, rows=8))
    for path in tmp_path.glob("*.onnx"):
        path.unlink()
    voters = load("foreign", zoo=tmp_path / "zoo", batch=32)
    assert [member.identity.architecture for member in voters.members] == ["onnx", "onnx"]
    assert voters.members[0].digest == hashlib.sha256(patches_file(0)).hexdigest()
    with Engine(voters, batch=32) as engine:
        (certificate,) = certify(engine, images(1), Question(NOISE, Sequential(max_samples=1000), 0.1), seed="s")
    assert certificate.provenance is not None
    assert certificate.provenance.versions["onnxruntime"] == onnxruntime.__version__
    assert verify(certificate)
    again = replay(certificate, images(1)[0], zoo=tmp_path / "zoo")
    assert not again.differences
    assert not again.remarks


def test_a_torch_ensemble_names_no_other_library() -> None:
    voters = assemble([Patches(0)], classes=CLASSES, input_shape=SHAPE)
    assert voters.libraries == {}


def test_an_ensemble_may_mix_torch_and_onnx() -> None:
    voters = assemble([OnnxNetwork(patches_file(0)), Patches(1)], classes=CLASSES, input_shape=SHAPE)
    x = torch.rand(9, *SHAPE)
    with torch.no_grad():
        expected = torch.stack([Patches(0).eval()(x), Patches(1).eval()(x)])
    assert torch.allclose(voters.logits(x), expected, atol=1e-5)


# --- bad input


@pytest.mark.parametrize("operator", sorted(CONTROL_FLOW))
def test_control_flow_is_refused(operator: str) -> None:
    node = helper.make_node(operator, ["x"], ["unused"], body=subgraph())
    assert f"uses control flow ({operator}); a network must do the same" in refusal(patches_model(extra=[node]))


def test_a_file_that_is_refused_is_not_half_added(tmp_path: Path) -> None:
    node = helper.make_node("Loop", ["x"], ["unused"], body=subgraph())
    with pytest.raises(ProgramError, match=r"member-1\.onnx: .*uses control flow \(Loop\)"):
        added(tmp_path, patches_file(), patches_model(extra=[node]).SerializeToString())
    assert not list((tmp_path / "zoo").iterdir())


def test_a_graph_inside_any_node_is_refused() -> None:
    assert "control flow (Relu)" in refusal(patches_model(extra=[helper.make_node("Relu", ["x"], ["u"], g=subgraph())]))
    node = helper.make_node("Relu", ["x"], ["unused"])
    node.attribute.append(helper.make_attribute("several", [subgraph()]))
    assert "control flow (Relu)" in refusal(patches_model(extra=[node]))


@pytest.mark.parametrize("domain", ["com.microsoft", "ai.onnx.ml", "evil"])
def test_a_custom_operator_is_refused(domain: str) -> None:
    node = helper.make_node("Relu", ["x"], ["unused"], domain=domain)
    sentence = refusal(patches_model(extra=[node], domains=[domain]))
    assert f"uses the custom operator {domain}.Relu; only" in sentence


@pytest.mark.parametrize(
    "operator",
    ["RandomNormalLike", "Bernoulli", "Multinomial", "ImageDecoder", "StringConcat", "SequenceEmpty", "LSTM"],
)
def test_what_a_classifier_does_not_need_is_refused(operator: str) -> None:
    sentence = refusal(patches_model(extra=[helper.make_node(operator, ["x"], ["unused"])]))
    assert f"uses the operator {operator}; only the operators of image classifiers are accepted" in sentence


def test_the_operators_are_of_onnx_draw_no_random_numbers_and_have_no_graphs() -> None:
    schemas = {schema.name: schema for schema in onnx.defs.get_all_schemas() if schema.domain == ""}
    assert set(schemas) >= OPERATORS
    graphs = (onnx.defs.OpSchema.AttrType.GRAPH, onnx.defs.OpSchema.AttrType.GRAPHS)
    for name in OPERATORS:
        kinds = {attribute.type for attribute in schemas[name].attributes.values()}
        assert not kinds & set(graphs), name
        assert name == "Dropout" or "seed" not in schemas[name].attributes, name


def test_functions_training_sparse_tensors_and_texts_are_refused() -> None:
    model = patches_model()
    model.functions.append(
        helper.make_function("mine", "Twice", ["a"], ["b"], [helper.make_node("Add", ["a", "a"], ["b"])],
                             [helper.make_opsetid("", 17)])
    )  # fmt: skip
    assert "functions of its own (mine.Twice)" in refusal(model)
    model = patches_model()
    model.training_info.add()
    assert "a graph for training" in refusal(model)
    model = patches_model()
    model.graph.sparse_initializer.add()
    assert "sparse tensors" in refusal(model)
    model = patches_model()
    model.graph.initializer.append(helper.make_tensor("words", onnx.TensorProto.STRING, [1], [b"x"]))
    assert "has strings ('words')" in refusal(model)


def test_training_mode_is_refused() -> None:
    model = patches_model()
    model.graph.node[1].attribute.append(helper.make_attribute("training_mode", 1))
    assert "exported in training mode: BatchNormalization" in refusal(model)
    node = helper.make_node("Dropout", ["x", "", "on"], ["unused"])
    model = patches_model(extra=[node])
    assert "exported in training mode: Dropout" in refusal(model)
    model.graph.initializer.append(initializer("on", torch.tensor(True).numpy()))
    assert "exported in training mode: Dropout" in refusal(model)
    model.graph.initializer.pop()
    model.graph.initializer.append(initializer("on", torch.tensor(False).numpy()))
    OnnxNetwork(model.SerializeToString())


def test_inputs_and_outputs_are_those_of_a_classifier() -> None:
    model = patches_model()
    model.graph.input.append(helper.make_tensor_value_info("y", FLOAT, [1]))
    assert "has 2 inputs (x, y); it must have one" in refusal(model)
    assert "is of FLOAT16; it must be FLOAT" in refusal(patches_model(kind=onnx.TensorProto.FLOAT16))
    assert "has 2 outputs (c, d); it must have one" in refusal(patches_model(outputs=("c", "d")))
    OnnxNetwork(patches_model(outputs=("c", "logits")).SerializeToString())
    model = patches_model()
    del model.graph.input[0].type.tensor_type.shape.dim[3]
    assert "has 3 dimensions; it must be [N, C, H, W]" in refusal(model)


@pytest.mark.parametrize("data", [b"", b"nonsense", patches_file()[:-50], b"\x80\x02}q\x00."])
def test_what_is_not_onnx_is_refused(data: bytes) -> None:
    assert "not an ONNX file" in refusal(data)


# --- tensors in other files


def externally(folder: Path, location: str, **more: str) -> Path:
    """A file whose last layer keeps its weights elsewhere; returns the path of the file."""
    model = patches_model()
    (tensor,) = (each for each in model.graph.initializer if each.name == "fc_weight")
    (folder / "weights.bin").write_bytes(b"....." + tensor.raw_data)
    entries = {"location": location, "offset": "5", "length": str(len(tensor.raw_data)), **more}
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=value)
    (folder / "m.onnx").write_bytes(model.SerializeToString())
    return folder / "m.onnx"


def test_tensors_in_the_same_folder_are_taken_into_the_file(tmp_path: Path) -> None:
    path = externally(tmp_path, "weights.bin")
    voters = add("x", [path], Addition(CLASSES, SHAPE, noise=NOISE), zoo=tmp_path / "zoo")
    assert sorted(each.name for each in (tmp_path / "zoo" / "x").iterdir()) == ["ensemble.toml", "m.onnx"]
    x = torch.rand(5, *SHAPE)
    with torch.no_grad():
        assert torch.allclose(voters.logits(x)[0], Patches(0).eval()(x), atol=1e-5)
    assert torch.equal(OnnxNetwork.read(path)(x), OnnxNetwork(patches_file())(x))


@pytest.mark.parametrize("location", ["/etc/passwd", "../weights.bin", "a/../../weights.bin", "", "a\\b", "a\0b"])
def test_tensors_outside_of_the_folder_are_refused(tmp_path: Path, location: str) -> None:
    path = externally(tmp_path, location)
    with pytest.raises(ProgramError, match=r"tensor 'fc_weight' at .* outside of its folder; only files beside"):
        add("x", [path], Addition(CLASSES, SHAPE, noise=NOISE), zoo=tmp_path / "zoo")
    assert not list((tmp_path / "zoo").iterdir())


def test_links_missing_files_and_wrong_places_are_refused(tmp_path: Path) -> None:
    (tmp_path / "outside").write_bytes(b"." * 9999)
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "link.bin").symlink_to(tmp_path / "outside")
    (inner / "folder").symlink_to(tmp_path)
    for location, more, words in [
        ("link.bin", {}, "'link.bin', which is a link"),
        ("folder/outside", {}, "'folder/outside', which is a link"),
        ("absent.bin", {}, "'absent.bin': No such file"),
        ("weights.bin", {"length": "99999"}, "the bytes 5 to 100004 of 'weights.bin', which has 517"),
        ("weights.bin", {"offset": "-3"}, "the bytes -3 to "),
        ("weights.bin", {"offset": "x"}, "invalid literal"),
    ]:
        with pytest.raises(MemberError) as error:
            OnnxNetwork.read(externally(inner, location, **more))
        assert words in str(error.value)


def test_a_file_of_the_zoo_has_no_tensors_elsewhere(tmp_path: Path) -> None:
    assert "'fc_weight' in another file, 'weights.bin'" in refusal(externally(tmp_path, "weights.bin").read_bytes())


# --- Smoothed


def test_smoothed_takes_the_network_and_the_name_of_its_file(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(patches_file())
    batch = torch.stack(images(2))
    found = []
    for given in (OnnxNetwork.read(path), path, str(path)):
        with Smoothed(given, NOISE, classes=list(CLASSES)) as smoothed:
            certificates = smoothed.certify(batch, 0.05, procedure=Sequential(max_samples=1000), seed="s")
        assert all(each.provenance and "onnxruntime" in each.provenance.versions for each in certificates)
        found.append([each.counts for each in certificates])
    assert found[0] == found[1] == found[2]


def test_diagnose_says_what_normalisation_an_onnx_network_needs(tmp_path: Path) -> None:
    """The network compares the mean of its pixels with 127.5, so it was made for pixels from 0 to 255."""
    nodes = [
        helper.make_node("ReduceMean", ["x"], ["level"], axes=[1, 2, 3], keepdims=0),
        helper.make_node("Sub", ["level", "middle"], ["light"]),
        helper.make_node("Neg", ["light"], ["dark"]),
        helper.make_node("Unsqueeze", ["light", "last"], ["l"]),
        helper.make_node("Unsqueeze", ["dark", "last"], ["d"]),
        helper.make_node("Concat", ["d", "l"], ["logits"], axis=1),
    ]
    tensors = [initializer("middle", torch.tensor(127.5).numpy()), initializer("last", torch.tensor([1]).numpy())]
    (tmp_path / "m.onnx").write_bytes(model_of(nodes, tensors, classes=2).SerializeToString())
    batch = torch.linspace(0, 1, 40).view(-1, 1, 1, 1).expand(-1, *SHAPE).clone()
    labels = [int(image.mean() > 0.5) for image in batch]
    found = Smoothed(tmp_path / "m.onnx", NOISE).diagnose(batch, labels)
    (finding,) = (each for each in found.findings if each.name == "input")
    assert "Normalise with mean=0 and std=1/255." in str(finding.advice)
