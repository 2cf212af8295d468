"""Compares the behaviour of the code with a recorded reference: `python -m benchmarks.unchanged compare`

`record` writes short hashes of every item to `benchmarks/results/unchanged.json`. `compare` names the items that differ from it
and exits with 1, or prints PASS. `--dump DIR` writes the canonical JSON of each item to a file, so that two versions of the code
can be compared with `diff -r`. A whole comparison takes about half a minute of one core, `--quick` a few seconds.

Covers, for all seven environments (EQ-Bench3 with the invented checkout of the tests), with policies and roles that answer by the
hash of what they are asked (`models`):

- `play`: dialogues in every preset, variant and option, unusable answers and failed calls included: the transcript, and every
  request in order with messages, schema, sampling and cache key; `cache`: the rows of the cache after such a dialogue;
- `rescored`, `rejudged`: these dialogues by other score options, and by a scripted judge; `perturbed`: EMPA's dialogues in every
  variant of its validity suite; `card`: the numbers of the score card;
- `prompt`, `table`, `file`: contents of prompt files, TOML tables and scenario files; `scenario`: fingerprints; `composed`:
  EIBench's training set; `stratified`, `seed`: choice of scenarios and seeds of dialogues; `catalogue`: names and defaults;
- `recipe`: settings, settings for verl and scenarios of each recipe and variant; `training`: its samples, rewards and advantages.

Does not cover the embedded users (their weights may be fitted again at any time), the baselines, the command line, run
directories and their hashes, endpoints, reports, importers, the scenario writer (its prompt files only), integrations, and what
needs torch or verl. Error sentences (`Failure.detail`) are not compared; roles and kinds are.

Record again only for a deliberate change of behaviour, and only where a comparison has shown that nothing else differs. Floats
are compared to 10 significant digits.

Deliberate changes so far: the schemas that are sent are bounded (`heartloop.core.schemas`). That changed the parts `schemas` and
`keys` of `play`, `keys` of `rejudged`, the requests in `perturbed`, and keys and the order of rows in `cache`; messages, sampling
and all that follows from the answers stayed equal. Score cards count broken formats (`broken_formats`) and have the intervals of
shares (`success_low` and the like); recipes have the setting `algorithm.shuffled`, which verl is told; three are new. The
environment `stances` and the prompts of the validity suites are new; of the items before, only the list of all environments
(`catalogue/all`) differs. Every request for an answer ends with a tag, which the answer holds
(`heartloop.core.tags`): in 1,517 of 3,195 items messages, schemas, keys, the texts and tags of calls, and estimated tokens differ
by it; scores, states, verdicts and settings stayed equal. The scripted roles draw their answers from the messages without it.
"""
