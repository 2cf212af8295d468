"""Checks on written scenarios, importers of what others released. Later: seed pools, writer, auditor."""
