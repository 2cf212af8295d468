"""The report: pages of evaluation and training runs, rendered from stored runs. Plays no dialogue."""
