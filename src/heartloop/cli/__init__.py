"""The command line: one module per command group, one short function per command."""
