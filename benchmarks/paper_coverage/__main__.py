"""Writes `docs/papers.md` from the rows; `--check` compares it and every name in the rows with the repository."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Sequence

from benchmarks.page import DOCS
from benchmarks.paper_coverage.rows import Item, Paper, problems, read_papers

PAGE = DOCS / "papers.md"
LEAST = 95
STATES = {
    "full": "A command does it, and a test compares it or its parts with numbers worked by hand or published.",
    "ready": "Command and test are there. At the paper's size it needs people, GPUs or thousands of written scenarios: not done.",
    "partly": "A part is missing.",
    "missing": "There is no command for it, or only for what surrounds it.",
}
NEEDS = {
    "nothing": "Runs as written, without a key. A test runs it.",
    "key": "Calls models of a provider. Names of models and files are examples.",
    "files": "Reads your own copy of what the authors published.",
    "train": "Trains a small policy on two cores, with the extra `train`.",
    "gpu": "Trains or evaluates a model of the paper's size on GPUs.",
    "people": "People have to rate, mark or converse.",
}


def page(papers: Sequence[Paper]) -> str:
    return "\n".join(_lines(papers))


def _lines(papers: Sequence[Paper]) -> Iterator[str]:
    items = [item for paper in papers for item in paper.item]
    yield "# Every item of the five papers\n"
    yield "What SAGE, RLVER, EIBench, EMPA and PERM describe, appendices included, with the command that does it here, and every"
    yield f"departure with its reason. {len(items)} items: {_counts(items)}. Written by `python -m benchmarks.paper_coverage`;"
    yield "`--check` fails where a file, command, option, recipe or suite that a row names is gone.\n"
    for head, meanings in (("state", STATES), ("needs", NEEDS)):
        yield f"| {head} | meaning |\n|---|---|"
        yield from (f"| {name} | {meaning} |" for name, meaning in meanings.items())
        yield ""
    yield f"| paper | items | {' | '.join(STATES)} |\n{'|---' * (len(STATES) + 2)}|"
    for paper in papers:
        counts: Counter[str] = Counter(item.state for item in paper.item)
        yield f"| {paper.title} | {len(paper.item)} | {' | '.join(str(counts[state]) for state in STATES)} |"
    for paper in papers:
        yield f"\n## {paper.title}\n"
        yield "| item | where | what | state | command | needs |\n|---|---|---|---|---|---|"
        for item in paper.item:
            state = f"{item.state}, [test](../{item.test})" if item.test else item.state
            command = "<br>".join(f"`{one}`" for one in item.commands).replace("|", "\\|") or "–"
            yield f"| {item.id} | {item.where} | {item.what} | {state} | {command} | {item.needs} |"
    yield "\n## What is not full\n"
    yield "| item | state | needs | what is missing, and why |\n|---|---|---|---|"
    yield from (f"| {item.id} | {item.state} | {item.needs} | {item.lacks} |" for item in items if item.state != "full")
    yield "\n## Departures\n"
    yield "Where this project differs from a paper or its released code, and why. No other page repeats them."
    for paper in papers:
        shared = [("all", text) for text in paper.shared]
        if lines := [*shared, *((item.id, text) for item in paper.item for text in item.departures)]:
            yield f"\n### Departures: {paper.title}\n"
            yield from (f"- **{name}** {text}" for name, text in lines)
    yield "\n### Departures that the audit found unnamed\n"
    yield "Mended ones are no departures any more, by default or by the option that is named.\n"
    yield "| no | | what is so now |\n|---|---|---|"
    audited = sorted((row for paper in papers for row in paper.departure), key=lambda row: int(row.id[1:]))
    yield from (f"| {row.id} | {row.now} | {row.text} |" for row in audited)
    yield ""


def _counts(items: Sequence[Item]) -> str:
    counts: Counter[str] = Counter(item.state for item in items)
    return ", ".join(f"{counts[state]} {state}" for state in STATES if counts[state])


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser("python -m benchmarks.paper_coverage", description=__doc__)
    parser.add_argument("--check", action="store_true", help=f"write nothing; fail on a wrong row, or below {LEAST} full ones")
    papers = read_papers()
    items = [item for paper in papers for item in paper.item]
    if not parser.parse_args().check:
        PAGE.write_text(page(papers), encoding="utf-8")
        return
    wrong = list(problems(papers))
    if PAGE.read_text(encoding="utf-8") != page(papers):
        wrong.append(f"{PAGE.name} differs from the rows; run python -m benchmarks.paper_coverage")
    if sum(item.state == "full" for item in items) < LEAST:
        wrong.append(f"fewer than {LEAST} items are full")
    print(f"{sum(item.state == 'full' for item in items)} of {len(items)} full ({_counts(items)})")
    sys.exit("\n".join(wrong) or 0)


if __name__ == "__main__":
    main()
