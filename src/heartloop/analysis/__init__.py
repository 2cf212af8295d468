"""Runs on disk to score cards, tables and the report site. Reads transcripts; never plays a dialogue."""

from heartloop.analysis.leaderboard import leaderboard
from heartloop.analysis.runs import Run, read_run, write_scores
from heartloop.analysis.scores import ScoreCard, score_card
from heartloop.analysis.site import write_site

__all__ = ["Run", "ScoreCard", "leaderboard", "read_run", "score_card", "write_scores", "write_site"]
