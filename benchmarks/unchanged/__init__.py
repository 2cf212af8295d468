"""Compares the behaviour of the code with a recorded reference: `python -m benchmarks.unchanged compare`

`record` writes short hashes of every item to `benchmarks/results/unchanged.json`. `compare` names the items that differ from it
and exits with 1, or prints PASS. `--dump DIR` writes the canonical JSON of each item to a file, so that two versions of the code
can be compared with `diff -r`. A whole comparison takes about two minutes of one core, `--quick` a few seconds.

Covers, for all six environments (EQ-Bench3 with the invented checkout of the tests):

- `play`: every baseline with the embedded user and default options; fewer baselines with every other preset, variant and option;
  a policy that breaks the answer form, and one whose call fails;
- `llm`: the roles played by a scripted model (`models.Scripted`), unusable answers and failed calls included: the transcript, and
  every request in order with messages, schema, sampling and cache key; `cache`: the rows of the cache after such a dialogue;
- `rescored`, `rejudged`: stored dialogues by other score options, and by the embedded and a scripted judge; `perturbed`: EMPA's
  dialogues in every variant of its validity suite;
- `prompt`, `table`, `file`: contents of prompt files, TOML tables and scenario files; `scenario`: fingerprints; `composed`:
  EIBench's training set; `stratified`, `seed`: choice of scenarios and seeds of dialogues; `catalogue`: names and defaults;
- `recipe`: settings, settings for verl and scenarios of each recipe and variant; `training`: its samples, rewards and advantages;
- `card`: the numbers of the score card.

Does not cover the command line, run directories and their hashes, endpoints, reports, importers, the scenario writer (its prompt
files only), integrations, and what needs torch or verl. Error sentences (`Failure.detail`) are not compared; roles and kinds are.

The reference was recorded with the code before issue 15 (commit 7904ce1), under today's names. The API stands in `tree` alone;
the `tree` of that recording is this package's first version in the history. Record again only for a deliberate change of
behaviour, and only where a comparison has shown that nothing else differs. Floats are compared to 10 significant digits.
"""
