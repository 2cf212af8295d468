"""What `heartloop import` reads of the SAGE and RLVER releases: profiles as scenarios, dialogues as a run.

Covers profile files, each record whole. Does not cover dialogues (`logs`), nor how a released scenario is played (`released`).
"""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from heartloop.core.errors import InputError
from heartloop.environments.importing import Imported, Importer, problem_of, records
from heartloop.environments.sage.logs import COUNTED, read_logs
from heartloop.environments.sage.released import FORM, ReleasedProfile, ReleasedScenario

__all__ = ["LOGS", "PROFILES", "read_profiles"]


def read_profiles(source: Path) -> Imported:
    """The scenarios of a released profile file (test or training), each record whole.

    Raises:
        InputError: with file, line and field, for the first record that does not fit, or two equal ids.
    """
    scenarios: list[ReleasedScenario] = []
    seen: dict[str, int] = {}
    for record in records(source):
        if "history" in record.value:
            raise InputError(f"{record.place} is a dialogue, not a profile; use `heartloop import sage-logs {source}`")
        if "form" in record.value:
            raise InputError(f"{record.place} was imported before; use the file as it is: --scenarios {source}")
        try:
            profile = ReleasedProfile.model_validate(record.value)
        except ValidationError as error:
            raise problem_of(record, error) from error
        if profile.id in seen:
            raise InputError(f"{record.place}: id {profile.id!r} is already on line {seen[profile.id]}; remove one of the two")
        seen[profile.id] = record.number
        scenarios.append(ReleasedScenario(form=FORM, source=source.name, record=profile))
    silent = sum(not scenario.first_message for scenario in scenarios)
    without = f"{silent} of them have no first message and cannot be played until record.first_talk holds one."
    return Imported(scenarios=scenarios, notes=[without] if silent else [])


PROFILES = Importer(
    "A profile file of the SAGE or RLVER release (JSON lines), as scenarios for a user simulator model.", read_profiles
)
LOGS = Importer(
    "A released SAGE log (JSON lines), or a folder with one a model, as a run with the emotion and thoughts of every turn.",
    read_logs,
    COUNTED,
)
