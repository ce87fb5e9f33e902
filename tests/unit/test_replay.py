"""A certificate can be repeated from what it says about itself, and only that certificate."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

from models.data import load_images
from models.registry import ZOO, load
from smoothcert.attestation.envelope import Attestation
from smoothcert.certificate import Certificate
from smoothcert.cli.app import cli
from smoothcert.engine.case import certify, start
from smoothcert.engine.engine import Engine
from smoothcert.engine.successor import Successor
from smoothcert.errors import AttestationError
from smoothcert.examination import examine
from smoothcert.noise import Gaussian
from smoothcert.procedures import Fixed, Sequential, Transfer
from smoothcert.question import Question
from tests.support.attested import MADE, keyring, sealed
from workers.errors import ReplayError
from workers.replay import command, read_image, replay, runtime_of
from workers.witness import Witness

NAME = "cifar10-resnet20-gaussian-0.25"
IMAGES = load_images(ZOO / "cifar10-test-100.json").pixels


def signed(certificate: Certificate) -> Certificate:
    return certificate.model_copy(update={"digest": certificate.expected_digest()})


@pytest.fixture(scope="module")
def certificate() -> Certificate:
    question = Question(Gaussian(0.25), Sequential(), radius=0.25)
    ensemble = load(NAME).with_(consensus=2)
    with Engine(ensemble) as engine:
        _, second = certify(engine, torch.from_numpy(IMAGES[4:6]), question)
    return second


def test_the_second_time_gives_the_same_counts(certificate: Certificate) -> None:
    again = replay(certificate, torch.from_numpy(IMAGES[5].transpose(1, 2, 0)))  # [H, W, C] is accepted, too
    assert again.differences == ()
    assert again.remarks == ()
    assert again.certificate.stages == certificate.stages
    assert again.certificate.evaluations == certificate.evaluations


def test_it_is_found_among_the_images_of_its_request(certificate: Certificate) -> None:
    """The archive keeps all images of a request; the certificate is that of the second one."""
    assert replay(certificate, torch.from_numpy(IMAGES[4:6])).differences == ()
    with pytest.raises(ReplayError, match=r"is of image 1, counted from 0, and 1 were given"):
        replay(certificate, torch.from_numpy(IMAGES[4:5]))


def test_a_joint_transfer_is_repeated_with_both_ensembles() -> None:
    """About 5 % of this image's samples are lost, so that some of 256 are, whatever noise a processor draws."""
    old, image = load(NAME, batch=64), torch.from_numpy(IMAGES[13])
    new = old.with_(consensus=1)
    with Engine(old, batch=64) as engine:
        (before,) = certify(engine, image[None], Question(Gaussian(0.25), Fixed(n=50, n0=14)), seed="x")
        question = Question(Gaussian(0.25), Transfer(basis=before.model_dump_json(), n=256))
        made = start(engine, image, question, seed="x", ensemble=Successor.of(new, old)).result()
    assert 0 < made.stages[0].counts.other < 256
    assert replay(made, image).differences == ()


def test_a_vote_that_ended_later_is_the_same_and_one_that_ended_sooner_is_not() -> None:
    """In older softmax votes, every member was asked. Mutant killed: accepting any number of evaluations."""
    question = Question(Gaussian(0.25), Sequential(), radius=0.25)
    with Engine(load(NAME).with_(voting="softmax")) as engine:
        (early,) = certify(engine, torch.from_numpy(IMAGES[5:6]), question)
    members = 5 * early.samples
    assert early.evaluations is not None
    assert 3 * early.samples <= early.evaluations < members
    older = replay(signed(early.model_copy(update={"evaluations": members})), torch.from_numpy(IMAGES[5]))
    assert older.differences == ()
    (remark,) = older.remarks
    assert remark.startswith(f"evaluations were {members}, here they are {early.evaluations}: ")
    fewer = replay(signed(early.model_copy(update={"evaluations": early.evaluations - 1})), torch.from_numpy(IMAGES[5]))
    assert [difference.split(":")[0] for difference in fewer.differences] == ["evaluations"]


def test_another_seed_is_found_out(certificate: Certificate) -> None:
    assert certificate.provenance is not None
    sampling = certificate.provenance.sampling.model_copy(update={"seed": "another"})
    provenance = certificate.provenance.model_copy(update={"sampling": sampling})
    forged = signed(certificate.model_copy(update={"provenance": provenance}))
    assert any(
        difference.startswith(("selection", "stages", "evaluations"))
        for difference in replay(forged, torch.from_numpy(IMAGES[5])).differences
    )


def test_what_cannot_be_repeated_is_said(certificate: Certificate) -> None:
    image = torch.from_numpy(IMAGES[5])
    with pytest.raises(ReplayError, match="another image"):
        replay(certificate, torch.from_numpy(IMAGES[4]))
    with pytest.raises(ReplayError, match="provenance is null"):
        replay(signed(certificate.model_copy(update={"provenance": None})), image)
    with pytest.raises(ReplayError, match="not consistent"):
        replay(certificate.model_copy(update={"radius": 0.3}), image)
    assert certificate.provenance is not None
    ensemble = certificate.provenance.ensemble.model_copy(update={"digest": "0" * 64})
    provenance = certificate.provenance.model_copy(update={"ensemble": ensemble})
    with pytest.raises(ReplayError, match="has digest"):
        replay(signed(certificate.model_copy(update={"provenance": provenance})), image)


def test_the_command_says_whether_it_is_the_same(certificate: Certificate, tmp_path: Path) -> None:
    file, image = tmp_path / "certificate.json", tmp_path / "image.png"
    file.write_text(certificate.to_json())
    Image.fromarray(IMAGES[5].transpose(1, 2, 0)).save(image)
    done = CliRunner().invoke(cli, ["replay", str(file), str(image)])  # this is the command of the workers
    assert (done.exit_code, "the same" in done.output) == (0, True), done.output
    with pytest.raises(ReplayError, match=r"/missing: No such file or directory$"):
        command(str(tmp_path / "missing"), str(image), "", frozenset())
    with pytest.raises(ReplayError, match=r"/missing: No such file or directory$"):
        command(str(file), str(tmp_path / "missing"), "", frozenset())
    (tmp_path / "README.md").write_text("# Words")
    with pytest.raises(
        ReplayError, match=r"README.md: not a certificate: it is not JSON \(Expecting value at character 1"
    ):
        command(str(tmp_path / "README.md"), str(image), "", frozenset())
    with pytest.raises(ReplayError, match="not a certificate: it is not text"):
        command(str(image), str(image), "", frozenset())
    (tmp_path / "broken.png").write_bytes(image.read_bytes()[:40])
    with pytest.raises(ReplayError, match="broken"):
        read_image(tmp_path / "broken.png")


def test_what_a_certificate_names_is_printed_as_it_is(
    certificate: Certificate, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Mutant killed: square brackets that are taken for markup, and end the command."""
    assert certificate.provenance is not None
    provenance = certificate.provenance.model_copy(update={"versions": {"torch": "[/][red]\x1b[2J"}})
    file, image = tmp_path / "certificate.json", tmp_path / "image.png"
    file.write_text(signed(certificate.model_copy(update={"provenance": provenance})).to_json())
    Image.fromarray(IMAGES[5].transpose(1, 2, 0)).save(image)
    command(str(file), str(image), "", frozenset())
    assert "torch was [/][red]?[2J, here it is" in " ".join(capsys.readouterr().out.split())


def test_of_several_certificates_in_a_file_that_of_the_image_is_repeated(
    certificate: Certificate, tmp_path: Path
) -> None:
    file, image, other = (tmp_path / name for name in ("certificates.jsonl", "image.png", "other.png"))
    assert certificate.provenance is not None
    pixels = certificate.provenance.input.model_copy(update={"sha256": "0" * 64})
    provenance = certificate.provenance.model_copy(update={"input": pixels})
    elsewhere = signed(certificate.model_copy(update={"provenance": provenance}))
    Image.fromarray(IMAGES[5].transpose(1, 2, 0)).save(image)
    Image.fromarray(IMAGES[4].transpose(1, 2, 0)).save(other)

    file.write_text("\n".join(json.dumps(json.loads(each.to_json())) for each in (elsewhere, certificate)))
    done = CliRunner().invoke(cli, ["replay", str(file), str(image)])
    assert (done.exit_code, "the same" in done.output) == (0, True), done.output
    with pytest.raises(ReplayError, match=r"of its 2 certificates none are about .*other\.png, wanted one"):
        command(str(file), str(other), "", frozenset())
    file.write_text("\n".join(json.dumps(json.loads(each.to_json())) for each in (certificate, certificate)))
    with pytest.raises(ReplayError, match=r"of its 2 certificates 2 are about .*image\.png, wanted one"):
        command(str(file), str(image), "", frozenset())


def test_the_command_line_says_what_is_missing(
    certificate: Certificate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "certificate.json").write_text(certificate.to_json())
    Image.fromarray(IMAGES[5].transpose(1, 2, 0)).save(tmp_path / "image.png")
    (tmp_path / "zoo").mkdir()
    arguments = ["replay", str(tmp_path / "certificate.json"), str(tmp_path / "image.png"), "--zoo", tmp_path / "zoo"]
    done = CliRunner().invoke(cli, [*map(str, arguments)])
    assert done.exit_code == 1
    assert f"no ensemble '{NAME}' in {tmp_path / 'zoo'}; there are: none" in " ".join(done.output.split())
    monkeypatch.setitem(sys.modules, "workers.replay", None)
    done = CliRunner().invoke(cli, [*map(str, arguments)])
    assert done.exit_code == 1
    assert "needs workers.replay, which is not part of the package: run it in a clone of smoothcert" in done.output


def test_a_replay_is_attested_by_whoever_made_it(certificate: Certificate, tmp_path: Path) -> None:
    service, auditor = keyring("the service", MADE), keyring("an auditor", MADE)
    auditor.write(tmp_path / "keyring")
    Image.fromarray(IMAGES[5].transpose(1, 2, 0)).save(tmp_path / "image.png")
    (tmp_path / "signed").write_text(sealed(certificate, service) + "\n")
    out = tmp_path / "replayed"
    names = [str(tmp_path / name) for name in ("signed", "image.png")]
    command(*names, "", frozenset(), attest=out, keyring=tmp_path / "keyring")
    found = examine(out.read_bytes(), auditor.published)
    assert found.problems == ()
    assert found.signed.sentence.startswith("By an auditor, with the key ")
    assert f"reproduced every count of the certificate {certificate.digest} on " in found.follows.sentence
    assert ", device cpu, " in found.follows.sentence
    assert f"torch {torch.__version__.partition('+')[0]}" in found.follows.sentence
    assert not examine(out.read_bytes(), service.published), "the service did not sign that"
    assert not examine(out.read_bytes().replace(b"A", b"B", 1), auditor.published)
    (subject, *_) = Attestation.read(out.read_text()).statement.subject
    assert certificate.provenance is not None
    assert subject.digest == {"sha256": certificate.provenance.input.sha256}


def test_a_replay_that_differs_is_attested_as_such(certificate: Certificate, tmp_path: Path) -> None:
    ring = keyring("an auditor", MADE)
    out = tmp_path / "replayed"
    Witness(ring, out).attest(certificate, ["samples: 1 then, 2 now"], [], certificate)
    found = examine(out.read_bytes(), ring.published)
    assert (found.signed.holds, found.unaltered.holds, found.follows.holds) == (True, True, False)
    assert found.problems == (f"an auditor could not reproduce the certificate {certificate.digest}",)


def test_a_witness_that_cannot_sign_is_said_before_the_work(tmp_path: Path) -> None:
    with pytest.raises(ReplayError, match="belong together"):
        Witness.of(tmp_path / "out", None)
    with pytest.raises(ReplayError, match="cannot write"):
        Witness.of(tmp_path / "no" / "out", tmp_path / "keyring")
    with pytest.raises(AttestationError, match="cannot be read"):
        Witness.of(tmp_path / "out", tmp_path / "keyring")
    assert Witness.of(None, None) is None


def test_an_earlier_certificate_names_the_runtime_by_its_version_alone() -> None:
    assert runtime_of({"torch": "2", "openvino": "2026"}) == "openvino"
    assert runtime_of({"torch": "2", "compiled": "2"}) == "compiled"
    assert runtime_of({"torch": "2", "onnxruntime": "1"}) == "torch"  # that of a member in an ONNX file
    assert runtime_of({"torch": "2", "onnxruntime": "1", "runtime": "onnxruntime"}) == "onnxruntime"
