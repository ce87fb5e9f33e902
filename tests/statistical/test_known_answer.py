"""The engine on a classifier whose robustness is known: a half-space.

For F(x) = [w x + b > 0] with |w| = 1, p_A is Phi(margin / sigma) and the smoothed classifier is robust exactly up to
the margin. A certificate must not claim more (more often than alpha), and should come close.
"""

from __future__ import annotations

import pytest
import torch
from scipy import stats
from torch import Tensor, nn

from smoothcert.engine.case import certify
from smoothcert.engine.engine import Engine
from smoothcert.engine.ensemble import Ensemble, assemble
from smoothcert.noise import Gaussian
from smoothcert.procedures import Adaptive, Fixed, Sequential
from smoothcert.question import Question
from smoothcert.verification import verify

SHAPE = (1, 4, 4)
SIGMA = 0.25
MARGIN = 0.3
ALPHA = 0.05
RUNS = 300
SEED = "known answer"


class HalfSpace(nn.Module):
    """Class 1 where x + b > 0 along w."""

    def __init__(self, direction: Tensor, offset: float) -> None:
        super().__init__()
        self.direction = nn.Parameter(direction / direction.norm())
        self.offset = nn.Parameter(torch.tensor(offset))

    def forward(self, x: Tensor) -> Tensor:
        side = x.flatten(1) @ self.direction + self.offset
        return torch.stack([-side, side], dim=1)


@pytest.fixture(scope="module")
def half_space() -> tuple[Ensemble, Tensor]:
    """Three parallel planes whose soft vote is the middle one, and an image MARGIN away from that."""
    torch.manual_seed(5)
    direction, image = torch.randn(16), torch.rand(SHAPE)
    offset = MARGIN - float(image.flatten() @ (direction / direction.norm()))
    networks = [HalfSpace(direction, offset + shift) for shift in (0.0, 0.1, -0.1)]
    return assemble(networks, classes=("below", "above"), input_shape=SHAPE, name="half-space", batch=1024), image


def test_certified_radii_are_sound_and_close_to_the_truth(half_space: tuple[Ensemble, Tensor]) -> None:
    """Mutant killed: noise that is reused between images of one request would make all runs agree."""
    ensemble, image = half_space
    question = Question(Gaussian(SIGMA), Fixed(n=2_000), alpha=ALPHA)
    with Engine(ensemble, batch=1024) as engine:
        certificates = certify(engine, [image] * RUNS, question, seed=SEED)
    radii = [certificate.radius for certificate in certificates]
    assert sum(radius > MARGIN for radius in radii) <= stats.binom.ppf(1 - 1e-6, RUNS, ALPHA)
    assert sum(radius > MARGIN for radius in radii) > 0, "at this alpha a few must overclaim"
    assert 0.9 * MARGIN < sum(radii) / RUNS < MARGIN
    assert len(set(radii)) > 50
    assert all(certificate.class_name == "above" and verify(certificate) for certificate in certificates)


@pytest.mark.parametrize("procedure", [Adaptive(stages=(100, 400, 1_600)), Sequential(max_samples=2_000)])
@pytest.mark.parametrize("consensus", [None, 2])
def test_a_radius_just_beyond_the_truth_is_seldom_certified(
    half_space: tuple[Ensemble, Tensor], procedure: Adaptive | Sequential, consensus: int | None
) -> None:
    """Mutant killed: counting the rows without consensus for the chosen class.

    Where the first two planes disagree (a strip 0.1 wide) the full vote decides, which is the middle plane: with
    consensus and without, the truth is the same margin.
    """
    ensemble, image = half_space
    view = ensemble.with_(consensus=consensus)
    question = Question(Gaussian(SIGMA), procedure, radius=MARGIN + 1e-3, alpha=ALPHA, beta=ALPHA)
    with Engine(ensemble, batch=1024) as engine:
        certificates = certify(engine, [image] * RUNS, question, ensemble=view, seed=SEED)
    certified = sum(certificate.decision == "certified" for certificate in certificates)
    assert certified <= stats.binom.ppf(1 - 1e-6, RUNS, ALPHA)
    within = Question(Gaussian(SIGMA), procedure, radius=0.8 * MARGIN, alpha=ALPHA, beta=ALPHA)
    with Engine(ensemble, batch=1024) as engine:
        certificates = certify(engine, [image] * 60, within, ensemble=view, seed=SEED)
    assert sum(certificate.decision == "certified" for certificate in certificates) > 40
