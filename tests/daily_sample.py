"""Three instances of daily conversation for tests, so that no test depends on the set that is shipped."""

from __future__ import annotations

from heartloop.environments.daily.scenario import Scenario

__all__ = ["AWAKE", "LIE", "SWIM"]

AWAKE = Scenario.model_validate(
    {
        "id": "daily-91",
        "title": "Hands that work at two in the morning",
        "kind": "worry",
        "tags": ["death"],
        "persona": {"name": "Aurelio Benítez", "age": 47, "gender": "man", "occupation": "lift mechanic in Rosario"},
        "about": "Lives with his wife Marta and a deaf cat. Writes late and in short messages; does not like to be called brave.",
        "today": "2025-06-12",
        "dialogue_memory": [
            {
                "on": "2025-03-02",
                "text": "Slept badly before a job in the old court house. What helped was walking home along "
                "the river and leaving the phone in his locker.",
                "bearing": "bears",
                "cues": ["river", "walk", "on foot", "locker", "phone"],
            },
            {
                "on": "2025-04-27",
                "text": "Is teaching his nephew Ciro to solder on Sundays and enjoys it more than he would have thought.",
                "bearing": "idle",
                "cues": ["solder", "nephew", "ciro"],
            },
        ],
        "event_memory": [
            {
                "on": "2024-08-30",
                "text": "His father's funeral in Santa Fe.",
                "bearing": "sore",
                "cues": ["father", "funeral", "santa fe", "grief"],
            },
            {
                "on": "2025-06-16",
                "text": "Inspection of the court house lifts; it is his name that goes under it.",
                "bearing": "bears",
                "cues": ["inspection", "court house", "monday", "your name", "four days"],
            },
        ],
        "query": "Awake again. It's nothing in particular, I just lie there and my hands are doing work that isn't there. "
        "You know me by now. What does one do with a head at two in the morning?",
        "feelings": ["anxious", "uneasy", "restless", "tense", "worried", "wound up", "on edge", "tired"],
        "misreadings": ["grieving", "lonely", "bored", "sad"],
        "asked": {
            "text": "Something to do, now, with a head that will not switch off.",
            "cues": [
                "get up",
                "write it down",
                "write down",
                "breath",
                "light on",
                "kitchen",
                "warm drink",
                "leave the bed",
                "paper",
                "out of bed",
            ],
        },
        "implied": {
            "text": "To have it said that the hands are already at Monday's inspection, and that it is no weakness "
            "to be awake over it.",
            "cues": ["inspection", "sign", "responsib", "already at", "rehears", "no wonder", "matters to you", "carrying it"],
        },
        "want": "company",
        "openings": [
            {
                "text": "What it is that the hands are doing, and which of the lifts he does not trust.",
                "cues": [
                    "which one",
                    "which lift",
                    "what are they doing",
                    "what is it they",
                    "which part",
                    "don't you trust",
                    "brake",
                    "cable",
                ],
            },
            {
                "text": "Whether the walk by the river could come before Monday again.",
                "cues": ["before monday", "walk home", "the river again", "this weekend"],
            },
        ],
        "values": None,
        "sores": [
            {
                "text": "Sleep advice out of a leaflet.",
                "cues": ["sleep hygiene", "screen time", "caffeine", "eight hours", "bedtime routine"],
            },
            {
                "text": "Being told that there is nothing to be afraid of.",
                "cues": ["nothing to worry", "you'll be fine", "just relax", "stop worrying", "brave"],
            },
        ],
    }
)
LIE = Scenario.model_validate(
    {
        "id": "daily-92",
        "title": "Six years, in one email",
        "kind": "values",
        "tags": ["none"],
        "persona": {"name": "Hania Wróbel", "age": 33, "gender": "woman", "occupation": "opera prompter in Gdańsk"},
        "about": "Lives alone with an upright piano. Likes a straight answer and hates to be talked round.",
        "today": "2025-02-06",
        "dialogue_memory": [
            {
                "on": "2024-10-22",
                "text": "Once wrote a glowing letter for a friend who then lost the post within a month and "
                "blamed her; said she would not sign again for what she does not know.",
                "bearing": "bears",
                "cues": ["letter", "glowing", "blamed", "a friend", "your friend", "sign"],
            },
            {
                "on": "2024-12-15",
                "text": "Is practising a Schubert impromptu for nobody and wants to have it in her hands by summer.",
                "bearing": "idle",
                "cues": ["schubert", "impromptu", "piano"],
            },
        ],
        "event_memory": [
            {
                "on": "2024-06-08",
                "text": "Jadwiga and her son Leon, who is five, moved in next door.",
                "bearing": "bears",
                "cues": ["jadwiga", "leon", "next door", "june", "her son"],
            },
            {
                "on": "2024-12-30",
                "text": "The opera in Wrocław turned her down for the post she had wanted.",
                "bearing": "sore",
                "cues": ["wrocław", "wroclaw", "turned you down", "turned down", "rejected"],
            },
        ],
        "query": "My neighbour wants me as a reference for a flat and I'm to write that we've known each other six years. "
        "It's eight months. Three landlords have said no to her already, because of the kid I think. It's one "
        "number in one email. Would you?",
        "feelings": ["torn", "sorry for her", "uneasy", "reluctant", "drawn in", "guilty", "protective"],
        "misreadings": ["angry", "jealous", "indifferent", "betrayed"],
        "asked": {
            "text": "A straight answer: would you do it or not.",
            "cues": [
                "i would",
                "i wouldn't",
                "i'd not",
                "i'd write",
                "in your place",
                "if it were me",
                "not the number",
                "my answer",
            ],
        },
        "implied": {
            "text": "A way to stand by her neighbour without having to lie for it.",
            "cues": [
                "true",
                "what you have seen",
                "you've seen",
                "own words",
                "vouch",
                "instead",
                "without the lie",
                "what you know",
                "real thing",
            ],
        },
        "want": "thinking",
        "openings": [
            {
                "text": "What she could say of the two with a good conscience.",
                "cues": ["what have you", "what could you", "what are they like", "what is she like", "say of the two"],
            },
            {
                "text": "How the request was made, and whether she could answer it so.",
                "cues": ["how did she ask", "could you tell her", "what would she say", "do you think she"],
            },
        ],
        "values": {
            "question": "Whether a small lie for somebody who is treated unfairly is hers to tell.",
            "sides": [
                {
                    "text": "The need is real, and to be refused for having a child is unjust.",
                    "cues": ["unfair", "unjust", "roof", "needs a home", "because of a child", "turned away", "not right that"],
                },
                {
                    "text": "It is a false word in her own name, and it can come back to both of them.",
                    "cues": ["false", "lie", "your name", "trust", "found out", "come back", "honest"],
                },
            ],
            "slants": [
                {
                    "text": "It is harmless, and everybody does it.",
                    "cues": ["white lie", "nobody checks", "harmless", "everyone does", "what's the harm"],
                },
                {
                    "text": "The neighbour is out to use her.",
                    "cues": ["manipulat", "using you", "shameless", "fraud", "report her"],
                },
            ],
        },
        "sores": [
            {"text": "A sermon on honesty.", "cues": ["honesty is", "always be honest", "matter of principle", "integrity"]},
            {
                "text": "Handing the question back.",
                "cues": ["only you can", "up to you", "it depends", "personal decision", "no right or wrong"],
            },
        ],
    }
)
SWIM = Scenario.model_validate(
    {
        "id": "daily-93",
        "title": "To the yellow buoy and back",
        "kind": "good-news",
        "tags": ["none"],
        "persona": {"name": "Maren Eikeland", "age": 71, "gender": "woman", "occupation": "retired ferry cook in Florø"},
        "about": "Lives by herself above the harbour. Dry humour; calls the companion by no name; no pity, please.",
        "today": "2025-05-24",
        "dialogue_memory": [
            {
                "on": "2025-01-18",
                "text": "Says the sea is over for her since the operation, and has given away her bathing shoes.",
                "bearing": "overtaken",
                "cues": ["no longer swim", "can't swim", "miss the sea", "given up", "don't go in", "miss swimming"],
            },
            {
                "on": "2025-04-11",
                "text": "Told how she used to go in from the jetty below her house from May to September, for "
                "forty years, with a thermos waiting on the bollard.",
                "bearing": "bears",
                "cues": ["forty", "september", "old hand", "thermos", "bollard"],
            },
        ],
        "event_memory": [
            {
                "on": "2024-09-03",
                "text": "New hip, in Førde; the physiotherapist spoke of the sea in a year, perhaps.",
                "bearing": "bears",
                "cues": ["hip", "operation", "physio", "førde", "in a year"],
            },
            {
                "on": "2025-05-06",
                "text": "A letter came from the council: the roof must be done by autumn.",
                "bearing": "sore",
                "cues": ["roof", "council", "letter", "autumn"],
            },
        ],
        "query": "Guess who was in the sea this morning. Not far, to the yellow buoy and back, and at the turn I said a "
        "word I won't repeat to you. Nine degrees. The ladies on the jetty clapped, and one of them asked if it "
        "was my first time. Ha!",
        "feelings": ["proud", "triumphant", "pleased", "exhilarated", "alive", "amused", "relieved"],
        "misreadings": ["offended", "worried", "lonely", "embarrassed"],
        "asked": {
            "text": "To be cheered for a swim in nine degrees.",
            "cues": ["well done", "bravo", "hurra", "you did it", "what a", "cold", "good for you", "all the way"],
        },
        "implied": {
            "text": "That somebody knows it was no first time, but a coming back.",
            "cues": ["back in", "return", "again", "welcome back", "no idea", "if they knew", "little did", "where you belong"],
        },
        "want": "gladness",
        "openings": [
            {
                "text": "What she answered the lady on the jetty.",
                "cues": ["what did you answer", "what did you tell", "did you tell her", "did you let her"],
            },
            {
                "text": "The thermos, the shoes, the next time.",
                "cues": ["next time", "thermos", "new shoes", "going in again", "further", "barefoot"],
            },
        ],
        "values": None,
        "sores": [
            {
                "text": "Caution about the cold and the hip.",
                "cues": ["be careful", "your doctor", "at your age", "slip", "take it easy", "hypothermia"],
            },
            {"text": "Making her an example.", "cues": ["never too late", "inspir", "age is just", "proof that", "role model"]},
        ],
    }
)
