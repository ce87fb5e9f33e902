"""What the command line and reports say of a run that was given up, which depends on the procedure."""

from __future__ import annotations

import pytest

from smoothcert.account import abstentions
from smoothcert.cli.answers import print_certificates
from smoothcert.evaluation import Judged
from smoothcert.procedures import Optimal, Sequential
from smoothcert.procedures.parameters import Parameters
from smoothcert.report import Report
from tests.support.certificates import certificate_of

PRICED = (
    "Going on would have cost more than 750,000 samples for each certificate gained, on average over images with such "
    "counts. This does not say that the image is not robust."
)
PROMISED = "If p_A is large enough for the radius, a run is abandoned with probability at most beta."


@pytest.mark.parametrize(("procedure", "words"), [(Optimal(), PRICED), (Sequential(), PROMISED)])
@pytest.mark.parametrize("images", [1, 2])
def test_an_abandoned_run_is_explained_by_its_procedure(
    procedure: Parameters, words: str, images: int, capsys: pytest.CaptureFixture[str]
) -> None:
    found = [certificate_of(procedure, 0.6) for _ in range(images)]
    assert {each.stop_reason for each in found} == {"abandoned"}
    print_certificates(found, range(images), as_json=False)
    printed = capsys.readouterr().out
    assert printed.count(words) == 1
    report = Report("r", [str(place) for place in range(images)], [Judged(each, 1) for each in found])
    chapter = abstentions(report)
    assert chapter.sentences[-1] == words
    for text in (printed, *chapter.sentences):
        assert "speak against" not in text
