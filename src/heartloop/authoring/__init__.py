"""Checks on written scenarios. Later: seed pools, writer, auditor, importers."""
