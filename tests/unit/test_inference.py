from __future__ import annotations

import logging

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models.lenet import MnistLeNet
from models.resnet import resnet20
from smoothcert.engine import form as inference
from smoothcert.engine.ensemble import assemble
from smoothcert.engine.errors import MemberError
from smoothcert.engine.form import fold_batch_norm, is_out_of_memory, prepare, resize
from tests.support.networks import tiny

SHAPE = (1, 4, 4)


def resnet(seed: int) -> nn.Module:
    torch.manual_seed(seed)
    network = resnet20().eval()
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):  # with the initial statistics, folding would change nothing
            module.running_mean.normal_(0, 0.2)
            module.running_var.uniform_(0.5, 2)
    return network


def images(rows: int) -> Tensor:
    return torch.rand(rows, 3, 32, 32, generator=torch.Generator().manual_seed(rows))


def test_the_optimised_form_gives_the_classes_of_the_plain_network() -> None:
    network = resnet(0)
    form = prepare(network, name="m", classes=10, input_shape=(3, 32, 32))
    with torch.no_grad():
        plain = network(images(70))
    assert form.kind == "folded"
    assert torch.equal(form(images(70)).argmax(1), plain.argmax(1))
    assert torch.allclose(form(images(70)), plain, rtol=1e-3, atol=1e-4)


def test_a_row_has_the_same_bits_in_every_batch_and_at_every_place() -> None:
    form = prepare(resnet(1), name="m", classes=10, input_shape=(3, 32, 32))
    batch = images(70)
    logits = form(batch)
    order = torch.randperm(70, generator=torch.Generator().manual_seed(0))
    assert torch.equal(form(batch[order]), logits[order])
    assert torch.equal(form(batch[:33]), logits[:33])
    assert torch.equal(form(batch[69:]), logits[69:])


def digits(rows: int) -> Tensor:
    return torch.rand(rows, 1, 28, 28, generator=torch.Generator().manual_seed(rows)).round()


def test_dropout_is_off_although_the_network_comes_in_train_mode() -> None:
    """Mutant killed: a form that leaves the mode of the network as it is."""
    torch.manual_seed(3)
    network = MnistLeNet().train()
    form = prepare(network, name="m", classes=10, input_shape=(1, 28, 28))
    assert form.kind == "folded"
    with torch.no_grad():
        plain = network.eval()(digits(50))
        assert not torch.allclose(network.train()(digits(50)), plain, atol=1e-3)
    assert torch.allclose(form(digits(50)), plain, rtol=1e-3, atol=1e-4)


def test_a_digit_has_the_same_bits_in_every_batch_and_at_every_place() -> None:
    torch.manual_seed(3)
    form = prepare(MnistLeNet(), name="m", classes=10, input_shape=(1, 28, 28))
    batch = digits(300)
    logits = form(batch)
    order = torch.randperm(300, generator=torch.Generator().manual_seed(0))
    assert torch.equal(form(batch[order]), logits[order])
    for part in (slice(0, 1), slice(7, 260), slice(299, 300)):
        assert torch.equal(form(batch[part]), logits[part])


@pytest.mark.parametrize(
    ("shape", "batch", "rows"),
    [
        ((3, 32, 32), 256, 64),
        ((3, 32, 32), 64, 64),
        ((3, 32, 32), 100, 50),
        ((1, 28, 28), 256, 128),  # 250 would fit, but the last six rows of a batch would be padded to 250
        ((1, 28, 28), 250, 250),
        ((3, 224, 224), 256, 8),
    ],
)
def test_slices_share_a_batch_evenly(shape: tuple[int, int, int], batch: int, rows: int) -> None:
    network = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(shape[0], 2))
    assert prepare(network, name="m", classes=2, input_shape=shape, batch=batch).shape[0] == rows


def test_folding_leaves_no_batch_norm_behind_a_convolution_and_the_original_as_it_was() -> None:
    network = resnet(2)
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    folded = fold_batch_norm(network)
    assert not any(isinstance(module, nn.BatchNorm2d) for module in folded.modules())
    assert all(torch.equal(before[name], tensor) for name, tensor in network.state_dict().items())


def test_a_convolution_used_twice_is_not_folded() -> None:
    class Shared(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.one, self.two = nn.Conv2d(1, 1, 1), nn.BatchNorm2d(1), nn.BatchNorm2d(1)

        def forward(self, x: Tensor) -> Tensor:
            return (self.one(self.conv(x)) + self.two(self.conv(x))).flatten(1)

    torch.manual_seed(0)
    network = Shared().eval()
    network.one.running_mean.fill_(3)
    x = torch.rand(5, *SHAPE)
    with torch.no_grad():
        assert torch.equal(fold_batch_norm(network)(x), network(x))


def test_a_tensor_that_is_read_again_is_not_overwritten() -> None:
    class Reread(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(1, 1, 1)

        def forward(self, x: Tensor) -> Tensor:
            y = self.conv(x)
            z = torch.relu(y) + x  # neither y nor x may change
            return (torch.relu(z + y) + z * x + y).flatten(1)

    torch.manual_seed(0)
    network = Reread().eval()
    x = torch.randn(5, *SHAPE)
    before = x.clone()
    with torch.no_grad():
        assert torch.equal(fold_batch_norm(network)(x), network(x))
    assert torch.equal(x, before)


class Rectified(nn.Module):
    """A network that applies ReLU directly to the image."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(x).flatten(1)


def test_the_images_are_not_overwritten() -> None:
    form = prepare(Rectified(), name="m", classes=16, input_shape=SHAPE)
    x = torch.randn(form.shape)
    before = x.clone()
    assert torch.equal(form(x), before.relu().flatten(1))
    assert form.kind == "folded"
    assert torch.equal(x, before)


class Overwriting(nn.Module):
    """A network that normalises its input in place."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.fc = nn.Linear(16, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(x.sub_(0.5).mul_(4).flatten(1))


@pytest.mark.parametrize("optimise", [True, False])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_what_a_network_writes_over_its_input_stays_its_own(optimise: bool, layout: torch.memory_format) -> None:
    networks = [Overwriting(0), Overwriting(1), nn.Sequential(nn.ReLU(inplace=True), nn.Flatten(), nn.Linear(16, 3))]
    ensemble = assemble(networks, classes="abc", input_shape=SHAPE, batch=32, optimise=optimise)
    x = torch.randn(40, *SHAPE).contiguous(memory_format=layout)
    before = x.clone()
    with torch.no_grad():
        expected = torch.stack([network(before.clone()) for network in networks])
    assert torch.allclose(ensemble.logits(x), expected, atol=1e-5)
    assert torch.equal(x, before)


class Tied(nn.Module):
    """A network that uses the weights of a convolution directly, besides calling it."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.norm = nn.Conv2d(1, 3, 3, padding=1), nn.BatchNorm2d(3)

    def forward(self, x: Tensor) -> Tensor:
        return (self.norm(self.a(x)) + F.conv2d(x, self.a.weight, padding=1)).mean((2, 3))


def test_a_convolution_whose_weights_are_read_elsewhere_is_not_folded() -> None:
    torch.manual_seed(0)
    network = Tied().eval()
    network.norm.running_var.fill_(0.5)
    x = torch.rand(5, *SHAPE)
    with torch.no_grad():
        assert torch.equal(fold_batch_norm(network)(x), network(x))


def test_an_optimised_form_with_other_logits_is_not_used(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.network = tiny(0)

        def forward(self, x: Tensor) -> Tensor:
            return 1.01 * self.network(x)  # the classes stay the same

    monkeypatch.setattr(inference, "fold_batch_norm", lambda _: Scaled())
    with caplog.at_level(logging.WARNING):
        form = prepare(tiny(0), name="m", classes=3, input_shape=SHAPE)
    assert form.kind == "plain"
    assert "gives logits that are off by" in caplog.text


class Branching(nn.Module):
    """A network that cannot be traced, because it branches on the value of a tensor."""

    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(1)[:, :3] if x.shape[0] and bool(x.sum() < 1e9) else x.flatten(1)[:, 3:6]


def test_what_cannot_be_optimised_runs_plain_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        form = prepare(Branching(), name="zoo/branching", classes=3, input_shape=SHAPE)
    assert form.kind == "plain"
    assert "zoo/branching runs in its plain, slower form: TraceError" in caplog.text


def test_an_optimised_form_with_other_classes_is_not_used(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inference, "fold_batch_norm", lambda _: tiny(1))
    with caplog.at_level(logging.WARNING):
        form = prepare(tiny(0), name="m", classes=3, input_shape=SHAPE)
    assert form.kind == "plain"
    assert "gives other classes to" in caplog.text


class Mixing(nn.Module):
    """A network that subtracts the mean of the batch, so that a row depends on its neighbours."""

    def forward(self, x: Tensor) -> Tensor:
        return (x - x.mean(0)).flatten(1)[:, :3]


class Careless(nn.Module):
    """A network with functional dropout, which eval() does not switch off."""

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.dropout(x.flatten(1)[:, :3] + 1)


class Late(nn.Module):
    """A network that is random in the second half of the rows, and in a batch of one."""

    def forward(self, x: Tensor) -> Tensor:
        logits, half = x.flatten(1)[:, :3], len(x) // 2
        return torch.cat([logits[:half], logits[half:] + torch.rand(len(x) - half, 1)])


class Leaning(nn.Module):
    """A network that adds the preceding row to every second row."""

    def forward(self, x: Tensor) -> Tensor:
        logits = x.flatten(1)[:, :3]
        return torch.cat([logits[:1], logits[1:] + logits[:-1] * (torch.arange(1, len(x)) % 2).view(-1, 1)])


class Facing(nn.Module):
    """A network that adds to every row the row at the mirrored place of the batch."""

    def forward(self, x: Tensor) -> Tensor:
        return (x + 0.1 * x.flip(0)).flatten(1)[:, :3]


@pytest.mark.parametrize("network", [Mixing(), Careless(), Late(), Leaning(), Facing()])
@pytest.mark.parametrize("batch", [2, 64])
def test_a_network_that_is_no_function_of_the_image_is_refused(network: nn.Module, batch: int) -> None:
    with pytest.raises(
        MemberError,
        match="member m gives an image different logits when other images are beside it, or on a second call",
    ):
        prepare(network, name="m", classes=3, input_shape=SHAPE, batch=batch)


@pytest.mark.parametrize("network", [Careless(), Late()])
def test_a_random_network_is_refused_in_batches_of_one(network: nn.Module) -> None:
    with pytest.raises(MemberError, match="or on a second call"):
        prepare(network, name="m", classes=3, input_shape=SHAPE, batch=1)


def test_a_normalisation_does_not_broadcast() -> None:
    with pytest.raises(MemberError, match="member m normalises 3 channels, and the images have 1"):
        prepare(resnet(0), name="m", classes=10, input_shape=(1, 32, 32))


def test_complex_numbers_are_not_cut_to_their_real_parts() -> None:
    network = tiny(0)
    network.fc.bias = nn.Parameter(network.fc.bias.detach().to(torch.complex64))
    with pytest.raises(MemberError, match=r"member m has complex numbers in fc\.bias"):
        prepare(network, name="m", classes=3, input_shape=SHAPE)


HOST = RuntimeError("[enforce fail at alloc_cpu.cpp:118] DefaultCPUAllocator: can't allocate memory: 9 bytes")
GPU = torch.OutOfMemoryError("CUDA out of memory")


class Starved(nn.Module):
    """A network that runs out of memory above a number of rows."""

    def __init__(self, most: int, error: RuntimeError) -> None:
        super().__init__()
        self.most, self.error = most, error

    def forward(self, x: Tensor) -> Tensor:
        if len(x) > self.most:
            raise self.error
        return x.flatten(1)[:, :3]


@pytest.mark.parametrize("error", [HOST, GPU])
def test_running_out_of_memory_is_no_fault_of_the_network(error: RuntimeError, monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_out_of_memory(error)
    with pytest.raises(RuntimeError, match="memory") as examined:
        prepare(Starved(8, error), name="m", classes=3, input_shape=SHAPE, batch=32)
    assert examined.value is error

    def optimise(_: nn.Module) -> nn.Module:
        raise error

    monkeypatch.setattr(inference, "fold_batch_norm", optimise)
    with pytest.raises(RuntimeError, match="memory") as optimised:
        prepare(tiny(0), name="m", classes=3, input_shape=SHAPE)
    assert optimised.value is error


@pytest.mark.parametrize("error", [HOST, GPU])
def test_another_size_is_tried_out_with_the_same_network(error: RuntimeError) -> None:
    form = prepare(Starved(16, error), name="m", classes=3, input_shape=SHAPE, batch=8, optimise=False)
    larger = resize(form, 16, name="m", classes=3)
    assert larger.shape == (16, *SHAPE)
    assert larger.network is form.network
    with pytest.raises(RuntimeError, match="memory") as resized:
        resize(form, 17, name="m", classes=3)
    assert resized.value is error


def test_a_network_that_mixes_rows_is_found_out_when_it_gets_more_than_one() -> None:
    form = prepare(Mixing(), name="m", classes=3, input_shape=SHAPE, batch=1)
    with pytest.raises(MemberError, match="when other images are beside it"):
        resize(form, 2, name="m", classes=3)


def test_bfloat16_is_a_copy_whose_logits_come_back_as_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inference.precisions, "require", lambda precision, device: torch.bfloat16)
    network = tiny(0)
    form = prepare(network, name="m", classes=3, input_shape=SHAPE, precision="bfloat16", optimise=False)
    assert network.conv.weight.dtype == torch.float32
    assert form(torch.rand(2, *SHAPE)).dtype == torch.float32
    assert next(form.network.parameters()).dtype == torch.bfloat16
