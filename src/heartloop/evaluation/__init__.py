"""Many dialogues at once: settings, the run directory, resume, budget, progress."""

from heartloop.evaluation.run_directory import RunDirectory
from heartloop.evaluation.runner import Progress, Run, evaluate, player, work_through
from heartloop.evaluation.settings import EvaluationSettings

__all__ = ["EvaluationSettings", "Progress", "Run", "RunDirectory", "evaluate", "player", "work_through"]
