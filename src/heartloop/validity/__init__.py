"""Suites that ask whether the numbers mean anything."""
