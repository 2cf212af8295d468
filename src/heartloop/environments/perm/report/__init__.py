"""PERM's part of the report: panel, glossary, published results."""
