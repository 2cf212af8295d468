"""From a reply to an appraisal: what each sentence does, whom it is about, what is wrong with it."""

from heartloop.appraisal.fluency import lacks_english
from heartloop.appraisal.quoting import without_hollow
from heartloop.appraisal.reading import appraise
from heartloop.appraisal.stances import Stance, matters_named, stances_of
from heartloop.appraisal.strategies import STRATEGIES, Strategy, strategies_of
from heartloop.appraisal.values import Appraisal, Flaw, FlawKind, Reading, Story, Topic

__all__ = [
    "STRATEGIES", "Appraisal", "Flaw", "FlawKind", "Reading", "Stance", "Story", "Strategy", "Topic", "appraise", "lacks_english",
    "matters_named", "stances_of", "strategies_of", "without_hollow",
]  # fmt: skip
