"""Models of the hub: their configurations are taken over, and no code of a repository is executed."""

from __future__ import annotations

import hashlib
import json
import shutil
import tomllib
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from huggingface_hub import constants
from safetensors.torch import save, save_file
from torch import Tensor, nn

from models.addition import Addition, add
from models.errors import FileError, RegistryError
from models.registry import load
from smoothcert import Gaussian, Smoothed, verify
from smoothcert.engine.case import certify
from smoothcert.engine.engine import Engine
from smoothcert.engine.errors import ClassCountError, MemberError
from smoothcert.engine.hub.pretrained import Pretrained, build
from smoothcert.engine.hub.reference import Reference
from smoothcert.engine.hub.stated import distinct
from smoothcert.engine.normalisation import Normalisation
from smoothcert.errors import SmoothcertError
from smoothcert.procedures import Sequential
from smoothcert.question import Question
from tests.support import hub
from tests.support.hub import CLASSES, MEAN, RESNET, REVISION, SHAPE, STD, TIMM, VIT, as_json, put
from tests.support.models_command import models
from workers.replay import replay

NOISE = Gaussian(0.25)
QUICK = Sequential(max_samples=1000)
X = torch.rand(6, *SHAPE, generator=torch.Generator().manual_seed(3))


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache with a model of timm and two of transformers."""
    cache = tmp_path_factory.mktemp("hub")
    put(cache, "timm/resnet10t.test", hub.timm_files())
    for kind in ("resnet", "vit"):
        put(cache, f"test/{kind}", hub.transformers_files(tmp_path_factory.mktemp(kind), kind))
    return cache


@pytest.fixture
def cache(filled: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(filled))
    return filled


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache and no network: nothing listens at the hub's address."""
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("time.sleep", lambda seconds: None)  # huggingface_hub retries five times, slower each
    point_at("http://127.0.0.1:9", monkeypatch)
    return tmp_path / "cache"


def point_at(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the hub be at this address, as the variable HF_ENDPOINT does for a new process."""
    template = constants.HUGGINGFACE_CO_URL_TEMPLATE.removeprefix(constants.ENDPOINT)
    monkeypatch.setattr(constants, "ENDPOINT", address)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", address + template)


def expected(name: str) -> Tensor:
    """The logits that the library itself computes."""
    x = hub.normalised(X)
    with torch.no_grad():
        if name == TIMM:
            return hub.timm_network()(x)  # type: ignore[no-any-return]
        return hub.transformers_network("resnet" if name == RESNET else "vit")(x).logits  # type: ignore[no-any-return]


# --- from the name to a certificate


@pytest.mark.parametrize("name", [TIMM, RESNET, VIT])
def test_a_model_of_the_hub_becomes_an_ensemble_that_the_zoo_alone_holds(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    add("pretrained", [name], Addition(noise=NOISE), zoo=tmp_path / "zoo")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "nothing"))
    voters = load("pretrained", zoo=tmp_path / "zoo", batch=32)
    assert (voters.classes, voters.input_shape) == (CLASSES, SHAPE)
    assert torch.allclose(voters.logits(X)[0], expected(name), atol=1e-4)
    with Engine(voters, batch=32) as engine:
        (certificate,) = certify(engine, X[:1], Question(NOISE, QUICK, 0.1), seed="s")
    library = "timm" if name == TIMM else "transformers"
    assert certificate.provenance is not None
    assert certificate.provenance.versions[library] == version(library)
    assert verify(certificate)
    again = replay(certificate, X[0], zoo=tmp_path / "zoo")
    assert not again.differences
    assert not again.remarks


def test_the_zoo_says_where_a_model_came_from(cache: Path, tmp_path: Path) -> None:
    add("x", [TIMM], Addition(noise=NOISE), zoo=tmp_path)
    stated = tomllib.loads((tmp_path / "x" / "ensemble.toml").read_text())
    (member,) = stated["members"]
    files = {"config.json", "model.safetensors"}
    snapshot = cache / Reference.parse(TIMM).folder
    assert stated["architecture"] == "timm/resnet10t"
    assert stated["normalisation"] == {"mean": list(MEAN), "std": list(STD)}
    assert member["training"]["source"] == f"hf://timm/resnet10t.test@{REVISION}"
    assert member["training"]["library"] == f"timm {version('timm')}"
    assert member["training"]["files"] == {
        name: hashlib.sha256((snapshot / name).read_bytes()).hexdigest() for name in files
    }


def test_the_configuration_is_a_part_of_the_digest(cache: Path, tmp_path: Path) -> None:
    """Two ViTs with the same tensors and a different number of attention heads are different classifiers."""
    files = {name: (cache / Reference.parse(VIT).folder / name).read_bytes() for name in
             ("config.json", "model.safetensors", "preprocessor_config.json")}  # fmt: skip
    one = add("one", [VIT], Addition(noise=NOISE), zoo=tmp_path / "zoo")
    config = {**json.loads(files["config.json"]), "num_attention_heads": 4}
    folder = put(tmp_path, "test/other", {**files, "config.json": as_json(config)})
    other = add("other", [folder], Addition(noise=NOISE), zoo=tmp_path / "zoo")
    assert not torch.allclose(one.logits(X), other.logits(X))
    assert one.members[0].digest != other.members[0].digest


def test_a_folder_of_save_pretrained_is_taken_as_it_is(tmp_path: Path) -> None:
    for name, data in hub.transformers_files(tmp_path / "written", "resnet").items():
        (tmp_path / "written" / name).write_bytes(data)
    voters = add("x", [tmp_path / "written"], Addition(noise=NOISE), zoo=tmp_path / "zoo")
    assert torch.allclose(voters.logits(X)[0], expected(RESNET), atol=1e-4)


def test_members_of_two_libraries_vote_together(cache: Path, tmp_path: Path) -> None:
    voters = add("x", [TIMM, RESNET], Addition(noise=NOISE), zoo=tmp_path)
    assert [member.identity.architecture for member in voters.members] == [
        "timm/resnet10t", "transformers/ResNetForImageClassification",
    ]  # fmt: skip
    assert set(voters.libraries) == {"timm", "transformers"}
    assert torch.allclose(voters.logits(X), torch.stack([expected(TIMM), expected(RESNET)]), atol=1e-4)


def test_a_classifier_of_the_hub_goes_behind_denoisers(cache: Path, tmp_path: Path) -> None:
    from models.architectures import build_denoiser

    save_file(build_denoiser("dncnn-half-8x48", channels=3).state_dict(), tmp_path / "d.safetensors")
    addition = Addition(noise=NOISE, classifier=RESNET, denoiser="dncnn-half-8x48")
    voters = add("x", [tmp_path / "d.safetensors"], addition, zoo=tmp_path / "zoo")
    assert voters.classes == CLASSES
    assert voters.members[0].identity.architecture == "dncnn-half-8x48 > transformers/ResNetForImageClassification"
    assert set(voters.libraries) == {"transformers"}


def test_an_architecture_of_timm_takes_a_state_dict(tmp_path: Path) -> None:
    import timm

    network = hub.randomised(timm.create_model("test_resnet", num_classes=3), 0)
    torch.save(network.state_dict(), tmp_path / "m.pt")
    addition = Addition(CLASSES, SHAPE, architecture="timm/test_resnet", noise=NOISE)
    voters = add("x", [tmp_path / "m.pt"], addition, zoo=tmp_path / "zoo")
    with torch.no_grad():
        assert torch.allclose(voters.logits(X)[0], network(X), atol=1e-3)


def test_the_command_adds_shows_and_diagnoses(cache: Path, tmp_path: Path) -> None:
    zoo = ("--zoo", tmp_path / "zoo")
    done = models("add", "mine", VIT, "--sigma", 0.25, *zoo)
    assert done.returncode == 0, done.stderr
    shown = models("show", "mine", *zoo).stdout
    assert "transformers/ViTForImageClassification" in " ".join(shown.split())
    labels = expected(VIT).argmax(1)
    pixels = (X * 255).round().byte().permute(0, 2, 3, 1).numpy()
    np.savez(tmp_path / "d.npz", images=pixels, labels=labels.numpy())
    done = models("diagnose", "mine", "--data", tmp_path / "d.npz", *zoo)
    assert done.returncode == 0, done.stderr
    assert "100 % of 6 images are classified correctly without noise" in done.stdout


# --- Smoothed


@pytest.mark.parametrize("name", [TIMM, RESNET])
def test_smoothed_takes_names_and_objects(cache: Path, name: str) -> None:
    network: nn.Module = hub.timm_network() if name == TIMM else hub.transformers_network("resnet")
    folder = cache / Reference.parse(name).folder
    found = []
    for model, options in [
        (name, {}),
        (folder, {}),
        (str(folder), {}),
        (network, {"mean": MEAN, "std": STD, "classes": list(CLASSES)}),
    ]:
        with Smoothed(model, NOISE, **options) as smoothed:  # type: ignore[arg-type]
            assert torch.allclose(smoothed._session.ensemble(X).logits(X)[0], expected(name), atol=1e-4)
            found.append(smoothed.certify(X[:1], 0.1, procedure=QUICK, seed="s")[0])
    assert {each.class_name for each in found} <= {*CLASSES, None}
    assert {each.decision for each in found} == {found[0].decision}


def test_mean_and_std_of_the_user_replace_those_of_the_configuration(cache: Path) -> None:
    with Smoothed(RESNET, NOISE, mean=0, std=1) as smoothed, torch.no_grad():
        logits = smoothed._session.ensemble(X).logits(X)[0]
        assert torch.allclose(logits, hub.transformers_network("resnet")(X).logits, atol=1e-4)


def test_diagnose_knows_the_normalisation_of_the_configuration(tmp_path: Path) -> None:
    """The labels are those of the model without its normalisation, so `diagnose` advises to leave it out."""
    coarse = torch.rand(60, 3, 2, 2, generator=torch.Generator().manual_seed(1))
    batch = nn.functional.interpolate(coarse, size=SHAPE[1:])
    network = hub.transformers_network("vit")
    with torch.no_grad():
        network.classifier.bias -= network(batch).logits.mean(0)  # all classes then occur
        labels = network(batch).logits.argmax(1)
        assert (network(hub.normalised(batch)).logits.argmax(1) != labels).sum() > 20
    files = hub.transformers_files(tmp_path / "w", network)
    found = Smoothed(put(tmp_path, "test/vit", files), NOISE).diagnose(batch, labels)["input"]
    assert found.advice is not None
    assert "Leave the normalisation out." in found.advice


def test_a_name_of_nothing_says_what_is_accepted() -> None:
    with pytest.raises(
        MemberError, match=r"no model 'resnet50'; a model must be a torch\.nn\.Module, hf://ORGANISATION"
    ):
        Smoothed("resnet50", NOISE)


# --- what configurations say


def stated(folder: Path, files: dict[str, bytes]) -> Any:
    return Pretrained.open(put(folder, "test/stated", files)).stated


def test_the_preprocessor_gives_size_and_normalisation(tmp_path: Path) -> None:
    files = hub.transformers_files(tmp_path / "w", "resnet")

    def prepared(**changed: Any) -> Any:
        preprocessor = as_json({**hub.PREPROCESSOR, **changed})
        return stated(tmp_path, {**files, "preprocessor_config.json": preprocessor})

    assert prepared(size=40).input_shape == (3, 40, 40)
    assert prepared(size={"shortest_edge": 48}).input_shape == (3, 48, 48)
    crop = {"do_center_crop": True, "crop_size": {"height": 24, "width": 28}}
    assert prepared(size={"shortest_edge": 48}, **crop).input_shape == (3, 24, 28)
    assert prepared(do_normalize=False).normalisation == Normalisation((0.0,) * 3, (1.0,) * 3)
    raw = prepared(do_rescale=False, image_mean=[127.5] * 3, image_std=[51.0] * 3).normalisation
    assert raw == Normalisation((0.5,) * 3, (0.2,) * 3)  # it is stated for bytes, and expressed here for [0, 1]
    for step in ({"do_flip_channel_order": True}, {"rescale_offset": True}):
        with pytest.raises(MemberError, match=f"prepares images by {next(iter(step))}, which is not understood"):
            prepared(**step)
    with pytest.raises(MemberError, match="no usable image_mean and image_std"):
        prepared(image_mean=["x"])


def test_without_a_preprocessor_the_user_gives_the_normalisation(tmp_path: Path) -> None:
    files = hub.transformers_files(tmp_path / "w", "vit")
    del files["preprocessor_config.json"]
    folder = put(tmp_path, "test/vit", files)
    with pytest.raises(RegistryError, match="does not say how images are normalised: give --mean and --std"):
        add("x", [folder], Addition(noise=NOISE), zoo=tmp_path / "zoo")
    voters = add("x", [folder], Addition(noise=NOISE, normalisation=Normalisation(MEAN, STD)), zoo=tmp_path / "zoo")
    assert torch.allclose(voters.logits(X)[0], expected(VIT), atol=1e-4)


def test_classes_without_names_are_numbered_and_those_of_one_name_are_told_apart(tmp_path: Path) -> None:
    assert distinct(["crane", "dog", "crane"]) == ("crane (0)", "dog", "crane (2)")
    nameless = put(tmp_path, "test/nameless", hub.timm_files(label_names=None))
    assert Pretrained.open(nameless).class_names == ("0", "1", "2")
    with pytest.raises(MemberError, match="2 label_names and 3 classes"):
        stated(tmp_path, hub.timm_files(label_names=["a", "b"]))
    with pytest.raises(MemberError, match="id2label does not number its classes from 0 to 1"):
        stated(tmp_path, hub.transformers_files(tmp_path / "w", "resnet", id2label={"0": "a", "7": "b"}))


def test_weights_in_several_files_are_put_together(tmp_path: Path) -> None:
    state = hub.plain_state(hub.timm_network())
    halves = [dict(list(state.items())[i::2]) for i in range(2)]
    names = [f"model-0000{i + 1}-of-00002.safetensors" for i in range(2)]
    places = {key: name for half, name in zip(halves, names, strict=True) for key in half}
    files = {"config.json": hub.timm_files()["config.json"]}
    files["model.safetensors.index.json"] = as_json({"weight_map": places})
    files |= {name: save(half) for name, half in zip(names, halves, strict=True)}
    with torch.no_grad():
        found = Pretrained.open(put(tmp_path, "test/shards", files)).network()(hub.normalised(X))
    assert torch.allclose(found, expected(TIMM), atol=1e-5)
    files["model.safetensors.index.json"] = as_json({"weight_map": {"a": "../../secret.safetensors"}})
    with pytest.raises(MemberError, match=r"names \['\.\./\.\./secret\.safetensors'\]; it must name its own parts"):
        Pretrained.open(put(tmp_path, "test/shards", files))


# --- bad input


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("hf://microsoft/resnet-50", "has no revision, so it could be another model tomorrow"),
        ("timm/resnet18.a1_in1k", "has no revision, so it could be another model tomorrow"),
        ("hf://microsoft/resnet-50@main", "has the revision 'main', which may move; it must be a commit"),
        (f"hf://microsoft/resnet-50@{REVISION[:-1]}", "which may move"),
        (f"hf://resnet-50@{REVISION}", "does not name a model of the hub"),
        (f"hf://../../etc@{REVISION}", "does not name a model of the hub"),
        (f"hf://a/b/c@{REVISION}", "does not name a model of the hub"),
    ],
)
def test_a_name_pins_a_revision(name: str, words: str, tmp_path: Path) -> None:
    done = models("add", "x", name, "--sigma", 0.25, "--zoo", tmp_path / "zoo")
    assert done.returncode == 1
    assert words in done.stderr
    assert not list((tmp_path / "zoo").iterdir())


def test_without_a_network_it_says_so(empty: Path, tmp_path: Path) -> None:
    with pytest.raises(MemberError) as error:
        add("x", [RESNET], Addition(noise=NOISE), zoo=tmp_path / "zoo")
    sentence = str(error.value)
    assert f"{RESNET} is not in the cache {empty}, and the hub at http://127.0.0.1:9 does not provide it: " in sentence
    assert "Without a network, copy the model's snapshot into the cache, or name its folder" in sentence
    assert not list((tmp_path / "zoo").iterdir())


def test_what_the_cache_does_not_have_is_fetched_without_code_and_pickles(
    empty: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {**hub.timm_files(), "pytorch_model.bin": b"pickle", "modeling.py": b"code"}
    with hub.serving("timm/resnet10t.test", files) as (address, paths):
        point_at(address, monkeypatch)
        voters = add("x", [TIMM], Addition(noise=NOISE), zoo=tmp_path / "zoo")
    assert torch.allclose(voters.logits(X)[0], expected(TIMM), atol=1e-4)
    assert {path.rpartition("/")[2] for path in paths if "/resolve/" in path} == {"config.json", "model.safetensors"}
    paths.clear()
    add("again", [TIMM], Addition(noise=NOISE), zoo=tmp_path / "zoo")  # now it is in the cache
    assert not paths


def test_a_model_that_the_hub_does_not_have_is_named(
    empty: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with hub.serving("timm/other", {}) as (address, _):
        point_at(address, monkeypatch)
        with pytest.raises(MemberError, match=f"and the hub at {address} does not provide it"):
            Pretrained.open(TIMM)


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.ckpt", "weights.pt"])
def test_pickled_weights_are_refused_and_not_read(tmp_path: Path, name: str) -> None:
    from tests.support.programs import poison

    files = {"config.json": hub.timm_files()["config.json"], name: poison(tmp_path / "mark")}
    with pytest.raises(MemberError, match=rf"no weights as safetensors \(model\.safetensors\); {name} could execute"):
        Pretrained.open(put(tmp_path, "test/pickled", files))
    with pytest.raises(MemberError, match="not a safetensors file"):
        Pretrained.open(put(tmp_path, "test/pickled", {**files, "model.safetensors": poison(tmp_path / "mark")}))
    assert not (tmp_path / "mark").exists()


def test_code_of_a_repository_is_refused_and_not_executed(tmp_path: Path) -> None:
    code = f"import pathlib; pathlib.Path({str(tmp_path / 'mark')!r}).touch()".encode()
    asking = {"auto_map": {"AutoModelForImageClassification": "modeling.Mine"}}
    files = {**hub.transformers_files(tmp_path / "w", "resnet", **asking), "modeling.py": code}
    folder = put(tmp_path, "test/code", files)
    with pytest.raises(MemberError, match=r"asks for code of the repository \(auto_map\), which is never executed"):
        add("x", [folder], Addition(noise=NOISE), zoo=tmp_path / "zoo")
    del files["config.json"]
    without = hub.transformers_files(tmp_path / "w", "resnet")
    put(tmp_path, "test/code", {**files, **without})
    add("x", [folder], Addition(noise=NOISE), zoo=tmp_path / "zoo")  # the code is there, and nothing asks for it
    assert not (tmp_path / "mark").exists()


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"model_type": "gpt2"}, "a gpt2 of transformers is not an image classifier"),
        ({"model_type": "mine"}, "has no image classifier of type 'mine'"),
        ({"model_type": "timm_wrapper"}, "has no image classifier of type 'timm_wrapper'"),
        ({"architectures": ["ResNetModel"]}, "'ResNetModel' is not an image classifier; for resnet it must be"),
        ({"architectures": None}, "None is not an image classifier"),
        ({"quantization_config": {"bits": 4}}, "has quantised weights"),
        ({"backbone": "resnet50"}, "has backbone; a network must not have another one inside"),
        ({"hidden_act": "evil/kernels"}, r"config.json.hidden_act has 'evil/kernels'; only numbers and plain"),
        ({"deep": [[[[[[[[[[1]]]]]]]]]]}, "is nested more than 8 levels deep"),
        ({"num_channels": 0}, "says that images have the shape"),
    ],
)
def test_a_configuration_is_of_a_plain_classifier(tmp_path: Path, changed: dict[str, Any], words: str) -> None:
    with pytest.raises(MemberError) as error:
        stated(tmp_path, hub.transformers_files(tmp_path / "w", "resnet", **changed))
    assert words in str(error.value)


def test_a_configuration_chooses_no_kernels(tmp_path: Path) -> None:
    kernels = {"_attn_implementation": "evil/kernels", "attn_implementation": "evil/kernels", "use_kernels": True}
    config = stated(tmp_path, hub.transformers_files(tmp_path / "w", "vit", **kernels)).config
    assert not set(kernels) & set(config)
    with pytest.raises(MemberError, match="has _attn_implementation, which does not describe a network"):
        build("transformers/ViTForImageClassification", {**config, "_attn_implementation": "x"}, {}, classes=3)


@pytest.mark.parametrize("name", ["hf-hub:evil/model", "local-dir:/etc", "resnet10t.tag", "absent", 7])
def test_an_architecture_of_timm_is_one_of_timm(tmp_path: Path, name: object) -> None:
    with pytest.raises(MemberError, match="has no architecture"):
        stated(tmp_path, hub.timm_files(architecture=name))


def test_arguments_of_timm_are_plain(tmp_path: Path) -> None:
    with pytest.raises(MemberError, match=r"model_args\.act_layer has 'a:b'"):
        stated(tmp_path, hub.timm_files(model_args={"act_layer": "a:b"}))
    with pytest.raises(MemberError, match=r"timm/resnet10t cannot be built: .*unheard"):
        Pretrained.open(put(tmp_path, "test/x", hub.timm_files(model_args={"unheard": 1}))).network()


def test_a_configuration_that_is_larger_than_its_weights_takes_no_memory(tmp_path: Path) -> None:
    """A width of 2^20 values would take terabytes; the network is first made without memory."""
    files = hub.transformers_files(tmp_path / "w", "vit", hidden_size=2**20, intermediate_size=2**20)
    with pytest.raises(MemberError, match=r"it has [\d,]{15,} parameters, and the file has 7,907"):
        Pretrained.open(put(tmp_path, "test/x", files)).network()
    wide = hub.timm_files(model_args={"channels": [2**16] * 4})
    with pytest.raises(MemberError, match=r"it has [\d,]{10,} parameters"):
        Pretrained.open(put(tmp_path, "test/x", wide)).network()


def test_weights_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    files = hub.transformers_files(tmp_path / "w", "resnet")
    config = {**json.loads(files["config.json"]), "hidden_sizes": [8, 12]}
    with pytest.raises(MemberError, match="transformers/ResNetForImageClassification"):
        Pretrained.open(put(tmp_path, "test/x", {**files, "config.json": as_json(config)})).network()
    state = hub.plain_state(hub.timm_network())
    state["extra"] = torch.zeros(1)
    timm = {**hub.timm_files(), "model.safetensors": save(state)}
    with pytest.raises(MemberError, match=r"do not fit timm/resnet10t: .*extra"):
        Pretrained.open(put(tmp_path, "test/y", timm)).network()


def test_a_link_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    folder = put(tmp_path, "test/x", hub.timm_files())
    shutil.move(str((folder / "model.safetensors").resolve()), tmp_path / "elsewhere")
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(MemberError, match=r"model\.safetensors is a link that leads out of the model's folder"):
        Pretrained.open(folder)


@pytest.mark.parametrize("config", [b"", b"[]", b"\xff", b"{}", b"[" * 100_000])
def test_a_damaged_configuration_is_refused(tmp_path: Path, config: bytes) -> None:
    with pytest.raises(MemberError, match=r"config\.json is"):
        stated(tmp_path, {**hub.timm_files(), "config.json": config})


def test_a_folder_without_a_configuration_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MemberError, match=r"has no config\.json, which says what the network is"):
        Pretrained.open(tmp_path)


def test_a_file_of_the_zoo_that_was_changed_is_refused(cache: Path, tmp_path: Path) -> None:
    add("x", [RESNET], Addition(noise=NOISE), zoo=tmp_path)
    (path,) = (tmp_path / "x").glob("*.safetensors")
    path.write_bytes(path.read_bytes().replace(b"relu", b"gelu"))
    with pytest.raises(FileError, match="sha256 is"):
        load("x", zoo=tmp_path)


@pytest.mark.parametrize("name", [TIMM, RESNET, VIT])
@pytest.mark.parametrize("named", [2, 5])
def test_another_number_of_class_names_is_told_by_the_outputs(
    cache: Path, tmp_path: Path, name: str, named: int
) -> None:
    classes = tuple(map(str, range(named)))
    sentence = f"the network has {len(CLASSES)} outputs, and there are {named} class names$"
    with pytest.raises(ClassCountError, match=sentence):
        add("x", [name], Addition(classes, noise=NOISE), zoo=tmp_path / "zoo")


def test_two_members_with_other_classes_need_names(cache: Path, tmp_path: Path) -> None:
    other = put(tmp_path, "test/other", hub.timm_files(1, label_names=["a", "b", "c"]))
    with pytest.raises(RegistryError, match="name different classes: give them by --classes"):
        add("x", [TIMM, other], Addition(noise=NOISE), zoo=tmp_path / "zoo")
    voters = add("x", [TIMM, other], Addition(CLASSES, noise=NOISE), zoo=tmp_path / "zoo")
    assert len(voters.members) == 2


def test_errors_are_sentences_of_ours(tmp_path: Path) -> None:
    with pytest.raises(SmoothcertError):
        Pretrained.open(tmp_path / "absent")
