"""One sample of PERM for tests, so that no test depends on the set that is shipped."""

from __future__ import annotations

from heartloop.environments.perm.scenario import Scenario

__all__ = ["SAMPLE"]

SAMPLE = Scenario.model_validate(
    {
        "id": "perm-jealous-01",
        "title": "The chair by the window",
        "emotion": "jealous",
        "tags": ["none"],
        "persona": {"name": "Ishaan Mehrotra", "age": 44, "gender": "man", "occupation": "claims assessor in Pune"},
        "scenario": (
            "For nine years Ishaan has assessed the claims no one else wanted, and taught every newcomer. On "
            "Monday Rohit, whom he trained two winters ago, was made team lead and given the desk by the window, "
            "with a speech in which he thanked Ishaan for his patience. Ishaan had not known that the post was "
            "open."
        ),
        "query": (
            "He thanked me in front of everyone. For my patience. I clapped, I even carried his monitor over to "
            "the window for him. He's good, I trained him, I know he's good. And since then I hear him laugh on "
            "the phone and something in my stomach goes tight like I'm fourteen. I'm not this man, am I?"
        ),
        "feelings": ["jealous", "envious", "passed over", "hurt", "ashamed", "humiliated", "small"],
        "misreadings": ["proud", "furious", "excited", "betrayed by rohit"],
        "cause": {
            "text": "A man he trained got the post and the desk, and Ishaan was never told it was open.",
            "cues": ["trained him", "team lead", "never told", "not known", "desk", "post was open", "passed over"],
        },
        "need": {
            "text": "To hear that wanting it himself was allowed, and that envy does not make him a small man.",
            "cues": [
                "wanted it",
                "allowed to want",
                "ask for it",
                "doesn't make you",
                "not a bad",
                "human to envy",
                "your turn",
                "also deserved",
            ],
        },
        "want": "understanding",
        "touches": [
            {"text": "He carried the monitor to the window himself.", "cues": ["monitor", "carried", "window"]},
            {"text": "Being thanked for his patience, of all things.", "cues": ["patience", "thanked", "speech"]},
            {"text": "The laugh on the phone and the tight stomach.", "cues": ["laugh", "stomach", "tight", "fourteen"]},
        ],
        "sores": [
            {
                "text": "Being told to be glad for Rohit.",
                "cues": ["be happy for him", "glad for him", "bigger person", "good mentor"],
            },
            {
                "text": "Career advice before anything was understood.",
                "cues": ["update your cv", "talk to hr", "look for another job", "ask for a raise"],
            },
        ],
    }
)
