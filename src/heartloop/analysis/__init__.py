"""Runs on disk to score cards, tables and the report site. Reads transcripts and training steps; never plays a dialogue."""

from heartloop.analysis.card import ScoreCard
from heartloop.analysis.comparison import choose_sides, compare, worse_by
from heartloop.analysis.comparison_text import comparison_text
from heartloop.analysis.leaderboard import leaderboard
from heartloop.analysis.runs import Run, read_run, write_scores
from heartloop.analysis.scores import score_card
from heartloop.analysis.site import write_site
from heartloop.analysis.training_text import training_tables

__all__ = [
    "Run",
    "ScoreCard",
    "choose_sides",
    "compare",
    "comparison_text",
    "leaderboard",
    "read_run",
    "score_card",
    "training_tables",
    "worse_by",
    "write_scores",
    "write_site",
]
