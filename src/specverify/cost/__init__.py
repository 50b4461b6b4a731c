"""What speculation costs and gains: times of single steps and acceptance in, tokens per second out.

Scalars only, and no loop. :func:`measure_steps` times the steps of any two models, the rounds of a text give the
acceptance, :func:`predict` and :func:`recommend` say what follows; draft_length.py decides with the same model while a
text is written.
"""

from .acceptance import Acceptance, ProposedLengths
from .model import Advice, Audit, Prediction, audit, ceiling, closed_form_speedup, predict, recommend
from .record import from_json, to_json
from .times import StepTimes
from .timing import measure_steps

__all__ = [
    "Acceptance",
    "Advice",
    "Audit",
    "Prediction",
    "ProposedLengths",
    "StepTimes",
    "audit",
    "ceiling",
    "closed_form_speedup",
    "from_json",
    "measure_steps",
    "predict",
    "recommend",
    "to_json",
]
