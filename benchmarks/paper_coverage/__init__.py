"""Every item of the five papers: its state, its command and its test, as rows in TOML; `docs/papers.md` is written from them."""
