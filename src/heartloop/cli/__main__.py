"""`python -m heartloop.cli`."""

from heartloop.cli.main import main

main()
